"""The notebooks are what their chapters say, hold no outputs but the compared ones, and show no raw MyST."""

import nbformat
import pytest

from notebooks import generate
from notebooks.plain import Plain

CHAPTERS = generate.chapters()


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_notebook_is_in_step_with_its_chapter(chapter):
    assert generate.in_step(chapter), "run `make notebooks` and commit what it writes"


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_only_compared_cells_store_outputs(chapter):
    cells = [cell for cell in nbformat.read(generate.target(chapter), as_version=4).cells if cell.cell_type == "code"]
    assert not [cell.source for cell in cells if cell.outputs and not generate.is_compared(cell)]
    # nbval compares nothing in a cell without a count.
    assert all(cell.execution_count for cell in cells if generate.is_compared(cell))


@pytest.fixture
def plain(tmp_path):
    """Return the converter of a chapter in a small book."""
    (tmp_path / "chapters").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "ops.py").write_text(
        '"""Ops."""\n\n\ndef f(x):\n    """F."""\n    return x\n\n\ndef g(x):\n    return 2 * x\n'
    )
    (tmp_path / "references.bib").write_text(
        "@article{a2020, author={Ab, C. and {De Ef}, G.}, year={2020}}\n"
        "@article{b2021, author={Vaswani, A. and Shazeer, N. and Parmar, N.}, year={2021}}\n"
    )
    (tmp_path / "chapters" / "dot.svg").write_text("<svg/>")
    chapter = tmp_path / "chapters" / "01_one.md"
    chapter.write_text("(ch-one)=\n# The first\n")
    return Plain(chapter)


EXAMPLES = {
    "label and comment": ("(ch-one)=\n# The first\n% F1\nText.", "# The first\nText."),
    "reference": ("{ref}`ch-one`, {ref}`this <ch-one>`, [](#ch-one), [it](#eq-x)", "The first, this, The first, it"),
    "numbered": ("{eq}`eq-x`, {numref}`fig-y`, {numref}`Figure %s <fig-y>`", "(x), figure (y), Figure (y)"),
    "citation": (
        "{cite}`a2020,b2021`; {cite:t}`b2021`",
        "(Ab and De Ef, 2020; Vaswani et al., 2021); Vaswani et al. (2021)",
    ),
    "term": ("{term}`gain`, {term}`gains <gain>`", "gain, gains"),
    "link": (
        "[one](01_one.md), [out](../README.md), [web](https://example.org)",
        "[one](01_one.ipynb), out, [web](https://example.org)",
    ),
    "formula": ("$$\na\n$$ (eq-x)\nb", "$$\na\n\\tag{x}\n$$\nb"),
    "formula in a line": ("$$ a $$ (eq-x)", "$$\na\n\\tag{x}\n$$"),
    "aligned": ("$$\na &= b \\\\\nc &= d\n$$", "$$\n\\begin{aligned}\na &= b \\\\\nc &= d\n\\end{aligned}\n$$"),
    "math": ("```{math}\n:label: eq-x\na\n```", "$$\na\n\\tag{x}\n$$"),
    "source": (
        "```{literalinclude} ../scratch/ops.py\n:pyobject: g\n```",
        "```python\ndef g(x):\n    return 2 * x\n```",
    ),
    "no docstring": (
        "```{literalinclude} ../scratch/ops.py\n:pyobject: f\n:no-docstring:\n```",
        "```python\ndef f(x):\n    return x\n```",
    ),
    "code is left alone": ("```python\n% {ref}`x`\n```", "```python\n% {ref}`x`\n```"),
    "note": ("```{note} Mind\nthe {ref}`ch-one`.\n```", "> **Note**\n> \n> Mind\n> the The first."),
    "nested": ("::::{tip}\n:::{math}\na\n:::\n::::", "> **Tip**\n> \n> $$\n> a\n> $$"),
    "folded": (
        ":::{admonition} Why\n:class: dropdown\nSo.\n:::",
        "<details><summary>Why</summary>\n\nSo.\n\n</details>",
    ),
    "exercise": (":::{exercise} Norm\n:label: ex-n\nDo it.\n:::", "**Exercise (n) Norm**\n\nDo it."),
    "solution": (
        ":::{solution} ex-n\nSo.\n:::",
        "<details><summary>Solution to exercise (n)</summary>\n\nSo.\n\n</details>",
    ),
    "figure": (
        ":::{figure} dot.svg\n:name: fig-y\n:alt: A dot.\nA *dot*.\n:::",
        "![A dot.](data:image/svg+xml;base64,PHN2Zy8+)\n\n*Figure (y).* A *dot*.",
    ),
    "glossary": ("```{glossary}\ngain\n  A scale.\n```", "**gain**: A scale."),
    "dropped": ("A\n\n```{bibliography}\n:filter: x\n```\n\nB", "A\n\nB"),
}


@pytest.mark.parametrize("source, expected", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_plain_markdown(plain, source, expected):
    assert plain.text(source) == expected


@pytest.mark.parametrize("source", ["{eval}`x`", "```{mystery}\nx\n```", "{cite}`nobody1999`"])
def test_unknown_syntax_is_an_error(plain, source):
    with pytest.raises(ValueError, match="01_one.md"):
        plain.text(source)
