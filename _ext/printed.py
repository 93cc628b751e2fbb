"""Put the printable list of all problems into the book: {printed}`words` makes the words a link to its PDF.

Where Chromium is missing, or fails, they stay words, and the build says so; in CI that is an error.
"""

import os
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from exercises.grade.run import Refusal
from notebooks import paper, problems

logger = logging.getLogger(__name__)
FOLDER = "_build/printed"


def printed(root):
    """Print the list into FOLDER, if it is not there or was another; return why that cannot be, or nothing."""
    folder, chromium = Path(root, FOLDER), paper.browser()
    source, pdf = folder / "problems.html", folder / "problems.pdf"
    text = problems.printable(problems.book_title(root), problems.sets(root))
    if pdf.exists() and source.exists() and source.read_text(encoding="utf-8") == text:
        return ""
    if chromium is None:
        return paper.REMEDY
    folder.mkdir(parents=True, exist_ok=True)
    try:
        paper.write_pdf(text, pdf, chromium)
    except Refusal as refusal:
        return str(refusal)
    source.write_text(text, encoding="utf-8")
    return ""


class Printed(SphinxRole):
    """What {printed} becomes: a download, as {download} makes one of a file that is there already."""

    def run(self):
        """Return the link, or the words alone."""
        self.env.note_reread()  # what is printed comes from other pages
        if missing := printed(self.env.srcdir):
            say = logger.warning if os.environ.get("CI") == "true" else logger.info
            say("NO PDF of the problems in the book: %s", missing, location=self.get_location())
            return [nodes.Text(self.text)], []
        target = f"/{FOLDER}/problems.pdf"
        return [addnodes.download_reference(self.rawtext, self.text, reftarget=target, refdoc=self.env.docname)], []


def setup(app):
    """Register with Sphinx."""
    app.add_role("printed", Printed())
    return {"version": "1", "parallel_read_safe": True}
