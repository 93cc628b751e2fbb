// What all widgets use: elements, controls for pointer, touch and keyboard, announcements, numbers, and heat maps.

/** An HTML element: attributes (`class`, `text` and `on…` listeners among them), then children. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element, in the same way. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

let counted = 0;

/** A new id, for labels; chance keeps apart those of widgets whose scripts each count for themselves. */
export function newId() {
  counted += 1;
  return `tb-${counted}-${Math.random().toString(36).slice(2, 7)}`;
}

/** The widget's own room in `el`; `say(text)` announces to screen readers what just changed. */
export function room(el, model, name) {
  const status = element("div", { class: "tb-unseen", role: "status", "aria-live": "polite" });
  const root = element("section", { class: `tb-widget tb-${name}`, "aria-label": model.get("title") });
  el.append(root);
  root.append(status);
  let waiting;
  const say = (text) => {
    clearTimeout(waiting); // while something is dragged, only where it comes to rest is said
    waiting = setTimeout(() => { status.textContent = text; }, 250);
  };
  // A notebook takes keys for itself: those pressed in a widget are the widget's.
  root.addEventListener("keydown", (event) => { if (event.key !== "Tab") event.stopPropagation(); });
  return { root, say };
}

/** The figure in words, folded: what a reader without the picture needs, at first Python's HTML. Returns { node, set }. */
export function inWords(html, label = "In words") {
  const body = element("div", { class: "tb-words" });
  const node = element("details", { class: "tb-details" }, element("summary", { text: label }), body);
  body.innerHTML = html;
  return { node, set: (...nodes) => body.replaceChildren(...nodes) };
}

/** Set a value of the model and tell Python, if there is one. */
export function put(model, name, value) {
  model.set(name, value);
  model.save_changes();
}

/** Call `act` now and whenever one of these values changes; returns a function that stops it. */
export function watch(model, names, act) {
  for (const name of names) model.on(`change:${name}`, act);
  act();
  return () => names.forEach((name) => model.off(`change:${name}`, act));
}

/** A slider. `show(value)` gives the words beside it. Returns { node, input, set }. */
export function slider({ label, min, max, step = 1, value, show = String, onInput }) {
  const id = newId();
  const out = element("output", { class: "tb-value", for: id, "aria-live": "off" });
  const input = element("input", { id, type: "range", min, max, step });
  const clamp = (v) => Math.min(max, Math.max(min, Number(v.toFixed(10))));
  const set = (v) => {
    input.value = v;
    out.textContent = show(Number(v));
    input.setAttribute("aria-valuetext", show(Number(v)));
  };
  const move = (v) => { set(clamp(v)); onInput(clamp(v)); };
  input.addEventListener("input", () => move(Number(input.value)));
  // Handled here because JupyterLab keeps the arrow keys from a range input.
  const page = Math.max(step, Math.round((max - min) / 10 / step) * step);
  input.addEventListener("keydown", (event) => {
    const by = { ArrowRight: step, ArrowUp: step, ArrowLeft: -step, ArrowDown: -step, PageUp: page, PageDown: -page }[event.key];
    const to = { Home: min, End: max }[event.key] ?? (by && Number(input.value) + by);
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  });
  set(value);
  const node = element("div", { class: "tb-control tb-slider" }, element("label", { for: id, text: label }), input, out);
  return { node, input, set };
}

/** A list to choose from; `options` are [value, words] pairs. Returns { node, input, set }. */
export function choice({ label, options, value, onInput }) {
  const id = newId();
  const input = element("select", { id }, ...options.map(([v, words]) => element("option", { value: v, text: words })));
  const set = (v) => { input.value = v; };
  input.addEventListener("change", () => onInput(options[input.selectedIndex][0]));
  set(value);
  return { node: element("div", { class: "tb-control" }, element("label", { for: id, text: label }), input), input, set };
}

/** A check box. Returns { node, input, set }. */
export function toggle({ label, value, onInput }) {
  const input = element("input", { type: "checkbox" });
  const set = (v) => { input.checked = v; };
  input.addEventListener("change", () => onInput(input.checked));
  set(value);
  return { node: element("label", { class: "tb-control tb-toggle" }, input, element("span", { text: label })), input, set };
}

/**
 * A number to type. What is no number, or out of range, is marked and said in words, and not passed on.
 * Returns { node, input, set }.
 */
