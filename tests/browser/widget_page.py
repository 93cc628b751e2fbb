"""A bare page with one widget in it, to test the widget before and apart from the book."""

import contextlib
import json

from _ext import static_widgets
from tests.browser import site

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}  # for `watched`
# The model holds values and tells of changes, as anywidget's does; `model` and `unrender` are there for tests.
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>A widget</title><link rel="icon" href="data:,"><style>
body { font-family: sans-serif; margin: 16px; background: #fff; color: #1f2328; }
html[data-theme="dark"] body { background: #14181e; color: #e6edf3; }
%(css)s</style></head><body><main><h1>A widget</h1><div id="widget"></div></main>
<script>
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", follow);
follow();
</script>
<script type="module">
const values = %(state)s;
const listeners = new Map();
globalThis.model = {
  get: (name) => values[name],
  set(name, value) {
    const old = values[name];
    values[name] = value;
    if (old !== value) for (const act of [...(listeners.get(`change:${name}`) ?? [])]) act();
  },
  save_changes() {},
  on: (event, act) => listeners.set(event, (listeners.get(event) ?? new Set()).add(act)),
  off: (event, act) => (act ? listeners.get(event)?.delete(act) : listeners.delete(event)),
};
const { default: widget } = await import(URL.createObjectURL(new Blob([%(esm)s], { type: "text/javascript" })));
globalThis.unrender = await widget.render({ model, el: document.querySelector("#widget") });
document.body.dataset.ready = "";
</script></body></html>"""


@contextlib.contextmanager
def served_widget(widget, folder):
    """Serve a page with this widget from a folder; yield its address."""
    state = widget.get_state()
    kept = {name: value for name, value in state.items() if not static_widgets.BOOKKEEPING.fullmatch(name)}
    values = {name: value for name, value in kept.items() if name not in ("_esm", "_css")}
    script = {
        name: json.dumps(value).replace("<", "\\u003c") for name, value in (("state", values), ("esm", state["_esm"]))
    }
    (folder / "widget.html").write_text(PAGE % {**script, "css": state["_css"]}, encoding="utf-8")
    with site.served(folder) as address:
        yield f"{address}widget.html"


def opened(page, address):
    """The page, with the widget drawn in it."""
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    return page


def sideways(page):
    """By how many pixels the page is wider than its window: 0 for a good page."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
