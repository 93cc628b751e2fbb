"""Tests of widgets/play.py: frames are what draw draws, a live notebook draws anew, a mistake is said in a sentence."""

import io
import sys
from urllib.parse import unquote
from xml.etree import ElementTree

import ipywidgets
import matplotlib.pyplot as plt
import pytest

from widgets import base, play

POWERS = {"power": [1.0, 2.0, 3.0], "colour": ["black", "red"]}


@pytest.fixture(autouse=True)
def agg(monkeypatch):
    """No window, the same ids in the same figure, and no figure left open."""
    plt.switch_backend("agg")
    monkeypatch.setitem(plt.rcParams, "svg.hashsalt", "test")
    monkeypatch.delenv("TRANSFORMER_BLOCK_BOOK", raising=False)
    yield
    assert not plt.get_fignums()


def draw(power, colour):
    figure, ax = plt.subplots(figsize=(2, 1))
    ax.plot([x**power for x in range(5)], color=colour)
    return figure, ax


def alt(power, colour):
    return f"x to the {power:g} <in> {colour}"


def frame(power, colour):
    """One frame, drawn alone."""
    return play._frame(draw, alt, {"power": power, "colour": colour})


def test_a_frame_is_the_figure_and_its_sentence():
    file = io.StringIO()
    draw(2, "red")[0].savefig(file, format="svg", metadata={"Date": None})
    plt.close()
    image = frame(2, "red")
    kind, source = image["source"].split(",", 1)
    shown, saved = (ElementTree.fromstring(text) for text in (unquote(source), file.getvalue()))
    saved.remove(saved[0])  # Matplotlib's metadata
    assert kind == "data:image/svg+xml" and image["alt"] == "x to the 2 <in> red"
    assert list(map(words, shown.iter())) == list(map(words, saved.iter()))


def words(element):
    """An element's name and attributes, whatever white space is in them."""
    return element.tag, {name: value.split() for name, value in element.items()}


def test_the_book_holds_a_frame_for_each_combination(monkeypatch):
    monkeypatch.setenv("TRANSFORMER_BLOCK_BOOK", "1")
    widget = play.play("Powers", draw, alt, **POWERS)
    combinations = [(power, colour) for power in (1.0, 2.0, 3.0) for colour in ("black", "red")]
    assert widget.data["frames"] == [frame(*both) for both in combinations]
    assert len({each["source"] for each in widget.data["frames"]}) == 6
    assert widget.data["controls"] == [
        {"name": "power", "kind": "slider", "options": ["1", "2", "3"]},
        {"name": "colour", "kind": "list", "options": ["black", "red"]},
    ]
    assert widget.chosen == [0, 0]


def test_a_slider_is_in_order_and_begins_with_the_first_value_given():
    widget = play.frames("Powers", draw, alt, power=[2.0, 3.0, 1.0], colour=["red", "black"])
    assert [control["options"] for control in widget.data["controls"]] == [["1", "2", "3"], ["red", "black"]]
    assert widget.chosen == [1, 0] and widget.data["frames"][2]["alt"] == alt(2.0, "red")
    assert 'alt="x to the 2 &lt;in&gt; red"' in widget.words
    for values in ([2, 3, 1], [2.0, 3.0, 1.0]):
        assert play._control(ipywidgets, "power", values).value == 2


def test_the_words_show_the_first_figure_and_say_all():
    words = play.frames("Powers", draw, alt, **POWERS).words
    assert words.count("<img") == 1 and 'alt="x to the 1 &lt;in&gt; black"' in words
    assert words.count("<li>") == 6 and "<li>power 3, colour red: x to the 3 &lt;in&gt; red</li>" in words


def test_a_live_notebook_draws_what_was_chosen(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda it: shown.append(it.data))
    widget = play.play("Powers", draw, alt, **POWERS)
    assert isinstance(widget, ipywidgets.interactive)
    slider, colours = widget.children[:2]
    assert (slider.min, slider.max, slider.value, slider.step) == (1, 3, 1, 0.02)
    assert colours.options == (("black", "black"), ("red", "red"))
    slider.value = 1.5  # between two frames of the book
    drawn = [(1.0, "black"), (1.5, "black")]
    assert shown == [play._figure(frame(*both)) for both in drawn]


@pytest.mark.parametrize(
    "values, control",
    [
        (range(3), ipywidgets.SelectionSlider),
        ([1, 2.5], ipywidgets.FloatSlider),
        ([True, False], ipywidgets.Dropdown),
        (["a", 1], ipywidgets.Dropdown),
        ([2.0], ipywidgets.Dropdown),
    ],
)
def test_each_kind_of_values_has_its_control(values, control):
    made = play._control(ipywidgets, "some_name", list(values))
    assert type(made) is control and made.description == "some name" and made.value == list(values)[0]


@pytest.mark.parametrize("missing", ["ipywidgets", "IPython.display"])
def test_without_ipywidgets_the_first_figure_and_what_to_do(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    shown = play.play("Powers", draw, alt, **POWERS)
    assert isinstance(shown, base.InWords)
    assert "pip install anywidget" in shown._repr_html_()
    assert play._figure(frame(1.0, "black")) in shown._repr_html_()


def test_frames_have_a_budget(monkeypatch):
    monkeypatch.setattr(play, "BUDGET", 1000)
    with pytest.raises(ValueError, match=r"play: 6 frames of 'Powers' take [\d,]+ bytes compressed, more than 1,000; "):
        play.frames("Powers", draw, alt, **POWERS)


@pytest.mark.parametrize("asked", [play.play, play.frames])
@pytest.mark.parametrize(
    "changed, message",
    [
        ({"draw": 3}, "draw must be a function of the choices, got 3"),
        ({"alt": "a line"}, "alt must be a function of the choices, got 'a line'"),
        ({"power": []}, r"power must be a list of values, not empty, got \[\]"),
        ({"power": "abc"}, "power must be a list of values, not empty, got 'abc'"),
        ({"power": 3}, "power must be a list of values, not empty, got 3"),
    ],
)
def test_a_mistake_is_said_in_a_sentence(asked, changed, message):
    with pytest.raises(ValueError, match=f"^play: {message}$"):
        asked("Powers", **({"draw": draw, "alt": alt} | POWERS | changed))


@pytest.mark.parametrize("asked", [play.play, play.frames])
def test_no_choices(asked):
    with pytest.raises(ValueError, match="^play: no choices; give"):
        asked("Powers", draw, alt)


def test_draw_and_alt_must_return_something():
    with pytest.raises(ValueError, match="^play: draw must return a figure, or .*, got None$"):
        play.frames("Powers", lambda **_: None, alt, **POWERS)
    with pytest.raises(ValueError, match="draw must return a figure"):
        play.frames("Powers", lambda **_: plt.figure() and 3, alt, **POWERS)
    with pytest.raises(ValueError, match="^play: alt must return a sentence, got '' for power 1, colour black$"):
        play.frames("Powers", draw, lambda **_: "", **POWERS)
