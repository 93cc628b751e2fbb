"""The block by hand in a browser: moved by pointer, keyboard and touch; its numbers are scratch's."""

import re

import numpy as np
import pytest

from scratch import example
from tests.browser.axe import violations
from tests.browser.watch import set_theme, watched
from tests.browser.widget_page import PHONE, opened, served_widget, sideways
from tests.test_widgets_hand import NAMES, by_scratch
from widgets.block_by_hand import STEPS, block_by_hand, cases

LABELS = [step[1] for step in STEPS]
TREE = example.params()["blocks"][0]
TABLE = example.params()["embed"]["table"]
X = TABLE[example.ids()[0, :3]]
PLAIN = by_scratch(X, TREE)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with served_widget(block_by_hand(), tmp_path_factory.mktemp("hand")) as its:
        yield its


@pytest.fixture
def shown(page, address):
    return opened(page, address)


def matrix(page, key="result"):
    """The numbers of a matrix: "result", "case", "difference" or an operand's name."""
    rows = page.locator(f'table[data-key="{key}"] tbody tr').all()
    signs = {"−∞": "-inf", "−": "-", "✎ ": "", "≠ ": "", "+": "", "≈": "0", "=": "0"}
    return [
        [
            float(re.sub("|".join(map(re.escape, signs)), lambda it: signs[it[0]], text))
            for text in row.locator("td").all_inner_texts()
        ]
        for row in rows
    ]


def is_shown(page, want, key="result"):
    np.testing.assert_allclose(matrix(page, key), want, atol=5.1e-4)


def cell(page, key, i, j):
    return page.locator(f'table[data-key="{key}"] [data-at="{i},{j}"]')


def go(page, name):
    step = STEPS[NAMES.index(name)]
    chip = re.compile(rf"^{step[1]} ([=≈≠] )?{step[6]}")
    page.get_by_role("navigation", name="Steps").get_by_role("button", name=chip).click()


def used(page):
    """The marked entries, "matrix row,column": those that the chosen one is made of."""
    marked = page.locator(".tb-block_by_hand-used")
    return marked.evaluate_all("them => them.map((it) => it.closest('table').dataset.key + ' ' + it.dataset.at)")


def replaced_in(name, i, j, value):
    """A block in which one entry of an intermediate is another."""

    def replaced(step, array):
        array = array.copy()
        if step == name:
            array[i, j] = value
        return array

    return by_scratch(X, TREE, replaced=replaced)


def test_next_leads_through_every_step(shown):
    for at, name in enumerate(NAMES):
        assert f"Step {at + 1} of 16" in shown.get_by_role("navigation", name="Steps").inner_text()
        is_shown(shown, PLAIN[name])
        for operand in STEPS[at][3].split():
            part, _, leaf = operand.partition(".")
            is_shown(shown, PLAIN[operand] if not leaf else np.atleast_2d(TREE[part][leaf]), operand)
        shown.get_by_role("button", name="Next", exact=True).dispatch_event("click")
    assert "Step 16 of 16" in shown.get_by_role("navigation", name="Steps").inner_text()  # Next leads no further
    shown.get_by_role("button", name="Back", exact=True).click()
    is_shown(shown, PLAIN["f"])
    shown.wait_for_function("document.querySelector('[role=status]').textContent.startsWith('Step 15 of 16: f,')")


def test_before_a_step_it_asks_and_after_it_says_what_is_seen(shown):
    assert "Next is n₁, the first norm. Predict:" in shown.get_by_role("navigation", name="Steps").inner_text()
    go(shown, "p")
    assert f"Row sees looks most at cat, with {PLAIN['p'][2, 1]:.3f}" in shown.locator(".tb-block_by_hand").inner_text()


def test_by_keyboard_an_entry_is_found_and_spelled_out(shown):
    go(shown, "q")
    shown.keyboard.press("Tab")  # from the chip of q …
    while shown.evaluate("document.activeElement.closest('table')?.dataset.key") != "result":
        shown.keyboard.press("Tab")
    shown.keyboard.press("ArrowUp")
    shown.keyboard.press("ArrowRight")
    shown.keyboard.press("ArrowUp")
    assert shown.evaluate("document.activeElement.dataset.at") == "0,1"
    assert shown.evaluate("model.get('entry')") == ["q", 0, 1]
    line = shown.locator(".tb-block_by_hand-arithmetic").inner_text()
    assert line == "1.732·0 + (−0.577)·0 + (−0.577)·3 + (−0.577)·2.782 = −3.338."
    assert used(shown) == [f"n1 0,{j}" for j in range(4)] + [f"attn.wq {i},1" for i in range(4)]
    shown.keyboard.press("End")
    assert shown.evaluate("document.activeElement.dataset.at") == "0,3"
    shown.wait_for_function("document.querySelector('[role=status]').textContent.endsWith('= −0.006.')")


