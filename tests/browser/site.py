"""The built book as a static host serves it: below a path of its own, with nothing but files."""

import contextlib
import functools
import http.server
import os
import threading
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
BOOK = Path(os.environ.get("BOOK") or ROOT / "_build" / "html").resolve()
PATH = "/transformer-block/"  # as on GitHub's pages: what only works at the root of a host must fail here


def pages(having=""):
    """The pages of the built book whose HTML has this text, as paths below its folder, for parametrize.

    Without index.html, which only leads to the landing page; where no book is built it stands for all: its test then
    fails, and says what to do.
    """
    found = sorted({*BOOK.glob("*.html"), *BOOK.glob("chapters/**/*.html")} - {BOOK / "index.html"})
    texts = ((page, page.read_text(encoding="utf-8")) for page in found)
    return [page.relative_to(BOOK).as_posix() for page, text in texts if having in text] or ["index.html"]


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open, as everywhere
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".woff2": "font/woff2",
        ".whl": "application/zip",
    }

    def send_head(self):
        """Answer below PATH only."""
        if not urlsplit(self.path).path.startswith(PATH):
            self.send_error(404)
            return None
        self.path = self.path[len(PATH) - 1 :]
        return super().send_head()

    def log_message(self, *args):
        """Say nothing: what the browser misses, the watch on the page reports."""


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, address):
        """Say nothing: a browser that leaves a page hangs up."""


@contextlib.contextmanager
def served(folder):
    """Serve a folder on this machine only; yield its address, which ends with a slash."""
    with _Server(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{PATH}"
        finally:
            server.shutdown()
            thread.join()
