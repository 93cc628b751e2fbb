"""Every page of the book is light, quiet and accessible, asks nobody else, and shows its formulas and icons."""

import gzip
import re
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import site
from tests.browser.axe import violations
from tests.browser.watch import set_theme, watched

BUDGET = 1_500_000  # bytes of a page before the first Run, compressed
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
# What the theme puts around a page is the same on all, so one page in all of them is enough for it.
COMBINATIONS = [(DESK, "light"), (PHONE, "dark"), (DESK, "dark"), (PHONE, "light")]
PAGES = site.pages()
# What a reader can open is open.
OPEN = """() => {
  for (const it of document.querySelectorAll("details")) it.open = true;
  for (const it of document.querySelectorAll(".toggle-button")) it.click();
}"""
# What is wider than its place can be scrolled by the keyboard.
REACHED = """() => {
  const all = document.querySelectorAll("pre, .katex-display, .cell_output > .output, .pst-scrollable-table-container");
  return [...all].every((it) => it.scrollWidth <= it.clientWidth || it.tabIndex === 0);
}"""
# Images that wait for the reader to come near wait no longer.
LOAD = """async () => {
  const images = [...document.images].filter((it) => it.checkVisibility());
  for (const it of images) it.loading = "eager";
  const waiting = images.filter((it) => !it.complete);
  await Promise.all(waiting.map((it) => new Promise((done) => it.onload = it.onerror = done)));
}"""


def weight(address):
    """The bytes of a file of the book as a host sends it, compressed."""
    path = unquote(urlsplit(address).path).removeprefix(site.PATH)
    return len(gzip.compress((site.BOOK / path).read_bytes()))


@pytest.fixture(scope="module")
def table(request):
    """What each page weighs, printed at the end."""
    rows = {}
    yield rows
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{'page':34}{'files':>6}{'all kB':>8}{'images':>8}")
        for page, files in rows.items():
            images = sum(size for address, size in files.items() if "/_images/" in address)
            print(f"{page:34}{len(files):6}{sum(files.values()) / 1000:8.0f}{images / 1000:8.0f}")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_light_and_quiet(path, page, watch, book, table):
    """Within the budget with all of its images; nothing on the console; the watch sees to other sites and errors."""
    page.goto(book + path, wait_until="networkidle")
    page.evaluate(OPEN)
    page.evaluate(LOAD)
    page.wait_for_load_state("networkidle")
    files = {address: weight(address) for address in watch.requests if not address.startswith(("data:", "blob:"))}
    table[path] = files
    assert sum(files.values()) < BUDGET, sorted(files.items(), key=lambda file: -file[1])[:10]
    assert not watch.warnings
    assert not [address for address in files if re.search("mathjax|thebe|require|fontawesome", address, re.IGNORECASE)]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_accessible(path, browser, book):
    """With everything opened, on a desk in light and on a phone in the dark; the first page in all four."""
    found = {}
    with watched(browser, viewport=DESK) as watch:
        page = watch.page
        page.goto(book + path)
        page.evaluate(OPEN)
        for viewport, theme in COMBINATIONS if path == PAGES[0] else COMBINATIONS[:2]:
            page.set_viewport_size(viewport)
            set_theme(page, theme)
            page.wait_for_function(REACHED)  # the theme looks for what scrolls a while after a change
            if lines := violations(page):
                found[theme, viewport["width"]] = lines
    assert not found


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_phone(path, browser, book):
    """It never scrolls sideways, and no image is out of proportion."""
    with watched(browser, viewport=PHONE) as watch:
        page = watch.page
        page.goto(book + path)
        page.evaluate(OPEN)
        page.evaluate(LOAD)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        stretched = """[...document.querySelectorAll(".bd-article img")].filter((it) => {
          const style = getComputedStyle(it), { width, height } = it.getBoundingClientRect();
          const shown = (width - 2 * parseFloat(style.paddingLeft)) / (height - 2 * parseFloat(style.paddingTop));
          return width && it.naturalWidth && Math.abs(shown * it.naturalHeight / it.naturalWidth - 1) > 0.02;
        }).map((it) => it.src)"""
        assert page.evaluate(stretched) == []


@pytest.mark.parametrize("path", ["chapters/equations.html", "chapters/08_backward.html"])
def test_the_keyboard_reaches_what_scrolls(path, browser, book):
    """Formulas and code that are wider than a very narrow screen, and what is unfolded, too."""
    with watched(browser, viewport={"width": 240, "height": 600}) as watch:
        page = watch.page
        page.goto(book + path)
        page.evaluate(OPEN)
        wide = "[...document.querySelectorAll('.katex-display')].some((it) => it.scrollWidth > it.clientWidth)"
        assert page.evaluate(wide)
        page.wait_for_function(REACHED)


@pytest.mark.parametrize("path", site.pages('class="math notranslate'))
def test_formulas_are_set(path, page, book):
    """Each formula of a page is there, in KaTeX's own fonts, and none is an error."""
    page.goto(book + path)
    state = page.evaluate(
        """async () => {
          await document.fonts.ready;
          const set = (it) => it.querySelectorAll(".katex > .katex-html").length === 1;
          return {
            unset: [...document.querySelectorAll(".math")].filter((it) => !set(it)).map((it) => it.textContent),
            fonts: [...document.fonts].filter((it) => it.status === "loaded").map((it) => it.family),
          };
        }"""
    )
    assert state["unset"] == []
    assert any(family.strip('"').startswith("KaTeX_") for family in state["fonts"])


def test_equations_keep_their_numbers():
    """They count from 1 through the book, and what refers to one shows its number."""
    numbers, references = {}, []
    for path in site.pages('class="math notranslate'):
        html = (site.BOOK / path).read_text(encoding="utf-8")
        found = re.findall(r'<div class="math[^"]*" id="([^"]+)">\s*<span class="eqno">\((\d+)\)', html)
        numbers |= {(path.rpartition("/")[2], label): number for label, number in found}
        for page_of, label, number in re.findall(r'href="([\w.]*)#(equation-[^"]+)">\((\d+)\)</a>', html):
            references.append((page_of or path.rpartition("/")[2], label, number))
    assert sorted(map(int, numbers.values())) == list(range(1, len(numbers) + 1))
    assert references
    assert [it for it in references if numbers.get(it[:2]) != it[2]] == []


@pytest.mark.parametrize("path", PAGES)
def test_icons_are_drawn(path, page, book):
    """The stylesheet has each icon of the page; if not: name it in ICONS of _ext/page/icons.py."""
    page.goto(book + path)
    missing = """[...document.querySelectorAll("i, span")].filter((it) => /\\bfa-/.test(it.className)
        && ["none", "normal"].includes(getComputedStyle(it, "::before").content)).map((it) => it.className)"""
    assert page.evaluate(missing) == []


def test_search_finds(page, book):
    """From any page, by the keyboard, though only the search page loads the index."""
    page.goto(f"{book}chapters/notation.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("softmax")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=softmax")
    page.locator("#search-results li a").first.wait_for()
