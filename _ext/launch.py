"""Make a chapter's buttons open its notebook: Colab and plain Jupyter cannot open chapters/X.md.

The theme derives the Binder and Colab addresses from the page's source; here `chapters/X.md` becomes
`notebooks/X.ipynb` in them, and the notebook that the download button offers becomes that one too.
"""

import shutil
from pathlib import Path

from sphinx.util import logging

logger = logging.getLogger(__name__)


def open_notebook(app, pagename, templatename, context, doctree):
    """Rewrite the launch buttons of one page."""
    groups = [group for group in context.get("header_buttons", []) if group.get("label") == "launch-buttons"]
    if not groups:
        return
    notebook = f"notebooks/{Path(pagename).name}.ipynb"
    if not Path(pagename).name[0].isdigit():  # a page for the book alone has no notebook
        context["header_buttons"] = [group for group in context["header_buttons"] if group is not groups[0]]
        return
    if not Path(app.srcdir, notebook).exists():
        logger.warning("%s is missing: run make notebooks", notebook, location=pagename)
        return
    for button in groups[0]["buttons"]:
        if button["type"] == "link":
            button["url"] = button["url"].replace(f"{pagename}.md", notebook)
    shutil.copyfile(Path(app.srcdir, notebook), Path(app.outdir, "_sources", f"{pagename}.ipynb"))


def setup(app):
    """Register with Sphinx."""
    # The theme makes its buttons at priority 501.
    app.connect("html-page-context", open_notebook, priority=900)
    return {"version": "1", "parallel_read_safe": True}
