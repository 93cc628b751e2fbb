"""The attention explorer in a browser: moved by pointer, keyboard and touch; its numbers are scratch's."""

import re

import numpy as np
import pytest

from scratch.trace import trace
from tests.browser.axe import violations
from tests.browser.watch import set_theme, watched
from tests.browser.widget_page import PHONE, opened, served_widget, sideways
from tests.toy_model import Letters, toy_model
from widgets.attention_explorer import attention_explorer, habits

SENTENCES = ["abcab dog", "a long one that is wide"]
WIDGET = ".tb-attention_explorer"


@pytest.fixture(scope="module")
def maps():
    """[L, H, T, T] of each sentence."""
    return [trace(np.array([Letters().encode(text).ids]), *toy_model()).maps[:, 0] for text in SENTENCES]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    widget = attention_explorer(*toy_model(), Letters(), SENTENCES)
    with served_widget(widget, tmp_path_factory.mktemp("explorer")) as its:
        yield its


@pytest.fixture
def shown(page, address):
    return opened(page, address)


def token(page, index):
    return page.locator(".tb-token").nth(index)


def looks(page):
    """What stands below each token."""
    return page.locator(".tb-token small").all_inner_texts()


def expected(row, token, without=False):
    """The same from a row of scratch's map."""
    row = np.array(row)
    if without:
        row[0] = 0
        row /= row.sum()
    texts = [f"{100 * weight:.1f}%" if weight >= 0.0005 else "<0.1%" for weight in row]
    return ["–" if i > token or (without and i == 0) else text for i, text in enumerate(texts)]


def test_at_first_the_last_token_looks(shown, maps):
    assert looks(shown) == expected(maps[0][0, 0, 8], 8)
    assert shown.locator(".tb-token[aria-pressed=true]").inner_text().startswith("g")
    assert "looks most at" in shown.locator(f"{WIDGET}-says").inner_text()


def test_a_token_under_the_mouse_looks_until_the_mouse_leaves(shown, maps):
    token(shown, 3).hover()
    assert looks(shown) == expected(maps[0][0, 0, 3], 3)
    shown.get_by_role("heading", name="A widget").hover()
    assert looks(shown) == expected(maps[0][0, 0, 8], 8)
    assert shown.evaluate("model.get('token')") == 8


def test_a_token_is_chosen_by_click_and_by_arrow_keys(shown, maps):
    token(shown, 4).click()
    assert shown.evaluate("model.get('token')") == 4
    shown.get_by_role("heading", name="A widget").hover()
    shown.keyboard.press("ArrowLeft")
    assert looks(shown) == expected(maps[0][0, 0, 3], 3)
    shown.keyboard.press("Home")
    assert looks(shown) == expected(maps[0][0, 0, 0], 0)
    assert shown.evaluate("document.activeElement === document.querySelector('.tb-token')")
    assert shown.locator(".tb-token[tabindex='0']").count() == 1


def test_everything_is_reached_by_tab(shown):
    name = "document.activeElement.labels?.[0]?.innerText || document.activeElement.className"
    reached = []
    for _ in range(8):
        shown.keyboard.press("Tab")
        reached.append(shown.evaluate(name))
    controls = ["Sentence", "Block", "Head", "Leave out the first token", "tb-token", "tb-scroll", "All heads by"]
    assert reached == [*controls, "tb-attention_explorer-cell"]


def test_block_and_head_are_moved_by_keyboard(shown, maps):
    shown.get_by_label("Block", exact=True).focus()
    shown.keyboard.press("ArrowRight")
    assert looks(shown) == expected(maps[0][1, 0, 8], 8)
    shown.get_by_label("Head", exact=True).focus()
    shown.keyboard.press("End")
    assert looks(shown) == expected(maps[0][1, 3, 8], 8)
    assert shown.evaluate("[model.get('layer'), model.get('head')]") == [1, 3]
    status = shown.locator(".tb-widget > [role=status]")
    said = shown.locator(f"{WIDGET}-says").inner_text().split(" From the third")[0]
    shown.wait_for_function("([node, text]) => node.textContent === text", arg=[status.element_handle(), said])


def test_the_sink_is_left_out_and_the_rest_scaled(shown, maps):
    shown.get_by_label("Leave out the first token").click()
    assert looks(shown) == expected(maps[0][0, 0, 8], 8, without=True)
    got = f"The first token got {100 * maps[0][0, 0, 8, 0]:.1f}%. It is left out here"
    assert shown.locator(f"{WIDGET}-says").inner_text().startswith(got)
    token(shown, 0).click()
    assert looks(shown) == ["–"] * 9
    assert "nothing is left" in shown.locator(f"{WIDGET}-says").inner_text()
    token(shown, 1).click()
    assert looks(shown)[:3] == ["–", "100.0%", "–"]
    assert "sees only" in shown.locator(f"{WIDGET}-says").inner_text()


def cell(page, layer, head):
    return page.locator(f"{WIDGET}-cell").nth(4 * layer + head)


