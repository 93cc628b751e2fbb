// Draws the page's anywidgets from the state that stands beside each of them. A plain script: it works from a folder, too.
(() => {
  const modules = new Map();

  /** anywidget's model, without a kernel: values, and those who want to know of their changes. */
  function modelOf(values) {
    const listeners = new Map();
    const tell = (event, ...words) => [...(listeners.get(event) ?? [])].forEach((listener) => listener(...words));
    return {
      get: (name) => values[name],
      set(name, value) {
        if (values[name] === value) return;
        values[name] = value;
        tell(`change:${name}`, this, value);
        tell("change", this);
      },
      on: (event, listener) => listeners.set(event, (listeners.get(event) ?? new Set()).add(listener)),
      off: (event, listener) => listener ? listeners.get(event)?.delete(listener) : listeners.delete(event),
      save_changes() {},
      send() {},
    };
  }

  /** The widget that a module's text defines; two of one kind share it. */
  function widgetOf(text) {
    if (!modules.has(text)) {
      const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      modules.set(text, import(address).then(({ default: made }) => typeof made === "function" ? made() : made));
    }
    return modules.get(text);
  }

  async function draw(place) {
    const { _esm, _css, ...values } = JSON.parse(place.querySelector("script").textContent);
    const words = place.querySelector(".static-widget-words");
    const el = document.createElement("div");
    try {
      const widget = await widgetOf(_esm);
      const sheet = document.createElement("style");
      sheet.textContent = _css ?? "";
      const model = modelOf(values);
      await widget.initialize?.({ model });
      await widget.render({ model, el });
      // The widget names itself, and has the words, too.
      place.removeAttribute("role");
      place.removeAttribute("aria-label");
      words.replaceWith(sheet, el);
    } catch (error) {
      console.error(error);
      words.insertAdjacentHTML("beforebegin", "<p><em>The moving figure did not start in this browser. In words:</em></p>");
    }
  }

  document.querySelectorAll(".static-widget").forEach(draw);
})();