export function numberField({ label, value, min = -Infinity, max = Infinity, whole = false, onInput }) {
  const id = newId();
  const hint = element("span", { class: "tb-hint", id: `${id}-hint` });
  const input = element("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", "aria-describedby": hint.id });
  const wanted = `${whole ? "a whole number" : "a number"}${range(min, max)}`;
  const check = () => {
    const text = input.value.trim().replace(/[,\u2009\u202f_]/g, "");
    const v = Number(text);
    const fits = text !== "" && Number.isFinite(v) && v >= min && v <= max && (!whole || Number.isInteger(v));
    input.setAttribute("aria-invalid", String(!fits));
    hint.textContent = fits ? "" : `${wanted}, please`;
    return fits ? v : undefined;
  };
  const set = (v) => {
    if (document.activeElement !== input) input.value = v;
    check();
  };
  input.addEventListener("input", () => { const v = check(); if (v !== undefined) onInput(v); });
  set(value);
  return { node: element("div", { class: "tb-control" }, element("label", { for: id, text: label }), input, hint), input, set };
}

function range(min, max) {
  if (Number.isFinite(min) && Number.isFinite(max)) return ` from ${grouped(min)} to ${grouped(max)}`;
  if (Number.isFinite(min)) return `, at least ${grouped(min)}`;
  return Number.isFinite(max) ? `, at most ${grouped(max)}` : "";
}

/** A button. */
export function button(label, onPress, attributes = {}) {
  return element("button", { type: "button", class: "tb-button", text: label, onclick: onPress, ...attributes });
}

/** A whole number with commas, exact for BigInt too. */
export function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** A number in `digits` decimals with a true minus sign; no negative zero. */
export function decimal(value, digits = 2) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "\u2212");
}

/** A colour from the page's ground (0) to full strength (1); `hue` is "accent", "warm" or "third". Follows light and dark. */
export function shade(share, hue = "accent") {
  const percent = Math.round(100 * Math.min(1, Math.max(0, share)));
  return `color-mix(in oklab, var(--tb-${hue}) ${percent}%, var(--tb-ground))`;
}

/** Two hues about 0: blue above, orange below, for values in units of `most`. */
export function signed(value, most) {
  return shade(most ? Math.abs(value) / most : 0, value < 0 ? "warm" : "accent");
}

/** Move by the arrow keys in a grid of rows × columns; returns the new [row, column], or undefined for another key. */
export function stepped(key, row, column, rows, columns) {
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
  if (key === "Home") return [row, 0];
  if (key === "End") return [row, columns - 1];
  return by && [Math.min(rows - 1, Math.max(0, row + by[0])), Math.min(columns - 1, Math.max(0, column + by[1]))];
}

/** A whole number from 0 to count - 1, whatever was set from Python. */
export function clip(value, count) {
  return Math.min(Math.max(Math.trunc(value) || 0, 0), count - 1);
}

/** Thousandths as percent: 12.3%, and <0.1% for what is not quite nothing. */
export function percent(thousandths) {
  return thousandths ? `${(thousandths / 10).toFixed(1)}%` : "<0.1%";
}

/** A token's text without the spaces around it, for labels. */
export function bare(piece) {
  return piece.trim() || "␣";
}

/** A token's text in a sentence; its spaces are kept, and no line ends at one. */
export function quoted(piece) {
  return `“${piece.replaceAll(" ", "\u00a0")}”`;
}

/** A table of text; the first entry of each row names it. */
export function table(caption, head, rows) {
  const line = (cells, tag, scope) => element("tr", {}, ...cells.map((text, i) =>
    i === 0 || tag === "th" ? element("th", { scope, text }) : element(tag, { text })));
  return element("table", {}, element("caption", { text: caption }),
    element("thead", {}, line(head, "th", "col")),
    element("tbody", {}, ...rows.map((cells) => line(cells, "td", "row"))));
}

/**
 * Tokens as buttons, one of them pressed; the arrow keys move. `onHover(index)` hears where a mouse is, undefined when
 * it left. Returns { node, set }; `set(pieces, at)` shows them and returns the buttons, for what else stands on them.
 */
export function tokenRow({ label, onPick, onHover }) {
  const node = element("div", { class: "tb-tokens", role: "toolbar", "aria-label": label });
  let buttons = [];
  let shown;
  const make = (piece, index) => element("button", {
    type: "button", class: "tb-token", onclick: () => onPick(index),
    onpointerenter: (event) => { if (event.pointerType === "mouse") onHover?.(index); },
  }, element("span", { text: bare(piece) }), element("small"));
  node.addEventListener("pointerleave", () => onHover?.());
  node.addEventListener("keydown", (event) => {
    const to = stepped(event.key, 0, buttons.indexOf(document.activeElement), 1, buttons.length);
    if (!to) return;
    event.preventDefault();
    onPick(to[1]);
    buttons[to[1]].focus();
  });
  const set = (pieces, at) => {
    if (pieces !== shown) {
      buttons = pieces.map(make);
      node.replaceChildren(...buttons);
      shown = pieces;
    }
    buttons.forEach((it, index) => {
      it.setAttribute("aria-pressed", String(index === at));
      it.tabIndex = index === at ? 0 : -1;
    });
    return buttons;
  };
  return { node, set };
}
