"""Make every page light, quiet and accessible: formulas and icons without scripts, nothing asked of another site.

`formulas` sets the mathematics when the book is built, `icons` cuts the theme's icons down to those in use, and
`tidy` repairs what the theme writes. Each says why in its first lines.
"""

import shutil
from pathlib import Path

from . import formulas, icons, tidy


def place(app):
    """Make a static folder: what lies in the book's own _static, Jupyter Book adds to every page."""
    folder = Path(app.outdir).parent / ".page"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(__file__).with_name("static"), folder)
    formulas.place(folder)
    icons.place(folder)
    app.config.html_static_path.append(str(folder))


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", place)
    app.add_css_file("page/page.css")
    app.add_js_file("page/scroll.js", loading_method="defer")
    formulas.setup(app)
    tidy.setup(app)
    # Processes that write pages side by side would share the one connection to KaTeX.
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
