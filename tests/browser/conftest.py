"""What the tests in a real browser share: one Chromium, the built book on a server, and a page under watch.

    def test_something(page, book):           # fails, too, on a console error, a page error, an outside request
        page.goto(f"{book}chapters/07_block.html")

`book` is the built book as it is, `hosted` a copy that brings Python along. `watch` is the watch on `page`:
`watch.expect("...")`, `watch.requests`. A test that keeps one page open for long, or opens two, uses `watched`.
"""

import os
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from _ext.live import runtime
from notebooks import paper
from tests.browser import site
from tests.browser.watch import watched

# Nothing beyond this machine is ever reached: a page that needs it fails here, as it does on a train.
SWITCHES = [
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--no-proxy-server",
    "--disable-dev-shm-usage",  # in containers it is small
]
expect.set_options(timeout=30_000)  # milliseconds: a busy machine may need some of them


# Not of the session: as long as Playwright is on, no other test of the process can have an event loop.
@pytest.fixture(scope="package")
def browser():
    """Chromium, one for all; skipped where there is none, which in CI is a failure."""
    path = paper.browser() or pytest.skip(
        "NO BROWSER, so neither the book's pages nor its widgets are tested: install Chromium "
        "(Debian: apt install chromium; others: Google Chrome will do)"
    )
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path,
            args=SWITCHES,
            chromium_sandbox=os.geteuid() != 0,  # as root Chromium starts in no other way
        )
        yield chromium
        chromium.close()


def _built():
    if not (site.BOOK / "index.html").exists():
        pytest.fail(f"there is no built book in {site.BOOK}: make book", pytrace=False)
    return site.BOOK


@pytest.fixture(scope="package")
def book():
    """The address of the built book, with a slash at the end."""
    with site.served(_built()) as address:
        yield address


@pytest.fixture(scope="package")
def hosted(tmp_path_factory):
    """The address of a copy of the built book that brings Python along; skipped where that cannot be had."""
    folder = tmp_path_factory.mktemp("hosted") / "html"
    shutil.copytree(_built(), folder)
    try:
        runtime.place(folder, "book")
    except runtime.RuntimeUnavailable as error:
        pytest.skip(f"NO PYTHON IN THE PAGE, so no cell of it is tested: {error}")
    with site.served(folder) as address:
        yield address


@pytest.fixture
def watch(browser):
    """The watch on a fresh page."""
    with watched(browser) as its:
        yield its


@pytest.fixture
def page(watch):
    """A fresh page of a fresh context; the test fails on what it complains of or asks outside."""
    return watch.page
