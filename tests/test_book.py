"""A strict build fails when it should, and a page never shows what an earlier library computed.

Each test builds a book of one chapter with the project's own settings, extensions and notebook generator.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from _ext.facts import without_facts
from _ext.libcache import cache_key
from notebooks import generate

ROOT = Path(__file__).resolve().parents[1]
CHAPTER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
---

(ch-one)=
# One

See {numref}`fig-line` and {cite}`someone2020`.

```{code-cell} python
---
mystnb:
  figure: {name: fig-line, caption: A line.}
  image: {alt: A line that rises.}
---
import matplotlib.pyplot as plt
_ = plt.plot([0, 1])
```

```{code-cell} python
from scratch.ops import rmsnorm_forward
import numpy as np
from scratch.gradcheck import fact
_ = fact("F10", 2 + 2, 4)  # not on the page
print("value", rmsnorm_forward(np.full((1, 4), 2.0), np.ones(4))[0].round(2))
```

```{literalinclude} ../scratch/norm.py
:pyobject: rmsnorm_forward
:no-docstring:
:name: rmsnorm-source
:caption: RMSNorm
```

```{bibliography}
```
"""
WRONG_FACT = """
```{code-cell} python
from scratch.gradcheck import fact
fact("F12", 1.0, 1.1, 1e-3)
```
"""


class Book:
    """A small book in its own folder, with its own copy of the library."""

    def __init__(self, root):
        self.root = root
        for folder in ("_ext", "scratch"):
            shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "node_modules").symlink_to(ROOT / "node_modules")
        shutil.copy(ROOT / "_config.yml", root)
        (root / "chapters").mkdir()
        (root / "README.md").write_text("# A book\n\nSee {ref}`ch-one`.\n")
        (root / "_toc.yml").write_text("format: jb-book\nroot: README\nchapters:\n- file: chapters/01_one\n")
        (root / "references.bib").write_text("@misc{someone2020, author={Some, One}, title={Title}, year={2020}}\n")
        self.write(CHAPTER)

    def write(self, text):
        """Change the chapter, and the notebook with it."""
        (self.root / "chapters" / "01_one.md").write_text(text)
        generate.main([], self.root)

    def run(self, tool, *arguments):
        """Run a tool of this environment in the book, with the book's own library first on the path."""
        environment = os.environ | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [Path(sys.executable).with_name(tool), *arguments],
            cwd=self.root,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout

    def build(self):
        """Build as `make book` does."""
        return self.run("jupyter-book", "build", ".", "-n", "-W", "--keep-going")

    def page(self):
        """Return the chapter's HTML."""
        return (self.root / "_build" / "html" / "chapters" / "01_one.html").read_text()


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Return a book that has been built without an error."""
    book = Book(tmp_path_factory.mktemp("book"))
    status, log = book.build()
    assert status == 0, log
    return book


def test_page_has_what_the_chapter_declares(book):
    page = book.page()
    assert 'alt="A line that rises."' in page
    assert '<span class="caption-text">A line.</span>' in page
    assert "gradcheck" in page and "not on the page" not in page and "F10" not in page
    assert "rmsnorm_forward" in page[page.index("rmsnorm-source") :] and "Parameters" not in page
    for service in ("colab.research.google.com/github/", "mybinder.org/v2/gh/"):
        address = page[page.index(service) :].split('"')[0]
        assert address.endswith("notebooks/01_one.ipynb")


def test_a_change_of_the_library_reaches_the_page(book):
    assert "[[1. 1. 1. 1.]]" in book.page()
    norm = book.root / "scratch" / "norm.py"
    source = norm.read_text()
    assert "def rmsnorm_forward(x, g, eps=1e-5)" in source
    norm.write_text(source.replace("def rmsnorm_forward(x, g, eps=1e-5)", "def rmsnorm_forward(x, g, eps=12.0)"))
    status, log = book.build()
    norm.write_text(source)
    assert status == 0, log
    assert "[[0.5 0.5 0.5 0.5]]" in book.page()


FAULTS = {
    "a failing cell": (CHAPTER + "\n```{code-cell} python\n1 / 0\n```\n", "ZeroDivisionError"),
    "a wrong fact": (CHAPTER + WRONG_FACT, "F12"),
    "no alt text": (CHAPTER.replace("  image: {alt: A line that rises.}\n", ""), "no alt text"),
    "no caption": (CHAPTER.replace(", caption: A line.", ""), "no caption"),
    "output on stderr": (CHAPTER + "\n```{code-cell} python\nimport sys\nsys.stderr.write('x')\n```\n", "stderr"),
    "no formula": (CHAPTER + "\n$\\frac{1}$\n", "KaTeX parse error"),
    "an icon that the stylesheet lacks": (CHAPTER + '\n<i class="fa-solid fa-ghost"></i>\n', "fa-ghost"),
    "an unknown reference": (CHAPTER + "\n{ref}`ch-two`\n", "ch-two"),
}


@pytest.mark.parametrize("text, message", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_fails_the_build(book, text, message):
    book.write(text)
    status, log = book.build()
    assert status != 0 and message in log, log


def test_a_fault_fails_the_build_again(book):
    book.write(CHAPTER + WRONG_FACT)
    assert book.build()[0] != 0
    assert book.build()[0] != 0


def test_a_wrong_fact_fails_the_notebook(book):
    book.write(CHAPTER + WRONG_FACT)
    command = ["pytest", "--nbval-lax", "--nbval-current-env", "-p", "no:cacheprovider", "notebooks"]
    status, log = book.run(*command)
    assert status == 1 and "F12" in log, log


@pytest.mark.parametrize(
    "code, shown",
    [
        ("x = 1\n_ = fact(\n    'F1', x, 1\n)\nprint(x)", "x = 1\nprint(x)"),
        ("for i in a:\n    _ = fact('F1', i, i)\n    print(i)", "for i in a:\n    print(i)"),
        ("for i in a:\n    _ = fact('F1', i, i)", "for i in a:\n    _ = fact('F1', i, i)"),
        ("_ = fact('F1', 1, 1)", "_ = fact('F1', 1, 1)"),
        ("def f():\n    return 1\n\n\n_ = fact('F1', f(), 1)\nf()", "def f():\n    return 1\n\n\nf()"),
        ("x = 1\n\n_ = fact('F1', x, 1)\n\nprint(x)", "x = 1\n\nprint(x)"),
        ("x = fact('F1', 1, 1)\nprint(x)", "x = fact('F1', 1, 1)\nprint(x)"),  # a name that a later line reads
        ("_ = other(1)\n%matplotlib inline", "_ = other(1)\n%matplotlib inline"),
    ],
)
def test_the_page_leaves_facts_out(code, shown):
    assert without_facts(code) == shown


def test_a_chapters_time_is_part_of_the_caches_key(tmp_path):
    """The teaching guide lists it; other prose changes no other page."""
    page = tmp_path / "chapters" / "01_one.md"
    page.parent.mkdir()
    keys = []
    for text in (
        "**Time**: about 20 minutes. One.",
        "**Time**: about 20 minutes. Two.",
        "**Time**: about 30 minutes. Two.",
    ):
        page.write_text(text)
        keys.append(cache_key(tmp_path))
    assert keys[0] == keys[1] != keys[2]
