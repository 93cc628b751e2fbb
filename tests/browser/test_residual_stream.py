"""The residual stream in a browser: moved by pointer, keyboard and touch; its numbers are scratch's."""

import numpy as np
import pytest

from scratch.ops import softmax_forward
from scratch.trace import gradient_norms, logit_lens, trace
from tests.browser.axe import violations
from tests.browser.watch import set_theme, watched
from tests.browser.widget_page import PHONE, opened, served_widget, sideways
from tests.toy_model import Letters, toy_model
from widgets.residual_stream import number, residual_stream, shown

SENTENCES = ["abcab dog", "a long one that is wide"]
OPTIONS = {"n_layers": 6}
WIDGET = ".tb-residual_stream"


@pytest.fixture(scope="module")
def known():
    """For each sentence: texts of each line's numbers, [depth][token], and the lens's probabilities."""
    params, config = toy_model(**OPTIONS)
    found = []
    for text in SENTENCES:
        ids = np.array([Letters().encode(text).ids])
        run = trace(ids, params, config)
        lines = {"stream": run.norms[:, 0]}
        lines |= {key: np.linalg.norm(getattr(run, key)[:, 0], axis=-1) for key in ("attn", "ffn")}
        lines["gradient"] = gradient_norms(ids[:, :-1], ids[:, 1:], params, config)[:, 0]
        lines["lens"], _ = softmax_forward(logit_lens(run.stream[:, 0], params, config))
        found.append(lines)
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    widget = residual_stream(*toy_model(**OPTIONS), Letters(), SENTENCES, depth=2, token=3)
    with served_widget(widget, tmp_path_factory.mktemp("stream")) as its:
        yield its


@pytest.fixture
def page_shown(page, address):
    return opened(page, address)


def text_of(value):
    return number(shown(np.float64(value)))


def is_shown(page, lines, depth, token):
    """Compare the numbers, the lens and the dots in the charts with scratch."""
    values = [lines["stream"][depth, token], lines["attn"][depth - 1, token], lines["ffn"][depth - 1, token]]
    values.append(lines["gradient"][depth, token])
    found = page.locator(f"{WIDGET}-readout b").all_inner_texts()
    assert found[:4] == [text_of(value) for value in values]
    chances = np.sort(lines["lens"][depth, token])[::-1][:5]
    assert page.locator(f"{WIDGET}-share").all_inner_texts() == [f"{100 * p:.1f}%" for p in chances]
    best = Letters().decode([int(lines["lens"][depth, token].argmax())])
    assert page.locator(f"{WIDGET}-guess").first.text_content() == f"“{best}”".replace(" ", "\u00a0")
    for key, value in zip(("stream", "attn", "ffn", "gradient"), values, strict=True):
        dot = page.locator(f"circle{WIDGET}-{key}")
        assert float(dot.get_attribute("cy")) == pytest.approx(height(dot, value), abs=0.5)
        x, y = (f"{float(dot.get_attribute(name)):.1f}" for name in ("cx", "cy"))
        assert f"{x} {y}" in page.locator(f"{WIDGET}-chart path{WIDGET}-{key}").get_attribute("d")


def height(dot, value):
    """Where a value stands in the chart of this dot, by the chart's own marks."""
    marks = dot.evaluate("""(node) => [...node.closest("svg").querySelectorAll("text[text-anchor=end]")].map(
        (text) => [text.textContent, Number(text.getAttribute("y")) - 4])""")
    (low, bottom), (high, top) = [(np.log10(float(text.replace(",", ""))), y) for text, y in (marks[0], marks[-1])]
    return top + (high - np.log10(value)) / (high - low) * (bottom - top)


def test_at_first_it_shows_what_python_asked_for(page_shown, known):
    is_shown(page_shown, known[0], 2, 3)
    assert page_shown.locator(".tb-token[aria-pressed=true]").inner_text() == "a"


def test_the_slider_is_moved_by_keyboard(page_shown, known):
    page_shown.get_by_role("slider").focus()
    page_shown.keyboard.press("ArrowRight")
    is_shown(page_shown, known[0], 3, 3)
    page_shown.keyboard.press("ArrowLeft")
    page_shown.keyboard.press("ArrowLeft")
    is_shown(page_shown, known[0], 1, 3)
    said = page_shown.locator(f"{WIDGET}-says").inner_text()
    assert said.startswith("After block 1 the stream of “a” has length ")
    status = page_shown.locator(".tb-widget > [role=status]").element_handle()
    page_shown.wait_for_function("([node, text]) => node.textContent === text", arg=[status, said])


def at(page, chart, depth):
    """A point in a chart (0 or 1) at this depth."""
    box = page.locator(f"{WIDGET}-chart").nth(chart)
    box.scroll_into_view_if_needed()
    area = box.bounding_box()
    return area["x"] + 58 + depth / 6 * (area["width"] - 70), area["y"] + 50


