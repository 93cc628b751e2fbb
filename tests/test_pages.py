"""What _ext/page makes of formulas, icons and HTML, without a book; tests/browser/test_pages.py looks at the book's."""

import base64
import re
from io import BytesIO, StringIO
from unittest.mock import Mock

import pytest
from fontTools.ttLib import TTFont
from PIL import Image
from sphinx.errors import ExtensionError

from _ext import bundle
from _ext.page import formulas, icons, tidy


@pytest.mark.parametrize(
    "text, rows",
    [
        ("a = b", 0),
        (r"a &= b \\ c &= d", 2),
        ("a = b\n\nc = d", 2),
        ("a &= b\n\nc &= d \\\\ e &= f", 4),  # one of two rows, which holds the other's two
    ],
)
def test_a_plain_display_is_aligned(text, rows):
    html = formulas.render(formulas.display(text, nowrap=False), True)["html"]
    assert html.count("<mtr>") == rows


@pytest.mark.parametrize("name", ["equation", "align", "gather", "alignat"])
def test_katex_numbers_no_environment(name):
    """Sphinx numbers them, through the whole book."""
    columns = "{2}" if name == "alignat" else ""
    text = rf"\begin{{{name}}}{columns} a = b \end{{{name}}}"
    assert "eqn-num" in formulas.render(text, True)["html"]
    assert "eqn-num" not in formulas.render(formulas.display(text, nowrap=True), True)["html"]


@pytest.mark.parametrize("latex", [r"\frac{1}", r"\nonsense", "a & b", "x = „y“"])
def test_a_formula_that_latex_would_refuse_is_an_error(latex):
    assert list(formulas.render(latex, True)) == ["error"]


def test_without_node_modules_it_is_said_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(formulas, "KATEX", tmp_path / "katex")
    with pytest.raises(ExtensionError, match="^KaTeX, .*: make book installs it$"):
        formulas.place(tmp_path)
    monkeypatch.setattr(bundle, "ROOT", tmp_path)
    with pytest.raises(ExtensionError, match="^esbuild, .*: make book installs it$"):
        bundle.bundle("a.js", tmp_path / "b.js")


def test_a_script_that_cannot_be_bundled_is_named(tmp_path):
    (tmp_path / "a b.js").write_text("import './absent.js'")
    with pytest.raises(ExtensionError, match=r"^esbuild cannot bundle a b\.js:\n.*absent"):
        bundle.bundle(tmp_path / "a b.js", tmp_path / "out.js")


def test_the_process_that_sets_formulas_may_end(monkeypatch):
    closed = Mock(side_effect=BrokenPipeError)
    ended = Mock(stdin=Mock(write=closed, flush=closed), stdout=StringIO())
    monkeypatch.setattr(formulas, "renderer", lambda: ended)
    with pytest.raises(ExtensionError, match="^the process that sets formulas ended$"):
        formulas.render("never asked before", True)


def test_the_stylesheet_draws_each_icon():
    """Each character that the styles name is in one of the fonts that it brings along, and few others are."""
    name, css = icons.stylesheet()
    fonts = [TTFont(BytesIO(base64.b64decode(data))) for data in re.findall(r"data:font/woff;base64,([\w+/=]+)", css)]
    assert len(fonts) == 3 and "vendor/" not in css
    drawn = set().union(*(font.getBestCmap() for font in fonts))
    styles = re.sub(r"data:[^)]*", "", css)
    assert icons.characters(styles) <= drawn
    assert len(drawn) < len(icons.characters(styles)) + 5
    for icon in icons.ICONS:
        assert f".fa-{icon}:before" in css, icon


def test_an_image_says_its_size(tmp_path):
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    (tmp_path / "b.svg").write_text(
        '<?xml version="1.0"?>\n<svg height="36pt" width="72pt" stroke-width="2" viewBox="0 0 72 36"></svg>'
    )
    (tmp_path / "c.svg").write_text('<svg viewBox="0 0 72 36"></svg>')
    assert [tidy.size(tmp_path / name) for name in ("a.png", "b.svg", "c.svg")] == [(30, 20), (96, 48), None]
