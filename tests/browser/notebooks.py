"""What is done with the course's widgets in a notebook, whatever the notebook's program is."""

from playwright.sync_api import expect

DRAW = """\
import matplotlib.pyplot as plt
from widgets.play import frames, play

def draw(power, colour):
    figure, ax = plt.subplots()
    ax.plot([x**power for x in range(5)], color=colour)
    return figure, ax

def alt(power, colour):
    return f"{power:g} in {colour}"

"""
FRAMES = (
    DRAW
    + """\
widget = frames("Powers", draw, alt, power=range(1, 9), colour=["black", "red"])
widget"""
)
PLAY = (
    DRAW
    + """\
widget = play("Powers", draw, alt, power=[1.0, 2.0], colour=["black", "red"])
widget"""
)

BLOCK = """\
from widgets.block_by_hand import block_by_hand
widget = block_by_hand()
widget"""
COUNTER = """\
from scratch.config import PRESETS
from widgets.counter import bills, counter
widget = counter("gpt2-small")
widget"""


def frames(notebook, out):
    """Steps by keys, by pointer and from Python; what is chosen is known to Python."""
    picture, slider = out.get_by_role("img"), out.get_by_role("slider")
    expect(picture).to_have_attribute("alt", "1 in black")
    slider.press("ArrowRight")
    slider.press("ArrowUp")
    expect(picture).to_have_attribute("alt", "3 in black")
    box = slider.bounding_box()
    slider.click(position={"x": box["width"] - 2, "y": box["height"] / 2})
    expect(picture).to_have_attribute("alt", "8 in black")
    out.get_by_role("combobox").select_option("red")
    expect(picture).to_have_attribute("alt", "8 in red")
    expect(notebook.run(1)).to_contain_text("read [7, 1]")
    notebook.run(2)
    expect(picture).to_have_attribute("alt", "2 in black")


def play(notebook, out):
    """In a live notebook the slider stops between the values for which the book has frames."""
    expect(out.get_by_role("img")).to_have_attribute("alt", "1 in black")
    out.locator(".noUi-handle, .ui-slider-handle").press("ArrowRight")
    expect(out.get_by_role("img")).to_have_attribute("alt", "1.01 in black")
    out.get_by_role("combobox").select_option("red")
    expect(out.get_by_role("img")).to_have_attribute("alt", "1.01 in red")
    expect(out.get_by_role("img")).to_have_count(1)  # and no second one by Matplotlib itself
    expect(notebook.run(1)).to_contain_text("read {'power': 1.01, 'colour': 'red'}")


def block(notebook, out):
    """A number is chosen by pointer and arrows, changed, and Python has it; a press of d twice deletes no cell."""
    entries = out.locator("[data-key=result]")
    entries.locator("[data-at='0,1']").click()
    for key in ("ArrowRight", "ArrowDown", "d", "d"):
        entries.locator("[aria-selected=true]").press(key)
    expect(entries.locator("[aria-selected=true]")).to_have_attribute("data-at", "1,2")
    out.get_by_role("textbox").fill("0.5")
    expect(entries.locator("[data-at='1,2']")).to_have_text("✎ 0.500")
    out.get_by_role("button", name="Next").press("Enter")
    expect(entries).to_have_attribute("aria-label", "n₁ [3, 4]")
    expect(notebook.run(1)).to_contain_text("read n1 0.5")
    notebook.run(2)
    expect(entries).to_have_attribute("aria-label", "y [3, 4]")


def counter(notebook, out):
    """What is typed and ticked arrives, and the number that is shown is scratch's."""
    cache = out.locator(".tb-counter-bill", has_text="Key/value cache").locator(".tb-counter-number").first
    expect(cache).to_have_text("37,748,736 bytes")
    out.get_by_label("Tokens T").fill("2048")
    for key in ("End", "0", "0"):  # 0 twice outside of a field starts the kernel anew
        out.get_by_label("Sequences B").press(key)
    out.get_by_label("with backward").click()
    out.get_by_label("visible pairs").press("Space")
    expect(cache).to_have_text("7,549,747,200 bytes")
    expect(notebook.run(1)).to_contain_text("read True True 7,549,747,200 bytes")
    notebook.run(2)
    expect(cache).to_have_text("3,774,873,600 bytes")


CASES = {
    "block": (block, [BLOCK, "print('read', widget.step, widget.x[1][2])", "widget.step = 'y'"]),
    "counter": (
        counter,
        [
            COUNTER,
            "cache = bills(PRESETS['gpt2-small'], widget.T, widget.batch)['cache']\n"
            "print('read', widget.visible, widget.backward, f'{sum(cache.values()):,} bytes')",
            "widget.T = 1024",
        ],
    ),
    "play": (play, [PLAY, "print('read', widget.kwargs)"]),
    "frames": (frames, [FRAMES, "print('read', widget.chosen)", "widget.chosen = [1, 0]"]),
}


def drive(name, opened):
    """Open a notebook of a case's cells, run the first, which shows the widget, and do what the case does with it."""
    act, cells = CASES[name]
    notebook = opened(name, cells)
    act(notebook, notebook.run(0))