def test_the_pointer_shows_what_an_entry_is_made_of(shown):
    entries = {
        "n1": ["x 1,0", "x 1,1", "x 1,2", "x 1,3", "norm1.g 0,2", "norm1.b 0,2"],
        "s": [f"q 1,{j}" for j in range(4)] + [f"k 2,{j}" for j in range(4)],
        "m": ["s 1,2"],
        "p": ["m 1,0", "m 1,1", "m 1,2"],
        "y": ["u 1,2", "f 1,2"],
    }
    for name, expected in entries.items():
        go(shown, name)
        before = used(shown)
        cell(shown, "result", 1, 2).hover()
        assert used(shown) == expected
        shown.get_by_text("In words").hover()
        assert used(shown) == before != expected


def test_a_number_that_is_typed_holds_from_there_on(shown):
    go(shown, "q")
    cell(shown, "result", 2, 1).focus()
    shown.keyboard.type("-4.5")
    want = replaced_in("q", 2, 1, -4.5)
    assert shown.evaluate("model.get('overrides')") == {"q,2,1": -4.5}
    assert cell(shown, "result", 2, 1).inner_text() == "✎ −4.500"
    assert "= 3.590.\nYou set it to −4.500." in shown.locator(".tb-block_by_hand-arithmetic").inner_text()
    shown.keyboard.press("Enter")
    assert shown.evaluate("document.activeElement.dataset.at") == "2,1"  # back in the matrix
    for name in ("q", "p", "y"):
        go(shown, name)
        is_shown(shown, want[name])
    assert abs(want["y"] - PLAIN["y"]).max() > 1
    go(shown, "q")
    cell(shown, "result", 2, 1).click()
    shown.get_by_role("button", name="Compute it again").click()
    assert shown.evaluate("model.get('overrides')") == {}
    assert shown.get_by_role("button", name="Compute it again").count() == 0
    is_shown(shown, PLAIN["q"])
    shown.get_by_role("button", name="Undo").click()
    is_shown(shown, want["q"])
    shown.get_by_role("button", name="Undo").click()  # the whole number at once
    is_shown(shown, PLAIN["q"])
    assert shown.get_by_role("button", name="Undo").is_disabled()


def test_arrows_nudge_and_a_wrong_number_is_said(shown):
    go(shown, "u")
    cell(shown, "x", 0, 0).click()
    field = shown.get_by_label("x, row the, column the")
    field.press("ArrowUp")
    field.press("Shift+ArrowDown")
    assert shown.evaluate("model.get('x')[0][0]") == 0.6
    longer = X.copy()
    longer[0, 0] = 0.6
    is_shown(shown, by_scratch(longer, TREE)["u"])
    field.fill("many")
    assert field.get_attribute("aria-invalid") == "true"
    assert "a number from −1" in shown.locator(".tb-hint:visible").inner_text().replace("-", "−")
    assert shown.evaluate("model.get('x')[0][0]") == 0.6
    shown.get_by_role("button", name="All numbers as at the start").click()
    is_shown(shown, PLAIN["u"])


def test_a_number_in_the_mask_lets_a_token_look_ahead(shown):
    go(shown, "m")
    cell(shown, "result", 0, 2).click()
    assert "A later token is hidden: m = −∞." in shown.locator(".tb-block_by_hand-arithmetic").inner_text()
    field = shown.get_by_label("m, row the, column sees")
    assert (field.input_value(), field.get_attribute("aria-invalid")) == ("", "false")
    assert "no token looks at those after it" in shown.locator(".tb-block_by_hand").inner_text()
    field.fill("2")
    assert "2 of 9 scores are −∞: a token looks ahead." in shown.locator(".tb-block_by_hand").inner_text()
    go(shown, "p")
    want = replaced_in("m", 0, 2, 2.0)
    is_shown(shown, want["p"])
    assert want["p"][0, 2] > 0.1


def test_by_touch_a_weight_is_changed(browser, address):
    with watched(browser, **PHONE) as watch:
        page = opened(watch.page, address)
        page.get_by_role("button", name="a what attention adds").tap()
        cell(page, "attn.wo", 1, 1).tap()
        for _ in range(3):
            page.get_by_role("button", name="+ 0.1").tap()
        assert page.evaluate("model.get('weights')['attn.wo'][1][1]") == 1.3
        tree = TREE | {"attn": TREE["attn"] | {"wo": np.diag([2, 1.3, 1, 1])}}
        is_shown(page, by_scratch(X, tree)["a"])
        assert sideways(page) == 0


