"""Draw the theme's icons from a font of only those in use, in the theme's own styles, instead of by a script of 1.5 MB.

The theme ships Font Awesome twice: as a script that puts SVG in the place of each icon, and as fonts with styles that
do the same. The fonts, cut down, go into the stylesheet itself: icons are there at once and cost no request.
"""

import base64
import hashlib
import re
from functools import cache
from io import BytesIO
from pathlib import Path

import pydata_sphinx_theme
import sphinx_book_theme
from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.util import logging

logger = logging.getLogger(__name__)
# What the pages use; a page with another icon warns: name it here.
ICONS = set(
    """
    angle-left angle-right arrow-up bars circle-half-stroke code download expand file file-pdf github lightbulb list
    magnifying-glass moon play rocket sun
    """.split()
)
MANNERS = {"solid", "regular", "brands", "lg"}  # classes that say how to draw an icon, not which

THEME = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme" / "static"
BOOK_THEME = Path(sphinx_book_theme.__file__).parent / "theme" / "sphinx_book_theme" / "static"
RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"[^"]*"\}')
FONT = re.compile(r"src:url\(\.\./vendor/fontawesome/webfonts/(fa-[a-z]+-\d+)\.woff2\)[^;}]*")
LINK = re.compile(r"styles/pydata-sphinx-theme\.css\?digest=\w+")


def cut_rules(css):
    """Drop the rules of icons that are not in use: a fifth of the stylesheet."""
    return RULE.sub(lambda rule: rule[0] if ICONS & set(re.findall(r"\.fa-([a-z0-9-]+):", rule[1])) else "", css)


def characters(css):
    """Return the icons' characters in a stylesheet, escaped or not: they are in Unicode's private use area."""
    escaped = (int(code, 16) for code in re.findall(r"\\(f[0-9a-f]{3})\b", css))
    return {*escaped, *(ord(character) for character in css if "\ue000" <= character <= "\uf8ff")}


def cut_font(name, wanted):
    """Return one of the theme's fonts with only the wanted characters, as a data: address."""
    font = TTFont(THEME / "vendor" / "fontawesome" / "webfonts" / f"{name}.ttf", recalcTimestamp=False)
    cut = subset.Subsetter(subset.Options(layout_features=[], hinting=False))
    cut.populate(unicodes=wanted)
    cut.subset(font)
    font.flavor = "woff"
    font.save(file := BytesIO())
    return "data:font/woff;base64," + base64.b64encode(file.getvalue()).decode()


@cache
def stylesheet():
    """Return the name and the text of the theme's stylesheet with only the icons in use."""
    css = cut_rules((THEME / "styles" / "pydata-sphinx-theme.css").read_text(encoding="utf-8"))
    others = (BOOK_THEME / "styles" / "sphinx-book-theme.css").read_text(encoding="utf-8")
    wanted = characters(css + others)
    css = FONT.sub(lambda font: f'src:url({cut_font(font[1], wanted)}) format("woff")', css)
    # Named after its content: a browser that kept an older one must not use it.
    return f"styles/theme.{hashlib.sha256(css.encode()).hexdigest()[:8]}.css", css


def place(folder):
    """Write the stylesheet below a static folder."""
    name, css = stylesheet()
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(css, encoding="utf-8")


def use(html, pagename):
    """Link a page to the stylesheet; warn about icons that it does not have."""
    for classes in re.findall(r'class="([^"]*\bfa-[^"]*)"', html):
        for name in set(re.findall(r"\bfa-([a-z0-9-]+)", classes)) - MANNERS - ICONS:
            logger.warning("fa-%s is missing among the ICONS of _ext/page/icons.py", name, location=pagename)
    return LINK.sub(stylesheet()[0], html)
