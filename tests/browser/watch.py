"""A page under watch: what it complains of, and what it asks of whom, fails the test that did not expect it."""

import contextlib
import re
from urllib.parse import urlsplit

import pytest


class Watch:
    """What one browser context says and asks for, from its first page on."""

    def __init__(self, context):
        """Listen to every page and worker of a context."""
        self.context = context
        self.complaints = []  # one line each: console error, page error, outside request
        self.warnings = []  # of the console
        self.requests = []  # the address of each
        self._expected = []
        context.on("console", self._console)
        context.on("weberror", lambda error: self.complaints.append(f"page error: {error.error}"))
        context.on("request", self._request)
        self.page = context.new_page()

    def expect(self, pattern):
        """This test brings about a complaint that matches: it may come, and has to."""
        self._expected.append(pattern)

    def verify(self):
        """Fail the test on what it did not expect, and on what it expected in vain."""
        found = [line for line in self.complaints if not any(re.search(it, line) for it in self._expected)]
        found += [
            f"expected, but nothing matches: {pattern}"
            for pattern in self._expected
            if not any(re.search(pattern, line) for line in self.complaints)
        ]
        if found:
            pytest.fail("the page complains:\n" + "\n".join(found), pytrace=False)

    def _console(self, message):
        line = f"{message.text} ({message.location.get('url', '')})"
        if message.type == "error":
            self.complaints.append(f"console error: {line}")
        elif message.type == "warning":
            self.warnings.append(line)

    def _request(self, request):
        self.requests.append(request.url)
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.hostname != "127.0.0.1":
            self.complaints.append(f"outside request: {request.url}")


@contextlib.contextmanager
def watched(browser, **options):
    """Open a fresh context (cold cache, empty storage) with one page in it; yield its Watch; verify it at the end.

    options : of Playwright's `new_context`, e.g. viewport={"width": 390, "height": 844}, has_touch=True
    """
    context = browser.new_context(**options)
    context.set_default_timeout(30_000)
    try:
        watch = Watch(context)
        yield watch
        watch.verify()
    finally:
        context.close()


def set_theme(page, theme):
    """Turn the book, and what else follows the system, "light" or "dark"."""
    page.emulate_media(color_scheme=theme)
    page.wait_for_function("theme => [theme, undefined].includes(document.documentElement.dataset.theme)", arg=theme)
