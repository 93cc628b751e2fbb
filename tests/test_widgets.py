"""What all widgets have in common: how they are made, what they are in words, and how the book's pages keep them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document
from myst_nb.core.render import WIDGET_STATE_MIMETYPE, WIDGET_VIEW_MIMETYPE

from _ext import static_widgets
from tests.node import MODULE
from widgets import base

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(file.stem for file in (ROOT / "widgets").glob("*.js") if file.with_suffix(".py").exists())


@pytest.fixture
def made():
    return base.show(
        NAMES[0], "A <title>", "<p>Some words.</p>", {"rows": [1, 2]}, layer=3, share=0.5, sink=True, who="a"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_widget_is_one_module_that_defines_render(name, tmp_path):
    file = tmp_path / "widget.mjs"
    file.write_text(base.script(name), encoding="utf-8")
    ask = f'const m = await import("{file.as_uri()}"); console.log(typeof m.default.render)'
    said = subprocess.run([*MODULE, ask], capture_output=True, text=True)
    assert (said.stdout, said.stderr) == ("function\n", "")


@pytest.mark.parametrize("name", NAMES)
def test_the_names_in_a_style_sheet_are_the_widgets_own(name):
    own = base.HERE / f"{name}.css"
    found = re.findall(r"\.(-?[a-z_][\w-]*)", re.sub(r"/\*.*?\*/|\d*\.\d+\w*", "", own.read_text(), flags=re.S))
    assert all(each.startswith("tb-") for each in found), found


def test_values_are_set_and_read_and_keep_their_kind(made):
    assert (made.layer, made.share, made.sink, made.who, made.data) == (3, 0.5, True, "a", {"rows": [1, 2]})
    made.layer = 4
    assert made.layer == 4 and {"layer", "share", "sink", "who", "data", "words", "title"} <= set(made.keys)
    with pytest.raises(Exception, match="layer"):
        made.layer = "four"


def test_a_value_with_a_name_of_ipywidgets_own_is_refused():
    with pytest.raises(ValueError, match="a value cannot be called layout, ipywidgets uses that name"):
        base.show(NAMES[0], "A title", "<p>Words.</p>", {}, layout="half")


def test_a_viewer_without_widgets_shows_the_words(made):
    shown = made._repr_mimebundle_()
    data = shown[0] if isinstance(shown, tuple) else shown
    assert WIDGET_VIEW_MIMETYPE in data
    assert data["text/html"] == "<p>Some words.</p>"
    assert data["text/plain"] == "A <title> (an interactive figure)"


def test_without_anywidget_there_are_the_words_and_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    base._widget_class.cache_clear()
    shown = base.show(NAMES[0], "A <title>", "<p>Some words.</p>", {}, layer=3)
    assert "A &lt;title&gt;" in shown._repr_html_() and "<p>Some words.</p>" in shown._repr_html_()
    assert "pip install anywidget" in shown._repr_html_() and "pip install anywidget" in repr(shown)


def placed(view, state):
    """What becomes of a page with one widget: its HTML, the page's scripts, what is known of the page, the warnings."""
    doctree = new_document("page")
    text = f'<script type="{WIDGET_VIEW_MIMETYPE}">{json.dumps(view)}</script>'
    doctree += nodes.raw("", text, format="html")
    body = json.dumps({"state": state, "version_major": 2})
    scripts = {"ipywidgets_state": (None, {"type": WIDGET_STATE_MIMETYPE, "body": body})}
    env = SimpleNamespace(docname="page", metadata={"page": {}}, nb_metadata={"page": {"js_files": scripts}})
    static_widgets.place(SimpleNamespace(env=env), doctree)
    return doctree.astext(), scripts, env.metadata["page"]


def test_in_a_page_a_widget_has_its_words_and_its_state(made):
    state = made.get_state() | {"words": "<p>1 < 2 </script></p>"}
    state = {key: value for key, value in state.items() if key != "layout"}
    text, scripts, page = placed({"model_id": "m1"}, {"m1": {"state": state}})
    assert page == {"has_widgets": True} and scripts == {}
    words, written = re.fullmatch(
        r'<div class="static-widget" role="group" aria-label="A &lt;title&gt;">'
        r'<div class="static-widget-words">(.*?)</div>'
        r'<script type="application/json">(.*?)</script></div>',
        text,
    ).groups()
    assert words == "<p>1 < 2 </script></p>"
    kept = json.loads(written)
    assert kept["words"] == words and kept["layer"] == 3 and kept["_esm"] == base.script(NAMES[0])
    assert not [key for key in kept if key.startswith(("_model", "_view", "layout"))]


@pytest.mark.parametrize("state", [{}, {"m1": {"state": {"_model_name": "IntSliderModel", "value": 3}}}])
def test_a_widget_that_would_be_dead_in_the_page_is_a_warning(state, monkeypatch):
    said = []
    monkeypatch.setattr(static_widgets.logger, "warning", lambda text, *about, **where: said.append(text % about))
    text, _, page = placed({"model_id": "m1"}, state)
    assert len(said) == 1 and said[0].endswith("is dead in a page; show widgets by widgets.base")
    assert page == {} and "static-widget" not in text