CASES = {
    "times ten": ("A row × 10", ["cat"], "cat"),
    "last token": ("Only the last token changed", ["sees"], "sees"),
    "no attention": ("Attention removed", ["the", "cat", "sees"], "the, cat and sees"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_case_asks_first_and_then_shows_the_difference(shown, case):
    label, moved, said = CASES[case]
    x, tree = cases(X, TREE, {"row": TABLE[3]}, 1)[case]
    want = by_scratch(x, tree)
    shown.get_by_role("button", name=label).click()
    panel = shown.get_by_role("group", name="Case")
    assert "Predict: which rows of y will differ?" in panel.inner_text()
    assert shown.locator('table[data-key="case"]').count() == 0
    for token in moved:
        panel.get_by_label(token, exact=True).press("Space")
    panel.get_by_role("button", name="Show the case").press("Enter")
    assert f"You said {said}: right." in panel.inner_text()
    for name in NAMES:
        go(shown, name)
        is_shown(shown, PLAIN[name])
        is_shown(shown, want[name], "case")
        change = np.where(want[name] == PLAIN[name], 0, np.nan_to_num(want[name]) - np.nan_to_num(PLAIN[name]))
        is_shown(shown, change, "difference")
        marks = shown.locator('table[data-key="difference"] td[data-at]').all_inner_texts()
        assert ["≠" in mark for mark in marks] == (abs(change) >= 0.0005).ravel().tolist()
        chip = shown.locator("[aria-current=step]").inner_text()
        assert ("≠" in chip) == bool(abs(change).max() >= 0.0005)
    shown.get_by_role("button", name="As it is").click()
    assert shown.locator('table[data-key="case"]').count() == 0


def test_a_wrong_prediction_is_told_and_another_row_chosen(shown):
    shown.get_by_role("button", name="A row × 10").click()
    panel = shown.get_by_role("group", name="Case")
    panel.get_by_role("button", name="Show the case").click()
    assert "You said no row: not quite. y differs in row cat, by" in panel.inner_text()
    assert shown.evaluate("document.activeElement.textContent").startswith("The row of cat becomes")
    panel.get_by_label("Row").select_option("sees")
    assert "The row of sees becomes ten times as long. Predict:" in panel.inner_text()
    panel.get_by_label("sees", exact=True).click()
    panel.get_by_role("button", name="Show the case").click()
    go(shown, "y")
    is_shown(shown, by_scratch(X * [[1], [1], [10]], TREE)["y"], "case")


def test_with_rmsnorm_the_mean_stays(shown):
    shown.get_by_label("Norm").select_option("rmsnorm")
    go(shown, "n2")
    assert "n₂ = RMSNorm(u)" in shown.locator(".tb-block_by_hand-formula").inner_text()
    is_shown(shown, by_scratch(X, TREE, "rmsnorm")["n2"])
    tables = shown.locator("table[data-key]").evaluate_all("them => them.map((it) => it.dataset.key)")
    assert tables == ["u", "norm2.g", "result"]  # no bias


def test_what_python_sets_is_drawn(shown):
    shown.evaluate("model.set('x', [[1, 2, 3, 4], [0, 0, 0, 1], [5, 0, 0, 0]]); model.set('step', 'y')")
    is_shown(shown, by_scratch(np.array([[1.0, 2, 3, 4], [0, 0, 0, 1], [5, 0, 0, 0]]), TREE)["y"])
    shown.evaluate("model.set('x', [[1]])")
    assert shown.locator(".tb-block_by_hand").inner_text().strip() == "x must be 3 × 4 finite numbers, a list of rows."
    shown.evaluate(f"model.set('x', {X.tolist()}); model.set('step', 'nonsense'); model.set('entry', ['y', 9, 9])")
    is_shown(shown, PLAIN["x"])
    shown.evaluate("unrender(); model.set('step', 'y')")
    is_shown(shown, PLAIN["x"])


def test_in_words_it_holds_every_number_of_the_present_state(shown):
    shown.evaluate("model.set('overrides', {'a,2,0': 1.5})")
    shown.get_by_text("In words").click()
    rows = shown.locator(".tb-words tbody tr")
    assert rows.count() == 16
    want = replaced_in("a", 2, 0, 1.5)
    for at, name in enumerate(NAMES):
        cells = rows.nth(at).locator("td").all_inner_texts()
        got = [text.replace("−∞", "-inf").replace("−", "-").split() for text in cells]
        np.testing.assert_allclose(np.array(got, dtype=float), want[name], atol=5.1e-4)


STATES = {
    "at first": "model.set('step', 'x')",
    "edited": "model.set('step', 'c'); model.set('overrides', {'c,0,0': 1})",
    "asked": "model.set('case', 'times ten')",
    "shown": "model.set('case', 'no attention'); model.set('shown', true); model.set('step', 'y')",
    "wrong": "model.set('norm', 'none')",
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("width", [390, 1280])
def test_everybody_can_read_it(page, address, state, width):
    page.set_viewport_size({"width": width, "height": 844})
    opened(page, address).evaluate(STATES[state])
    page.locator("summary").evaluate("it => { it.parentNode.open = true; }")
    for theme in ("light", "dark"):
        set_theme(page, theme)
        assert violations(page) == []
    assert sideways(page) == 0
    targets = page.locator(".tb-widget").locator("button, input, select, td[data-at], summary")
    sizes = targets.evaluate_all(
        "them => them.map((it) => it.getBoundingClientRect()).map((box) => [box.width, box.height])"
    )
    assert [size for size in sizes if 0 < min(size) < 24] == []
