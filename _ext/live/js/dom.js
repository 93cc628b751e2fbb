// Small helpers to make elements.

/** A new element with these properties and children; what is no property (role, aria-…) becomes an attribute. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && !name.startsWith("aria")) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
