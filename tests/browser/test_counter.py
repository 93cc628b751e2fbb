"""The counter in a browser: moved by pointer, keyboard and touch; its numbers are scratch's."""

from dataclasses import asdict, replace

import pytest

from scratch import account
from scratch.config import PRESETS
from tests.browser.axe import violations
from tests.browser.watch import set_theme, watched
from tests.browser.widget_page import PHONE, opened, served_widget, sideways
from widgets import counter

GPT2, LLAMA3 = PRESETS["gpt2-small"], PRESETS["llama3-8b"]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with served_widget(counter.counter(), tmp_path_factory.mktemp("counter")) as its:
        yield its


@pytest.fixture
def shown(page, address):
    return opened(page, address)


def bill(page, title):
    """What stands in a bill, {"": total, part: number}, as text."""
    box = page.locator(".tb-counter-bill", has_text=title)
    total = box.locator(".tb-counter-title .tb-counter-number").inner_text()
    rows = {row.split("\n")[0]: row.split("\n")[1] for row in box.locator("li").all_inner_texts()}
    return {"": total.removesuffix(" bytes")} | rows


def expected(parts):
    """The same from scratch's whole numbers."""
    return {"": f"{sum(parts.values()):,}"} | {name: f"{value:,}" for name, value in parts.items()}


def bills_are(page, config, T, batch=1, value_bytes=2, passes=1, kind="operations"):
    """Compare all five bills with scratch."""
    count = counter.bills(config, T, batch, value_bytes)
    assert bill(page, "Parameters") == expected(count["parameters"])
    assert bill(page, "Operations") == expected({name: passes * value for name, value in count[kind].items()})
    assert bill(page, "Key/value cache") == expected(count["cache"])
    assert bill(page, "Memory for training") == expected(count["training"])
    assert bill(page, "A step of decoding") == expected(count["step"])


def test_at_first_it_shows_gpt2_by_part_and_in_total(shown):
    bills_are(shown, GPT2, 1024)
    assert bill(shown, "Parameters")[""] == "124,439,808"


def test_a_model_is_chosen_by_keyboard(shown):
    shown.get_by_label("Model", exact=True).focus()
    shown.keyboard.press("l")
    shown.keyboard.press("l")
    shown.keyboard.press("Enter")
    assert shown.get_by_label("Model", exact=True).input_value() == "Llama 3 8B"
    assert shown.evaluate("model.get('T')") == LLAMA3.max_seq
    bills_are(shown, LLAMA3, LLAMA3.max_seq)
    assert "serves 4 of 32 query heads" in shown.locator(".tb-counter-bill", has_text="Key/value").inner_text()


def test_a_configuration_is_typed(shown):
    for name, value in (("n_heads", "24"), ("n_kv_heads", ""), ("d_head", "40"), ("d_ff", "2,048")):
        shown.get_by_label(name).fill(value)
    own = replace(GPT2, n_heads=24, n_kv_heads=None, d_head=40, d_ff=2048)
    assert shown.get_by_label("Model", exact=True).input_value() == ""
    bills_are(shown, own, 1024)
    shown.get_by_label("norm", exact=True).select_option("rmsnorm")
    shown.get_by_label("ffn", exact=True).select_option("swiglu")
    shown.get_by_label("pos", exact=True).select_option("rope")
    shown.get_by_label("form", exact=True).select_option("parallel")
    shown.get_by_label("tied head").click()
    shown.get_by_label("biases").press("Space")
    own = replace(own, norm="rmsnorm", ffn="swiglu", pos="rope", form="parallel", tied=False, bias=False)
    bills_are(shown, own, 1024)
    assert "a rough guide" in shown.locator(".tb-counter-bill", has_text="Memory").inner_text()


def test_work_and_machine_are_typed(shown):
    shown.get_by_label("Tokens T").fill("2048")
    shown.get_by_label("Sequences B").fill("16")
    shown.get_by_label("Bytes a value").select_option("1")
    shown.get_by_label("Memory, TB a second", exact=True).fill("2")
    shown.get_by_label("Compute, TFLOP a second").fill("312")
    bills_are(shown, GPT2, 2048, 16, 1)
    reading = sum(account.decode_bytes(GPT2, 2048, 16, 1).values()) / 2e12
    said = shown.locator(".tb-counter-bill", has_text="A step of decoding").inner_text()
    assert f"at least {1e3 * reading:.4g} ms" in said
    assert f"at most {16 / reading / 1e3:.1f} thousand tokens a second" in said
    assert "beyond the longest text, 1,024" in shown.locator(".tb-counter-lesson").inner_text()


