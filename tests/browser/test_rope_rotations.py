"""RoPE's rotations in a browser: moved by pointer, keyboard and touch; hands, map and words are scratch's."""

import numpy as np
import pytest

from scratch.rope import convert_layout, rope_forward, rope_table
from tests.browser.axe import violations
from tests.browser.watch import set_theme, watched
from tests.browser.widget_page import PHONE, opened, served_widget, sideways
from widgets import rope_rotations

T = 32


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with served_widget(rope_rotations.rope_rotations(), tmp_path_factory.mktemp("rope")) as its:
        yield its


@pytest.fixture
def shown(page, address):
    return opened(page, address)


def value(page, name):
    """A value of the model."""
    return page.evaluate("name => model.get(name)", name)


def turned(page, x):
    """x as scratch turns it at each position, [T, Dh], with the model's base and layout."""
    vector, layout = np.array(value(page, x), dtype=float), value(page, "pairing")
    return rope_forward(np.tile(vector, (T, 1)), *rope_table(T, len(vector), value(page, "base")), layout)[0]


def hands(page, x):
    """The two numbers of each hand of x at its position, as scratch turns it."""
    at = turned(page, x)[value(page, "m" if x == "q" else "n")]
    return at.reshape(-1, 2) if value(page, "pairing") == "interleaved" else at.reshape(2, -1).T


def number(value):
    """As the page writes it."""
    return f"{value:.2f}".replace("-", "−")


def is_right(page):
    """Compare everything that is shown with scratch."""
    q, k = hands(page, "q"), hands(page, "k")
    for x, expected in (("q", q), ("k", k)):
        drawn = page.locator(f".tb-rope-{x}").evaluate_all(
            "all => all.map(it => Number(it.getAttribute('aria-valuenow')))"
        )
        degrees = np.degrees(np.arctan2(expected[:, 1], expected[:, 0]))
        assert np.abs((drawn - degrees + 180) % 360 - 180).max() <= 0.51
    each = page.locator(".tb-rope-caption").all_inner_texts()
    assert [text.split("score ")[1] for text in each] == [number(score) for score in (q * k).sum(axis=1)]
    m, n = value(page, "m"), value(page, "n")
    lesson = page.locator(".tb-rope-lesson").inner_text()
    if value(page, "pair") < 0:
        assert f"Their score is {number((q * k).sum())}." in lesson
    assert f"n − m = {n - m}".replace("-", "−") in lesson


def test_at_first_hands_scores_and_words_are_scratchs(shown):
    is_right(shown)
    assert "All 27 places" in shown.locator(".tb-rope-lesson").inner_text()


def test_both_on_turns_the_hands_and_keeps_the_score(shown):
    before, lesson = hands(shown, "q"), shown.locator(".tb-rope-lesson").inner_text()
    for _ in range(5):
        shown.get_by_role("button", name="both on").press("Enter")
    assert (value(shown, "m"), value(shown, "n")) == (17, 12)
    is_right(shown)
    assert np.abs(hands(shown, "q") - before).max() > 0.1
    assert shown.locator(".tb-rope-lesson").inner_text() == lesson  # the difference, the score, and how many have it
    for _ in range(40):
        shown.get_by_role("button", name="both back").click()
    assert (value(shown, "m"), value(shown, "n")) == (5, 0)


def test_a_slider_moves_one_of_them_by_keyboard(shown):
    slider = shown.get_by_label("query at m =")
    slider.focus()
    shown.keyboard.press("ArrowRight")
    shown.keyboard.press("ArrowRight")
    assert value(shown, "m") == 14 and value(shown, "n") == 7
    is_right(shown)
    slider.press("Home")
    assert value(shown, "m") == 0
    is_right(shown)
    assert "7 places ahead, which a causal head does not see" in shown.locator(".tb-rope-lesson").inner_text()


def test_a_hand_is_turned_by_the_arrow_keys_and_no_other_moves(shown):
    before = np.array(value(shown, "q"))
    hand = shown.get_by_role("slider", name="query's hand of pair 2")
    degrees = int(hand.get_attribute("aria-valuenow"))
    hand.focus()
    shown.keyboard.press("ArrowRight")
    after = np.array(value(shown, "q"))
    assert int(hand.get_attribute("aria-valuenow")) == pytest.approx(degrees + 5, abs=1)
    assert np.flatnonzero(np.abs(after - before) > 1e-9).tolist() == [4, 5]
    assert np.hypot(*after[4:6]) == pytest.approx(np.hypot(*before[4:6]), rel=1e-12)
    is_right(shown)
    hand.press("Home")
    assert hand.get_attribute("aria-valuenow") == "0"
    is_right(shown)