def test_dragging_in_a_chart_moves_the_scrubber(page_shown, known):
    page_shown.mouse.move(*at(page_shown, 0, 4))
    assert page_shown.evaluate("model.get('depth')") == 2
    page_shown.mouse.down()
    is_shown(page_shown, known[0], 4, 3)
    page_shown.mouse.move(*at(page_shown, 0, 1))
    is_shown(page_shown, known[0], 1, 3)
    page_shown.mouse.up()
    page_shown.mouse.move(*at(page_shown, 0, 3))
    is_shown(page_shown, known[0], 1, 3)
    page_shown.mouse.click(*at(page_shown, 1, 5))
    is_shown(page_shown, known[0], 5, 3)


def test_a_token_is_chosen_by_click_and_by_arrow_keys(page_shown, known):
    page_shown.locator(".tb-token").nth(5).click()
    is_shown(page_shown, known[0], 2, 5)
    page_shown.keyboard.press("ArrowRight")
    is_shown(page_shown, known[0], 2, 6)
    page_shown.locator(".tb-token").first.hover()
    is_shown(page_shown, known[0], 2, 6)


def test_before_the_first_block_and_after_the_last(page_shown, known):
    page_shown.evaluate("model.set('depth', 0)")
    notes = page_shown.locator(f"{WIDGET}-readout b").all_inner_texts()
    assert notes[:3] == [text_of(known[0]["stream"][0, 3]), "no block yet", "no block yet"]
    assert page_shown.locator(f"{WIDGET}-says").inner_text().startswith("No block has run yet.")
    page_shown.evaluate("model.set('depth', 6)")
    notes = page_shown.locator(f"{WIDGET}-readout b").all_inner_texts()
    assert notes[0] == text_of(known[0]["stream"][6, 3])
    assert notes[3] == "measured before each of the 6 blocks"


def test_the_last_token_has_no_gradient(page_shown, known):
    page_shown.evaluate("model.set('token', 8)")
    notes = page_shown.locator(f"{WIDGET}-readout b").all_inner_texts()
    assert notes[0] == text_of(known[0]["stream"][2, 8])
    assert notes[3] == "none: the last token has no next one to predict"
    assert page_shown.locator(f"{WIDGET}-chart path{WIDGET}-gradient").get_attribute("d") == ""


def test_another_sentence_and_impossible_values(page_shown, known):
    page_shown.get_by_label("Sentence").select_option("1")
    assert page_shown.locator(".tb-token").count() == 23
    page_shown.locator(".tb-token").nth(20).click()
    is_shown(page_shown, known[1], 2, 20)
    page_shown.evaluate("model.set('depth', 99), model.set('sentence', 7), model.set('token', -4)")
    assert page_shown.locator(f"{WIDGET}-readout b").first.inner_text() == text_of(known[1]["stream"][6, 0])


def test_a_line_for_each_token_and_three_more(page_shown):
    assert page_shown.locator(f"{WIDGET}-chart path").count() == 9 + 3 + 8 + 1


def test_in_words_are_pythons_first_and_then_of_what_is_shown(page_shown, known):
    words = page_shown.locator(".tb-words")
    assert "Its stream begins with length" in words.text_content()
    page_shown.evaluate("model.set('token', 4)")
    rows = words.locator("tbody tr")
    assert rows.count() == 7
    values = [known[0]["stream"][3, 4], known[0]["attn"][2, 4], known[0]["ffn"][2, 4], known[0]["gradient"][3, 4]]
    assert rows.nth(3).locator("td").all_text_contents()[:4] == [text_of(value) for value in values]


def test_it_lets_go_when_its_cell_is_cleared(page_shown):
    before = page_shown.locator(f"{WIDGET}-says").inner_text()
    page_shown.evaluate("unrender(), model.set('depth', 1)")
    assert page_shown.locator(f"{WIDGET}-says").inner_text() == before


def test_on_a_phone_by_touch(browser, address, known):
    with watched(browser, **PHONE) as watch:
        page = opened(watch.page, address)
        assert sideways(page) == 0
        page.touchscreen.tap(*at(page, 0, 5))
        is_shown(page, known[0], 5, 3)
        page.locator(".tb-token").nth(1).tap()
        is_shown(page, known[0], 5, 1)
        page.get_by_label("Sentence").select_option("1")
        assert sideways(page) == 0
        wide = page.evaluate("[...document.querySelectorAll('.tb-residual_stream-chart svg')].map((it) => "
                             "[it.getBoundingClientRect().width, Number(it.getAttribute('width'))])")  # fmt: skip
        assert len(wide) == 2 and all(drawn == asked <= 360 for drawn, asked in wide)  # so 12 px in it are 12 px
        page.set_viewport_size({"width": 700, "height": 844})
        page.wait_for_function("document.querySelector('.tb-residual_stream-chart svg').getAttribute('width') > 500")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(page_shown, theme):
    set_theme(page_shown, theme)
    assert violations(page_shown) == []
    page_shown.get_by_text("In words").click()
    page_shown.locator(".tb-token").first.click()
    assert violations(page_shown) == []
