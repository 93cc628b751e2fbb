"""The watch over a page sees what it is there to see."""

import re
import time

import pytest

from tests.browser import site
from tests.browser.axe import violations
from tests.browser.watch import set_theme, watched

PAGE = "<!DOCTYPE html><html lang=en><title>A page</title><link rel=icon href=data:,><main><h1>A page</h1>%s</main>"


@pytest.fixture
def serve(tmp_path):
    """A function that serves a page with this body and returns its address."""
    with site.served(tmp_path) as address:

        def serve(body):
            (tmp_path / "page.html").write_text(PAGE % body)
            return f"{address}page.html"

        yield serve


WRONG = {
    "console error: bad news": "<script>console.error('bad news')</script>",
    "page error: .*oops": "<script>throw Error('oops')</script>",
    "page error: .*unhandled": "<script>Promise.reject(Error('unhandled'))</script>",
    "console error: .*404.*absent.js": "<script src=absent.js></script>",
    "outside request: https://cdn.example/": "<img alt='' src=https://cdn.example/picture.png>",
    "outside request: https://worker.example/": "<script>new Worker(URL.createObjectURL(new Blob("
    "[`fetch('https://worker.example/').catch(() => {})`])))</script>",
    "console error: in a worker": "<script>new Worker(URL.createObjectURL(new Blob("
    "[`console.error('in a worker')`])))</script>",
}


def wait_for_complaint(watch, pattern):
    """Return when the watch has it, or after ten seconds."""
    end = time.monotonic() + 10
    while not any(re.search(pattern, line) for line in watch.complaints) and time.monotonic() < end:
        watch.page.wait_for_timeout(20)  # Playwright hears events only while it waits


@pytest.mark.parametrize("pattern", WRONG)
def test_what_a_page_does_wrong_fails_the_test(browser, serve, pattern):
    with pytest.raises(pytest.fail.Exception, match=pattern), watched(browser) as watch:
        watch.page.goto(serve(WRONG[pattern]))
        wait_for_complaint(watch, pattern)


def test_what_a_test_expects_must_come(browser, serve):
    with pytest.raises(pytest.fail.Exception, match="nothing matches: bad news"), watched(browser) as watch:
        watch.expect("bad news")
        watch.page.goto(serve(""))
    with watched(browser) as watch:
        watch.expect("bad news")
        watch.page.goto(serve("<script>console.error('bad news')</script>"))


def test_only_the_books_own_path_is_served(page, watch, serve):
    watch.expect("404.*/page.html")
    address = serve("")
    assert page.goto(address).status == 200
    assert page.goto(address.replace(site.PATH, "/")).status == 404


def test_axe_sees_light_and_dark(page, serve):
    page.goto(serve("<style>@media (prefers-color-scheme: dark) { body { color: #000; background: #111; } }</style>"))
    assert violations(page) == []
    set_theme(page, "dark")
    assert [line.split()[0] for line in violations(page)] == ["color-contrast"]
    assert violations(page, "title") == []
