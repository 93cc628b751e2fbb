"""Bring the cells of a chapter's page to life: the reader changes and runs them in the browser, by Pyodide.

While the book is built, `build` lists each page's cells and makes what the scripts in js/ fetch; `runtime` says where
Pyodide comes from. In the page, `needs` finds what a cell needs of those above, `page` runs it, and `show` sends what
it prints and draws.
"""


def setup(app):
    """Register with Sphinx."""
    from . import build  # the page has this package, too, and no Sphinx

    return build.setup(app)
