"""Make a build that warned fail again when it is repeated.

Sphinx reads only pages that changed. A page that warned, or whose cell failed, would count as read, and the next
strict build would succeed without having looked at it. So a build with warnings forgets what it has read; outputs
of cells that ran stay in the execution cache.
"""

from pathlib import Path

from sphinx.application import ENV_PICKLE_FILENAME


def forget(app, exception):
    """Delete Sphinx's memory of the pages if anything went wrong."""
    if exception or app._warncount:
        Path(app.doctreedir, ENV_PICKLE_FILENAME).unlink(missing_ok=True)


def setup(app):
    """Register with Sphinx."""
    app.connect("build-finished", forget)
    return {"version": "1", "parallel_read_safe": True}