def test_both_conventions_stand_side_by_side(shown):
    rows = [[cell.replace(",", "") for cell in row.split("\t")] for row in shown.locator("tbody tr").all_inner_texts()]
    kinds = {
        "all": account.flops_per_token(GPT2, 1024),
        "visible": account.flops_per_token(GPT2, 1024, causal=True),
        "2N": 2 * account.count_params(GPT2),
    }
    full = kinds["all"]
    assert rows[:3] == [[k, str(f), str(1024 * f), f"{f / full:.0%}"] for k, f in kinds.items()]
    shown.get_by_label("visible pairs").check()
    shown.get_by_label("with backward").check()
    bills_are(shown, GPT2, 1024, passes=3, kind="visible")
    assert shown.locator("tbody tr").nth(2).inner_text().split("\t")[:2] == [
        "6N",
        f"{6 * account.count_params(GPT2):,}",
    ]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("d_model", "770", "d_model=770 is not divisible by n_heads=12; set d_head"),
        ("n_kv_heads", "5", "n_heads=12 is not divisible by n_kv_heads=5"),
        ("d_ff", "many", "d_ff='many', expected a positive integer"),
        ("vocab_size", "", "vocab_size=None, expected a positive integer"),
    ],
)
def test_a_mistake_is_said_in_words_and_can_be_mended(shown, field, value, said):
    kept = shown.get_by_label(field).input_value()
    shown.get_by_label(field).fill(value)
    assert shown.get_by_role("alert").inner_text() == f"Nothing to count yet: {said}."
    assert not shown.locator(".tb-counter-bills").is_visible()
    assert shown.get_by_label(field).get_attribute("aria-invalid") == str(said.startswith(f"{field}=")).lower()
    assert violations(shown) == []
    shown.get_by_label(field).fill(kept)
    assert shown.get_by_role("alert").inner_text() == ""
    bills_are(shown, GPT2, 1024)


def test_twice_the_text_is_compared_with_the_start(shown):
    shown.get_by_label("Tokens T").fill("2048")
    operations = [account.flops_per_token(GPT2, T) for T in (1024, 2048)]
    lesson = shown.locator(".tb-counter-lesson").inner_text()
    assert "parameters the same" in lesson and "the cache × 2," in lesson
    assert f"a token's operations × {operations[1] / operations[0]:.3g}" in lesson
    shown.wait_for_function("document.querySelector('[role=status]').textContent.includes('the cache × 2')")
    shown.get_by_role("button", name="Compare from here on").press("Enter")
    assert shown.locator(".tb-counter-lesson").inner_text().startswith("Most parameters: feed-forward, 46%.")


def test_a_value_set_in_python_is_drawn(shown):
    shown.evaluate("config => model.set('config', config)", {**counter._fields(LLAMA3)})
    shown.evaluate("model.set('T', 100)")
    bills_are(shown, LLAMA3, 100)
    assert shown.get_by_label("Tokens T").input_value() == "100"
    assert shown.get_by_label("Model", exact=True).input_value() == "Llama 3 8B"
    shown.evaluate("config => model.set('config', config)", {**counter._fields(LLAMA3), "n_layers": 0})
    bills_are(shown, replace(LLAMA3, n_layers=0), 100)
    shown.get_by_role("button", name="Compare from here on").click()
    shown.get_by_label("n_layers").fill("1")
    assert "the cache no longer 0" in shown.locator(".tb-counter-lesson").inner_text()
    shown.evaluate("model.set('T', 0)")
    assert shown.get_by_role("alert").inner_text() == "Nothing to count yet: T=0, expected a positive integer."


def test_the_words_follow(shown):
    shown.get_by_label("Sequences B").fill("3")
    shown.get_by_text("In words").click()
    words = shown.locator(".tb-words").inner_text()
    assert f"{account.kv_cache_bytes(GPT2, 1024, 3):,}" in words and "Compared with the start" in words


def test_it_leaves_nothing_behind(shown):
    lesson = shown.locator(".tb-counter-lesson").element_handle()
    before = lesson.text_content()
    shown.evaluate("unrender(); model.set('T', 5)")
    assert shown.locator("#widget").inner_html() == ""
    assert lesson.text_content() == before  # it listens no longer


def test_on_a_phone_by_touch(browser, address):
    with watched(browser, **PHONE) as watch:
        page = opened(watch.page, address)
        page.get_by_label("visible pairs").tap()
        bills_are(page, GPT2, 1024, kind="visible")
        page.get_by_label("Model", exact=True).select_option("Llama 3 8B")
        for theme in ("light", "dark"):
            set_theme(page, theme)
            assert violations(page) == []
        assert sideways(page) == 0
        sizes = "all => all.map(it => it.getBoundingClientRect()).map(box => Math.min(box.width, box.height))"
        targets = page.locator("#widget :is(button, select, summary, input)").evaluate_all(sizes)
        assert len(targets) > 15 and min(targets) >= 24


def test_python_gets_what_is_typed(shown):
    shown.get_by_label("n_layers").fill("24")
    typed = shown.evaluate("model.get('config')")
    assert replace(GPT2, n_layers=24) == type(GPT2)(**typed)
    assert typed.keys() == asdict(GPT2).keys() - set(counter.FREE)