def drag(page, x, pair, degrees):
    """Drag a hand's end to an angle; the vectors before."""
    before = np.array(value(page, x))
    hand = page.locator(f".tb-rope-{x}").nth(pair)
    hand.scroll_into_view_if_needed()
    face = page.locator(".tb-rope-clock").nth(pair).bounding_box()
    tip = hand.locator(".tb-rope-tip").bounding_box()
    centre = face["x"] + face["width"] / 2, face["y"] + face["height"] / 2
    page.mouse.move(tip["x"] + tip["width"] / 2, tip["y"] + tip["height"] / 2)
    page.mouse.down()
    angle = np.radians(degrees)
    page.mouse.move(centre[0] + 50 * np.cos(angle), centre[1] - 50 * np.sin(angle), steps=5)
    page.mouse.up()
    page.mouse.move(0, 0)
    return before


def swipe(page, x, pair, degrees):
    """Drag a hand's end to an angle with a finger."""
    page.locator(f".tb-rope-{x}").nth(pair).scroll_into_view_if_needed()
    face = page.locator(".tb-rope-clock").nth(pair).bounding_box()
    tip = page.locator(f".tb-rope-{x} .tb-rope-tip").nth(pair).bounding_box()
    angle = np.radians(degrees)
    places = [
        (tip["x"] + tip["width"] / 2, tip["y"] + tip["height"] / 2),
        (face["x"] + face["width"] / 2 + 50 * np.cos(angle), face["y"] + face["height"] / 2 - 50 * np.sin(angle)),
    ]
    finger = page.context.new_cdp_session(page)
    for kind, place in (("touchStart", places[0]), ("touchMove", places[1]), ("touchEnd", None)):
        points = [dict(zip("xy", place))] if place else []
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    name = {"q": "query", "k": "key"}[x]
    shown = page.get_by_role("slider", name=f"{name}'s hand of pair {pair}").get_attribute("aria-valuenow")
    assert int(shown) == pytest.approx(degrees, abs=1)


def test_a_hand_is_dragged(shown):
    before = drag(shown, "k", 1, -60)
    hand = shown.get_by_role("slider", name="key's hand of pair 1")
    assert int(hand.get_attribute("aria-valuenow")) == pytest.approx(-60, abs=1)
    after = np.array(value(shown, "k"))
    assert np.flatnonzero(np.abs(after - before) > 1e-9).tolist() == [2, 3]
    is_right(shown)


def colours(page):
    """The strength of the map's colours: signed per cent, [T, T]."""
    fills = page.locator(".tb-rope-map rect:not(.tb-rope-mark)").evaluate_all("all => all.map(it => it.style.fill)")
    signs = [-1 if "--tb-warm" in fill else 1 for fill in fills]
    percents = [int(fill.split("%")[0].rsplit(" ", 1)[1]) for fill in fills]
    return np.reshape(np.multiply(signs, percents), (T, T))


def test_the_map_depends_on_the_difference_only(shown):
    scores = turned(shown, "q") @ turned(shown, "k").T
    seen = colours(shown)
    np.testing.assert_allclose(seen, 100 * scores / np.abs(scores).max(), atol=0.51)
    assert max(np.ptp(np.diagonal(seen, by)) for by in range(1 - T, T)) <= 1  # rounding may go either way
    shown.get_by_role("button", name="pair 1").click()
    part = np.stack([turned(shown, x)[:, 2:4] for x in "qk"])
    scores = part[0] @ part[1].T
    np.testing.assert_allclose(colours(shown), 100 * scores / np.abs(scores).max(), atol=0.51)
    assert "pair 1 alone" in shown.get_by_text("The score by position").inner_text()
    assert f"part of pair 1 in the score is {number(scores[12, 7])}" in shown.locator(".tb-rope-lesson").inner_text()
    shown.get_by_role("button", name="pair 1").press("Space")
    assert value(shown, "pair") == -1


def test_a_place_in_the_map_is_chosen_by_pointer_and_by_keys(shown):
    picture = shown.get_by_role("application")
    box = picture.bounding_box()
    unit = box["width"] / 370
    picture.click(position={"x": unit * (46 + 10 * 3.5), "y": unit * (46 + 10 * 20.5)})
    assert (value(shown, "m"), value(shown, "n")) == (20, 3)
    is_right(shown)
    picture.press("ArrowUp")
    picture.press("ArrowRight")
    assert (value(shown, "m"), value(shown, "n")) == (19, 4)
    picture.press("End")
    assert (value(shown, "m"), value(shown, "n")) == (19, 31)
    is_right(shown)
    assert shown.locator(".tb-rope-mark").get_attribute("x") == str(46 + 310)
    shown.wait_for_function("document.querySelector('[role=status]').textContent.includes('12 places ahead')")


