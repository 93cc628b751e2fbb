"""Warn, and so fail the strict build, about a picture without alt text and a cell's picture without a caption.

In a chapter:   {figure} and {image} take `:alt:`;
in a code cell: `mystnb: {image: {alt: …}, figure: {caption: …, name: fig-…}}` in the cell's metadata.
"""

import re

from docutils import nodes
from sphinx.util import logging

logger = logging.getLogger(__name__)
IMG = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
ALT = re.compile(r"""\balt\s*=\s*(["']?)\s*[^"'\s>]""", re.IGNORECASE)


def ancestors(node):
    """Yield the nodes around this one, innermost first."""
    while node.parent is not None:
        node = node.parent
        yield node


def check(app, doctree):
    """Look at every picture of a page, the outputs of its cells among them."""

    def warn(node, text):
        place = (app.env.docname, next((n.line for n in [node, *ancestors(node)] if n.line), None))
        logger.warning(text, location=place, type="book", subtype="alt")

    for image in doctree.findall(nodes.image):
        if not image.get("alt", "").strip():
            warn(image, f"{image['uri']} has no alt text (:alt:, or mystnb: image: alt: in the cell's metadata)")
    for raw in doctree.findall(nodes.raw):
        for tag in IMG.findall(raw.astext()) if raw.get("format") == "html" else []:
            if not ALT.search(tag):
                warn(raw, f"an <img> in HTML has no alt text: {tag[:80]}")
    outputs = (n for n in doctree.findall(nodes.container) if n.get("nb_element") == "cell_code_output")
    for output in outputs:
        figures = {
            next((n for n in ancestors(image) if isinstance(n, nodes.figure)), None)
            for image in output.findall(nodes.image)
        }
        if any(figure is None or not list(figure.findall(nodes.caption)) for figure in figures):
            warn(output, "a cell's picture has no caption (mystnb: figure: caption: in the cell's metadata)")


def setup(app):
    """Register with Sphinx."""
    app.connect("doctree-read", check)
    return {"version": "1", "parallel_read_safe": True}
