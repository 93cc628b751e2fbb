"""Frames in a page without a kernel: stepped by keys and by pointer, in light and dark, on a telephone."""

import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from playwright.sync_api import expect

from _ext import static_widgets
from tests.browser import site
from tests.browser.axe import violations
from tests.browser.watch import set_theme, watched
from widgets.play import frames

LOADER = Path(static_widgets.__file__).parent / "static" / "static_widgets"
PAGE = """<!DOCTYPE html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>A page</title>
<link rel="icon" href="data:,"></head><body><main><h1>A page</h1>%s</main>
<script>matchMedia("(prefers-color-scheme: dark)").onchange = (it) =>
  document.documentElement.dataset.theme = it.matches ? "dark" : "light"</script>
<script src="static_widgets/static_widgets.js"></script></body></html>"""


@pytest.fixture(scope="module")
def widget():
    plt.switch_backend("agg")

    def draw(power, colour):
        figure, ax = plt.subplots()
        ax.plot([x**power for x in range(5)], color=colour)
        return figure, ax

    def alt(power, colour):
        return f"x to the {power} in {colour}"

    return frames("Powers", draw, alt, power=range(1, 10), colour=["black", "red"])


@pytest.fixture(scope="module")
def address(widget, tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames")
    shutil.copytree(LOADER, folder / "static_widgets")
    (folder / "page.html").write_text(PAGE % static_widgets.written(widget.get_state()), encoding="utf-8")
    with site.served(folder) as its:
        yield f"{its}page.html"


def test_before_any_script_the_first_frame_and_all_in_words(browser, address):
    with watched(browser, java_script_enabled=False) as watch:
        watch.page.goto(address)
        expect(watch.page.get_by_role("img", name="x to the 1 in black")).to_be_visible()
        expect(watch.page.get_by_role("listitem")).to_have_count(18)


def test_keys_and_pointer_change_the_frame(page, address, widget):
    page.goto(address)
    picture, slider, colours = page.get_by_role("img"), page.get_by_role("slider"), page.get_by_role("combobox")
    expect(picture).to_have_count(1)
    steps = [
        (lambda: slider.press("ArrowRight"), 2, "black"),
        (lambda: slider.press("End"), 9, "black"),
        (lambda: slider.press("ArrowRight"), 9, "black"),
        (lambda: colours.select_option("red"), 9, "red"),
        (lambda: slider.press("Home"), 1, "red"),
        (lambda: slider.click(), 5, "red"),
    ]
    seen = set()
    for step, power, colour in steps:
        step()
        expect(picture).to_have_attribute("alt", f"x to the {power} in {colour}")
        expect(slider).to_have_attribute("aria-valuetext", str(power))
        at = (power - 1) * 2 + ["black", "red"].index(colour)
        assert picture.get_attribute("src") == widget.data["frames"][at]["source"]
        seen.add(picture.screenshot())
    expect(page.locator("[role=status]")).to_have_text("x to the 5 in red")
    assert len(seen) == 5  # different pixels: all are drawn, and the step beyond the end changed nothing


@pytest.mark.parametrize("wide", [1280, 390])
def test_light_and_dark(browser, address, wide):
    with watched(browser, viewport={"width": wide, "height": 800}, has_touch=True) as watch:
        page = watch.page
        page.goto(address)
        page.get_by_role("slider").tap()
        expect(page.get_by_role("img")).to_have_attribute("alt", "x to the 5 in black")
        page.get_by_text("In words").click()
        for theme in ("light", "dark"):
            set_theme(page, theme)
            assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= wide
        for control in page.locator("input, select, summary").all():
            assert min(control.bounding_box()[side] for side in ("width", "height")) >= 24
