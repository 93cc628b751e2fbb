"""Every widget on every page of the built book, where it stands: moved by keys and by pointer, and what comes of it."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from scratch import account, pretrained
from scratch.config import PRESETS
from scratch.generate import next_probabilities
from scratch.rope import rope_forward, rope_table
from scratch.trace import trace
from tests.browser import site
from tests.browser.test_attention_explorer import expected as looks_expected
from tests.browser.test_attention_explorer import looks
from tests.browser.test_block_by_hand import PLAIN, is_shown
from tests.browser.test_counter import bill
from tests.browser.test_residual_stream import text_of
from tests.browser.test_rope_rotations import number
from widgets import rope_rotations

HOLDS_ONE = 'class="static-widget"'


def counter(widget):
    models = widget.get_by_label("Model", exact=True)
    models.focus()
    models.press("l")  # the first whose name begins with it
    config = PRESETS["llama2-7b"]
    assert models.input_value() == "Llama 2 7B"
    assert bill(widget, "Parameters")[""] == f"{account.count_params(config):,}"
    every = bill(widget, "Operations")[""]
    widget.get_by_label("visible pairs").click()
    seen = bill(widget, "Operations")[""]
    assert [every, seen] == [f"{account.flops_per_token(config, 4096, causal=only):,}" for only in (False, True)]


def rope(widget):
    made = rope_rotations.rope_rotations()
    cos, sin = rope_table(32, 8)

    def score(m, n):
        q, k = (rope_forward(np.tile(x, (32, 1)), cos, sin)[0] for x in (made.q, made.k))
        return f"Their score is {number(q[m] @ k[n])}."

    lesson = widget.locator(".tb-rope-lesson")
    expect(lesson).to_contain_text(score(12, 7))
    widget.get_by_label("query at m =").press("End")
    expect(lesson).to_contain_text(score(31, 7))
    assert score(31, 7) != score(12, 7)
    widget.get_by_role("button", name="both back").click()
    expect(widget.get_by_label("key at n =")).to_have_value("6")
    expect(lesson).to_contain_text(score(30, 6))


def block(widget):
    widget.get_by_role("button", name="Next").press("Enter")
    is_shown(widget, PLAIN["n1"])
    steps = widget.get_by_role("navigation", name="Steps").get_by_role("button")
    steps.last.click()
    is_shown(widget, PLAIN["y"])


def explorer(widget):
    params, config, tokenizer = pretrained.smollm2()
    sentence = widget.get_by_label("Sentence").locator("option").first.inner_text()
    maps = trace(np.array([tokenizer.encode(sentence).ids]), params, config).maps[:, 0]
    assert looks(widget) == looks_expected(maps[27, 0, 6], 6)
    widget.get_by_label("Block", exact=True).press("ArrowLeft")
    assert looks(widget) == looks_expected(maps[26, 0, 6], 6)
    widget.locator(".tb-token").nth(4).click()
    widget.get_by_label("Leave out the first token").click()
    assert looks(widget) == looks_expected(maps[26, 0, 4], 4, without=True)


def stream(widget):
    params, config, tokenizer = pretrained.smollm2()
    sentence = widget.get_by_label("Sentence").locator("option").first.inner_text()
    norms = trace(np.array([tokenizer.encode(sentence).ids]), params, config).norms[:, 0]
    length = widget.locator(".tb-residual_stream-readout b").first
    expect(length).to_have_text(text_of(norms[20, -1]))
    widget.get_by_label("Blocks passed", exact=True).press("End")
    expect(length).to_have_text(text_of(norms[-1, -1]))
    widget.locator(".tb-token").first.click()
    expect(length).to_have_text(text_of(norms[-1, 0]))


def valley(widget):
    def says(rate):
        along, across = 4 * (1 - rate) ** 20, (1 - 100 * rate) ** 20
        ends = f"20 steps end at {along:.2f} along the valley and {across:.2g} across it."
        return re.compile(re.escape(f"With a rate of {rate:g}, {ends}"))

    picture, rate = widget.get_by_role("img"), widget.get_by_role("slider", name="rate")
    expect(picture).to_have_attribute("alt", says(0.018))
    rate.press("End")
    expect(picture).to_have_attribute("alt", says(0.021))
    rate.click()  # its middle
    expect(picture).to_have_attribute("alt", says(0.015))


def sampling(widget):
    five = np.log([0.40, 0.30, 0.15, 0.10, 0.05])

    def says(**knobs):
        kept = zip("ABCDE", next_probabilities(five, **knobs))
        return f"Drawn from: {', '.join(f'{name} {share:.0%}' for name, share in kept if share > 0)}."

    picture = widget.get_by_role("img")
    heat, top = (widget.get_by_role("slider", name=name) for name in ("temperature", "top p"))
    expect(picture).to_have_attribute("alt", says(temperature=1.0, top_p=1.0))
    heat.press("Home")
    expect(picture).to_have_attribute("alt", says(temperature=0.25, top_p=1.0))
    top.click()
    expect(picture).to_have_attribute("alt", says(temperature=0.25, top_p=0.7))


MOVES = {
    "tb-counter": counter,
    "RoPE: hands that turn with the position": rope,
    "tb-block_by_hand": block,
    "tb-attention_explorer": explorer,
    "tb-residual_stream": stream,
    "Gradient descent in a narrow valley": valley,
    "What a next token is drawn from": sampling,
}


@pytest.mark.model
@pytest.mark.parametrize("path", site.pages(having=HOLDS_ONE))
def test_each_widget_is_moved(page, book, path):
    page.goto(f"{book}{path}")
    widgets = page.locator(".static-widget > div > .tb-widget")
    expect(page.locator(".static-widget-words")).to_have_count(0)
    expect(widgets).to_have_count(page.locator(".static-widget").count())
    for widget in widgets.all():
        names = {*widget.get_attribute("class").split(), widget.get_attribute("aria-label")} & MOVES.keys()
        assert len(names) == 1, widget.get_attribute("aria-label")
        MOVES[names.pop()](widget)


def test_the_book_has_all_of_them():
    pages = "".join((site.BOOK / path).read_text(encoding="utf-8") for path in site.pages(having=HOLDS_ONE))
    assert [name for name in MOVES if name.removeprefix("tb-") not in pages] == []