def test_the_other_layout_pairs_other_entries_until_they_are_reordered(shown):
    before = shown.locator(".tb-rope-lesson").inner_text()
    q = np.array(value(shown, "q"))
    shown.get_by_label("layout", exact=True).select_option("half")
    assert shown.locator(".tb-rope-caption").first.inner_text().startswith("entries 0, 4")
    assert "pair 3 is entries 3 and 7" in shown.locator(".tb-rope-strip").get_attribute("aria-label")
    is_right(shown)
    assert shown.locator(".tb-rope-lesson").inner_text() != before
    shown.get_by_role("button", name="reorder entries").click()
    assert value(shown, "q") == convert_layout(q, 1, "half").tolist()
    is_right(shown)
    said = shown.locator(".tb-rope-lesson").inner_text()
    assert said.split("(")[0] == before.split("(")[0]


def test_base_and_width(shown):
    shown.get_by_label("base").select_option("500,000")
    assert value(shown, "base") == 500_000
    is_right(shown)
    shown.get_by_label("head width").select_option("16: 8 pairs")
    assert len(value(shown, "q")) == len(value(shown, "k")) == 16
    assert shown.locator(".tb-rope-clock").count() == 8
    is_right(shown)
    speed = shown.locator(".tb-rope-caption").last.inner_text().split("\n")[1].removesuffix(" rad a token")
    assert float(speed) == pytest.approx(500_000 ** (-14 / 16), rel=5e-3)


def test_equal_hands_match_best_in_one_place_and_one_back_there(shown):
    shown.get_by_role("button", name="one vector, equal hands").click()
    assert value(shown, "q") == value(shown, "k") == [0.5] * 8
    assert np.argmax(colours(shown)[20]) == 20
    shown.get_by_role("button", name="query one place back").click()
    assert [np.argmax(row) for row in colours(shown)[1:]] == list(range(31))
    is_right(shown)
    shown.get_by_role("button", name="random").click()
    assert value(shown, "q") == shown.evaluate("model.get('data').random[0].slice(0, 8)")


def test_values_set_in_python_are_drawn(shown):
    shown.evaluate("model.set('m', 30); model.set('q', [1, 0, 1, 0]); model.set('k', [0, 1, 1, 1])")
    assert shown.get_by_label("query at m =").input_value() == "30"
    assert shown.locator(".tb-rope-clock").count() == 2
    is_right(shown)
    shown.evaluate("model.set('n', 99)")
    assert shown.get_by_label("key at n =").input_value() == "31"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("q", [1, 2, 3], "q has 3 numbers and k 8, expected one even number for both."),
        ("k", [1, 2, 3, 4, 5, 6, 7, None], "q or k holds what is no finite number."),
        ("base", -1, "base=-1, expected a positive number."),
        ("pairing", "quarter", "layout=quarter, expected interleaved or half."),
    ],
)
def test_what_python_sets_wrongly_is_said(shown, name, value, said):
    shown.evaluate("([name, value]) => model.set(name, value)", [name, value])
    assert shown.locator(".tb-rope-lesson").inner_text() == said


def test_the_words_follow(shown):
    shown.get_by_text("In words").click()
    shown.get_by_label("key at n =").press("End")
    rows = shown.locator(".tb-words tbody tr").all_inner_texts()
    score = (hands(shown, "q") * hands(shown, "k")).sum(axis=1)
    assert rows[1].split("\t") == ["1", "2, 3", "0.1", "1.20", "3.10", number(score[1])]


def test_it_leaves_nothing_behind(shown):
    lesson = shown.locator(".tb-rope-lesson").element_handle()
    before = lesson.text_content()
    shown.evaluate("unrender(); model.set('m', 5)")
    assert shown.locator("#widget").inner_html() == ""
    assert lesson.text_content() == before  # it listens no longer


def test_on_a_phone_by_touch(browser, address):
    with watched(browser, **PHONE) as watch:
        page = opened(watch.page, address)
        page.get_by_role("button", name="both on").tap()
        assert (value(page, "m"), value(page, "n")) == (13, 8)
        picture = page.get_by_role("application")
        unit = picture.bounding_box()["width"] / 370
        picture.tap(position={"x": unit * (46 + 10 * 2.5), "y": unit * (46 + 10 * 25.5)})
        assert (value(page, "m"), value(page, "n")) == (25, 2)
        is_right(page)
        swipe(page, "q", 2, 45)
        is_right(page)
        for theme in ("light", "dark"):
            set_theme(page, theme)
            assert violations(page) == []
        assert sideways(page) == 0
        sizes = "all => all.map(it => it.getBoundingClientRect()).map(box => Math.min(box.width, box.height))"
        assert min(page.locator("#widget :is(button, select, summary, input)").evaluate_all(sizes)) >= 24
        small = "all => Math.min(...all.map(it => it.getBoundingClientRect().height))"
        assert page.locator("#widget svg text:not([transform])").evaluate_all(small) >= 12
