"""Keep anywidgets alive in the built page: no kernel, no request to another site, readable before any script.

myst-nb writes the state of all widgets of a page into one script, for a loader from a CDN. Here each widget's own state
stands where the widget stands, below its words (the trait `words`, HTML), and `static_widgets.js` draws it.
"""

import html
import json
import os
import re
from pathlib import Path

from docutils import nodes
from myst_nb.core.render import WIDGET_VIEW_MIMETYPE
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.util import logging

logger = logging.getLogger(__name__)
VIEW = re.compile(rf'<script type="{re.escape(WIDGET_VIEW_MIMETYPE)}">(.*)</script>', re.DOTALL)
# every widget has these; a page needs none of them
BOOKKEEPING = re.compile(r"_(model|view|dom)_\w+|_anywidget_id|layout|tabbable|tooltip")


def place(app, doctree):
    """Give each view of the page its widget's words and state; drop the page's state."""
    scripts = NbMetadataCollector.get_doc_data(app.env)[app.env.docname].get("js_files", {})
    _, saved = scripts.pop("ipywidgets_state", (None, {}))
    states = json.loads(saved["body"])["state"] if saved else {}
    for raw in list(doctree.findall(nodes.raw)):
        found = VIEW.fullmatch(raw.astext())
        if not found:
            continue
        view = json.loads(found[1])
        view = json.loads(view) if isinstance(view, str) else view
        state = states.get(view["model_id"], {}).get("state", {})
        if not state.get("_esm") or not state.get("words"):
            what = state.get("_model_name", "a widget whose state was not saved")
            logger.warning("%s is dead in a page; show widgets by widgets.base", what, location=raw, subtype="widget")
            continue
        raw.children = [nodes.Text(written(state))]
        app.env.metadata[app.env.docname]["has_widgets"] = True


def written(state):
    """One widget as HTML."""
    kept = {key: value for key, value in state.items() if not BOOKKEEPING.fullmatch(key)}
    words, title = kept["words"], html.escape(kept["title"])
    text = json.dumps(kept).replace("</", "<\\/").replace("<!--", "\\u003c!--")  # nothing in it may end the script
    return (
        f'<div class="static-widget" role="group" aria-label="{title}"><div class="static-widget-words">{words}</div>'
        f'<script type="application/json">{text}</script></div>'
    )


def for_pages(app, config):
    """No loader from a CDN; and the cells know that what they show has no kernel (`widgets.play`)."""
    config.nb_ipywidgets_js = {}
    os.environ["TRANSFORMER_BLOCK_BOOK"] = "1"


def add_script(app, pagename, templatename, context, doctree):
    """Load the loader on pages that have a widget."""
    if app.env.metadata.get(pagename, {}).get("has_widgets"):
        app.add_js_file("static_widgets/static_widgets.js", loading_method="defer")


def setup(app):
    """Register with Sphinx."""
    # Not below the book's own _static: from there Jupyter Book adds every script to every page.
    static = str(Path(__file__).parent / "static")
    app.connect("config-inited", for_pages)
    app.connect("builder-inited", lambda app: app.config.html_static_path.append(static))
    app.connect("doctree-read", place)
    app.connect("html-page-context", add_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