def test_a_head_is_chosen_in_the_map_of_all_heads(shown, maps):
    known = habits(maps[0])
    assert cell(shown, 2, 1).get_attribute("aria-label") == f"block 3, head 2: {100 * known['first'][2, 1]:.1f}%"
    cell(shown, 2, 1).click()
    assert looks(shown) == expected(maps[0][2, 1, 8], 8)
    cell(shown, 2, 1).press("ArrowUp")
    shown.keyboard.press("ArrowRight")
    assert looks(shown) == expected(maps[0][1, 2, 8], 8)
    assert shown.evaluate("document.activeElement.getAttribute('aria-label')").startswith("block 2, head 3")
    selected = shown.locator("[role=gridcell][aria-selected=true]")
    assert selected.count() == 1 and selected.get_attribute("tabindex") == "0"


@pytest.mark.parametrize("key", ["before", "itself", "entropy"])
def test_the_map_of_all_heads_shows_other_habits(shown, maps, key):
    shown.get_by_label("All heads by").select_option(key)
    value = habits(maps[0])[key][1, 3]
    text = f"{value:.2f} bits" if key == "entropy" else f"{100 * value:.1f}%"
    assert cell(shown, 1, 3).get_attribute("aria-label") == f"block 2, head 4: {text}"
    share = value / np.log2(9) if key == "entropy" else value
    assert fullness(cell(shown, 1, 3).get_attribute("style")) == pytest.approx(100 * share, abs=0.6)


def fullness(style):
    """The percentage of full colour in a style."""
    return int(re.search(r"(\d+)%", style)[1])


def test_the_map_has_a_shaded_cell_for_each_visible_pair(shown, maps):
    cells = shown.locator(f"{WIDGET} .tb-scroll svg rect:not({WIDGET}-row)")
    found = [fullness(rect.get_attribute("style")) for rect in cells.all()]
    visible = maps[0][0, 0][np.tri(9, dtype=bool)]
    assert np.abs(np.array(found) - 100 * np.sqrt(np.rint(1000 * visible) / 1000)).max() < 0.52
    shown.get_by_label("Leave out the first token").click()
    assert cells.count() == len(visible) - 9


def test_a_row_of_the_map_is_looked_at_and_chosen(shown, maps):
    cells = shown.locator(f"{WIDGET} .tb-scroll svg rect:not({WIDGET}-row)")
    box = cells.nth(15).bounding_box()  # row 5, its first column
    shown.mouse.move(box["x"] + 5, box["y"] + 12)
    assert looks(shown) == expected(maps[0][0, 0, 5], 5)
    assert shown.evaluate("model.get('token')") == 8
    shown.mouse.click(box["x"] + 5, box["y"] + 12)
    assert shown.evaluate("model.get('token')") == 5
    marked = shown.locator(f"{WIDGET}-row").bounding_box()
    assert marked["y"] + marked["height"] / 2 == pytest.approx(box["y"] + box["height"] / 2, abs=1)


def test_another_sentence(shown, maps):
    shown.get_by_label("Sentence").select_option("1")
    assert looks(shown) == expected(maps[1][0, 0, 22], 22)
    assert shown.locator(".tb-token").count() == 23


def test_python_sets_values_even_impossible_ones(shown, maps):
    shown.evaluate("model.set('layer', 2), model.set('head', 3), model.set('token', 6)")
    assert looks(shown) == expected(maps[0][2, 3, 6], 6)
    assert shown.get_by_label("Block", exact=True).input_value() == "3"
    shown.evaluate("model.set('layer', 99), model.set('head', -1), model.set('token', 99), model.set('habit', 'x')")
    assert looks(shown) == expected(maps[0][2, 0, 8], 8)


def test_in_words_are_pythons_first_and_then_of_what_is_shown(shown, maps):
    words = shown.locator(".tb-words")
    assert "In block 1, head 1, the token “g” looks most at" in words.text_content()
    shown.evaluate("model.set('head', 2)")
    row = maps[0][0, 2, 8]
    cells = words.locator("td").all_text_contents()
    assert cells == [f"{100 * weight:.1f}%" for weight in sorted(row, reverse=True) if weight >= 0.0005]
    assert "Block 1, head 3: where “g” looks" in words.text_content()


def test_it_lets_go_when_its_cell_is_cleared(shown):
    before = looks(shown)
    shown.evaluate("unrender(), model.set('layer', 1)")
    assert looks(shown) == before


def test_on_a_phone_by_touch(browser, address, maps):
    with watched(browser, **PHONE) as watch:
        page = opened(watch.page, address)
        assert sideways(page) == 0
        token(page, 2).tap()
        assert looks(page) == expected(maps[0][0, 0, 2], 2)
        cell(page, 1, 1).tap()
        assert looks(page) == expected(maps[0][1, 1, 2], 2)
        page.get_by_label("Sentence").select_option("1")
        assert sideways(page) == 0
        small = [token(page, 0), cell(page, 0, 0), page.get_by_label("Leave out the first token")]
        assert all(min(it.bounding_box()["width"], it.bounding_box()["height"]) >= 24 for it in small)
        assert page.evaluate("[...document.querySelectorAll('svg')].every((it) => it.getBoundingClientRect().width == "
                             "it.getAttribute('width'))")  # so 12 px in it are 12 px  # fmt: skip


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(shown, theme):
    set_theme(shown, theme)
    assert violations(shown) == []
    shown.get_by_label("Leave out the first token").click()
    shown.get_by_text("In words").click()
    cell(shown, 2, 2).click()
    assert violations(shown) == []
