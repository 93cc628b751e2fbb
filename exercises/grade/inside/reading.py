"""Inside a box: reads one submission in a process of its own; no learner's code runs in it."""

import IPython.core.inputtransformer2  # noqa: F401 (here, so that each child need not import it)
import jupytext  # noqa: F401

from .fingerprints import digest
from .reader import read
from .wire import Line, encode

LIMIT = 1 << 27  # bytes of a submission as a frame; the grader sends none that is larger


def serve(connection):
    """Read one file, and send what was found."""
    line = Line(connection)
    asked, data = line.receive(limit=LIMIT)
    found = read(asked["name"], bytes(data), asked["wanted"], digest)
    for exercise in found.get("exercises", {}).values():
        if exercise["status"] == "literal":
            exercise["value"] = encode(exercise["value"])[0]
    line.send(found)
