"""Repair what the theme and Jupyter Book write into every page: scripts that nobody needs, names, landmarks, images.

The repairs are made in the finished HTML, which passes through Sphinx's template bridge, so they need no script.
"""

import re
from pathlib import Path
from urllib.parse import unquote

from PIL import Image
from sphinx.jinja2glue import BuiltinTemplateLoader

from . import icons

REPAIRS = [
    # Icons are drawn by the stylesheet (icons.py).
    (r"\s*<!-- So that users can add custom icons -->\s*<script [^>]*/fontawesome\.js[^>]*></script>", ""),
    # What the visible text says is the name (WCAG 2.5.3).
    (r'(<button class="btn search-button-field[^>]*) title="Search" aria-label="Search"', r"\1"),
    (r'<summary aria-label="Toggle hidden content">', "<summary>"),
    # A corner of a table with nothing in it heads nothing.
    (r'<th class="([^"]*)"><p></p></th>', r'<td class="\1"></td>'),
    # A list has items; the special role for sources is given up (DPUB-ARIA 1.1).
    (r'role="doc-biblioentry"', 'role="listitem"'),
    # The book's title and the search box, too, belong to a landmark.
    (r'<div id="pst-primary-sidebar"', r'\g<0> role="complementary" aria-label="Sidebar"'),
]
# Search as you type is off in Jupyter Book, so only the search page needs the index.
SEARCH = re.compile(r'\s*<script src="[^"]*\b(?:searchtools|language_data|searchindex)\.js[^"]*"></script>')
IMAGE = re.compile(r'<img (?=[^>]*\bsrc="(?:\.\./)*_images/([^"]+)")(?![^>]*\b(?:width|height)=)')
LENGTH = re.compile(r'\s(width|height)="([\d.]+)(pt|px|)"')
PIXELS = {"pt": 4 / 3, "px": 1, "": 1}


def size(file):
    """Return an image's width and height in CSS pixels, or nothing for a drawing that does not say."""
    if file.suffix != ".svg":
        with Image.open(file) as image:
            return image.size
    root = re.search(r"<svg\b[^>]*>", file.read_text(encoding="utf-8"))[0]
    lengths = {name: round(float(value) * PIXELS[unit]) for name, value, unit in LENGTH.findall(root)}
    return (lengths["width"], lengths["height"]) if len(lengths) == 2 else None


class Bridge(BuiltinTemplateLoader):
    """Sphinx's templates, repaired."""

    def init(self, builder, theme=None, dirs=None):
        """Remember the builder, which knows where images come from."""
        super().init(builder, theme, dirs)
        self.builder = builder

    def render(self, template, context):
        """Return one page's HTML."""
        html = super().render(template, context)
        if not template.endswith(".html"):
            return html
        for pattern, repaired in REPAIRS:
            html = re.sub(pattern, repaired, html)
        if template != "search.html":
            html = SEARCH.sub("", html)
        files = {name: source for source, name in self.builder.images.items()}
        html = IMAGE.sub(lambda tag: tag[0] + self.attributes(files[unquote(tag[1])]), html)
        return icons.use(html, context["pagename"])

    def attributes(self, source):
        """Return what lets the browser keep an image's place, and fetch it only when it comes near."""
        pixels = size(Path(self.builder.srcdir, source))
        return 'loading="lazy" ' + ('width="{}" height="{}" '.format(*pixels) if pixels else "")


def drop_thebe(app, config):
    """Silence sphinx-thebe, which Jupyter Book always loads: cells run in the page in another way (_ext/live)."""
    for listeners in app.events.listeners.values():
        listeners[:] = [it for it in listeners if it.handler.__module__ != "sphinx_thebe"]
    app.registry.css_files[:] = [it for it in app.registry.css_files if it[0] != "sphinx-thebe.css"]


def setup(app):
    """Register with Sphinx."""
    app.config.template_bridge = f"{__name__}.Bridge"
    app.connect("config-inited", drop_thebe)
