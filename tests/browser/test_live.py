"""Live cells in a real browser: run, stopped, kept, taken along; without storage, without a network, for everybody."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.axe import violations
from tests.browser.live_page import LivePage
from tests.browser.watch import set_theme, watched

CHAPTER = "07_block"
ADD, NORM = r"^u5 = x5 \+ a5", r"^mean, deviation = u5"  # two cells, one after the other
STUB, CHECK, LETTER = r"^def rmsnorm_backward", r'^check\("rmsnorm-backward"', r"^letter = "


@pytest.fixture(scope="module")
def warm(browser, hosted):
    """One page whose Python stays warm, for tests that leave it as they found it."""
    with watched(browser, permissions=["clipboard-read"]) as watch:
        yield LivePage(watch.page, hosted, CHAPTER)


@pytest.fixture
def live(warm):
    """The warm page, its cells the book's own."""
    yield warm
    for box in warm.page.locator(".live-bar button:visible", has_text=re.compile("^Reset$")).all()[::-1]:
        box.click()


def test_a_cell_runs_with_what_it_needs_and_says_what_the_book_says(live):
    cell = live.find(NORM)
    assert cell.run().startswith("mean = -0.092   deviation = 1.041")
    expect(cell.status).to_have_text(re.compile(r"Done in \d"))
    assert cell.out.get_attribute("aria-label").startswith("Output of cell ")


def test_an_edited_cell_is_what_the_cells_below_run_with(live):
    above, below = live.find(ADD), live.find(NORM)
    before = below.run()
    above.write("u5 = 2 * (x5 + a5)")
    after = below.run()
    numbers = [[float(n) for n in re.findall(r"= (-?\d+\.\d+)", text)] for text in (before, after)]
    assert numbers[1] == pytest.approx([2 * n for n in numbers[0]], abs=2e-3)


def test_an_error_shows_the_readers_line_and_marks_it(live):
    cell = live.find(ADD)
    cell.write("import numpy as np\n\ndef f(x):\n    return np.linalg.inv(x)\n\nf(np.zeros(2))")
    said = cell.run()
    assert "    return np.linalg.inv(x)" in said and said.count("File") == 2 and "LinAlgError" in said
    assert cell.box.locator(".live-error-line").inner_text().strip() == "return np.linalg.inv(x)"
    cell.write("a = 1\nb = = 2")
    assert "SyntaxError" in cell.run()
    assert cell.box.locator(".live-error-line").inner_text() == "b = = 2"
    cell.editor().press("Control+End")
    live.page.keyboard.type(" # /")
    assert cell.written() == "a = 1\nb = = 2 # /"  # typing goes into the editor, "/" too, and takes the mark away
    expect(cell.box.locator(".live-error-line")).to_have_count(0)


def test_an_error_above_says_that_it_is_above(live):
    above, below = live.find(ADD), live.find(NORM)
    above.write("u5 = x5 + absent")
    assert re.match(r"A cell above, which this one needs, .*name 'absent' is not defined", below.run(), re.DOTALL)


def test_a_figure_has_words_and_keeps_its_caption(live):
    cell = live.find(r"^_ = viz.branch_norms")
    cell.run()
    picture = cell.out.locator("img")
    assert picture.get_attribute("alt").startswith("Line plot over 24 blocks. The stream's median length")
    size = "image => [image.naturalWidth / image.width, image.complete]"
    assert picture.evaluate(size) == [pytest.approx(2, abs=0.1), True]
    cell.write(live.sources[cell.id] + "\nimport matplotlib.pyplot as plt\nplt.title('Mine')")
    cell.run()
    assert re.match(r"Plot\. .*Mine; .*3 lines", picture.get_attribute("alt"))
    if (caption := cell.box.locator("figcaption")).count():  # a book without outputs has none
        expect(caption).to_be_visible()


def test_an_endless_loop_is_stopped_and_what_a_cell_needs_comes_back(live):
    cell, other = live.find(ADD), live.find(NORM)
    cell.write("print('on')\nwhile True: pass")
    cell.start()
    expect(cell.out).to_contain_text("on", timeout=60_000)  # text comes while the cell runs
    waiting = other.start()
    cell.button("Stop").click()
    expect(cell.status).to_have_text(re.compile("^Stopped. Python starts anew, without its variables"))
    other.wait(waiting)
    expect(other.status).to_have_text(re.compile("^Stopped"))
    cell.button("Reset").click()
    assert "mean = -0.092" in other.run()


def test_stop_while_python_starts(page, hosted):
    cell = LivePage(page, hosted, CHAPTER).find(NORM)
    before = cell.start()
    cell.button("Stop").click()
    cell.wait(before)
    assert "mean = -0.092" in cell.run()


def test_the_hint_button_adds_the_next_hint_below_the_verdict(live):
    cell = live.find(r'^check\("count-block"')
    cell.write('check("count-block", 5)')
    assert "Not yet" in cell.run()
    for step in (1, 2):
        before = int(cell.box.get_attribute("data-runs"))
        cell.button("Hint").click()
        said = cell.wait(before)
        assert "Not yet" in said and f"Hint {step} of " in said
    given = "JSON.parse(localStorage.getItem('transformer-block:progress')).exercises['count-block']"
    assert live.page.evaluate(given)["hints"] == 2
    assert not live.find(NORM).button("Hint").count()


def test_hints_questions_and_display(live):
    cell = live.find(ADD)
    cell.write('from IPython.display import HTML, display\ndisplay(HTML("<b>bold</b>"), 5)\nhint("rmsnorm-backward")')
    said = cell.run()
    assert re.match(r"bold\s+5\s+→ Hint 1 of \d", said) and cell.out.locator("b").first.inner_text() == "bold"
    cell.write('question("contributions")')
    assert "Who brings what" in cell.run()


def test_the_model_is_missed_in_plain_words(live):
    cell = live.find(r"pretrained\.smollm2\(\)")
    expect(cell.box.locator(".live-bar")).to_contain_text("needs the real model: run this in Colab or your own Jupyter")
    expect(cell.box.locator(".live-bar button")).to_have_count(0)
    cell = live.find(ADD)
    cell.write("from scratch.pretrained import smollm2\nsmollm2()")
    assert "ModelUnavailable" in cell.run()


def test_keys_run_indent_and_leave(live):
    cell = live.find(ADD)
    cell.write("if True:\nprint(6 * 7)")
    cell.editor().press("Control+End")
    live.page.keyboard.press("Tab")
    assert cell.written() == "if True:\n    print(6 * 7)"
    for keys in ("Control+Enter", "Shift+Enter"):
        before = int(cell.box.get_attribute("data-runs") or 0)
        live.page.keyboard.press(keys)
        assert cell.wait(before) == "42"
    live.page.keyboard.press("Escape")
    live.page.keyboard.press("Tab")
    expect(cell.button("Run")).to_be_focused()
    live.page.keyboard.press("Shift+Tab")
    expect(cell.box.locator(".cm-content")).to_be_focused()
    described = cell.box.locator(".cm-content").get_attribute("aria-describedby")
    expect(live.page.locator(f"[id='{described}']")).to_contain_text("Escape, then Tab leaves the editor")


def test_reset_gives_the_books_code_and_output_back(live):
    cell = live.find(ADD)
    expect(cell.button("Reset")).to_be_hidden()
    cell.write("print('mine')")
    cell.run()
    expect(cell.button("Reset")).to_be_visible()
    cell.button("Reset").click()
    assert cell.written() == live.sources[cell.id] and cell.out.count() == 0
    expect(cell.button("Run")).to_be_focused()
    assert live.page.evaluate("Object.keys(localStorage).filter((key) => key.includes(':code:'))") == []


# ---- what is kept ----


def test_a_reload_keeps_code_and_points(page, hosted):
    live = LivePage(page, hosted, CHAPTER)
    value = live.find(LETTER)
    value.write(live.sources[value.id].replace("...", '"d"'))
    value.run()
    mark = live.mark("swiglu-more").inner_text()
    assert mark
    cell = live.find(ADD)
    cell.write("print('mine')")
    live = LivePage(page, hosted, CHAPTER)
    assert live.mark("swiglu-more").inner_text() == mark
    expect(live.find(LETTER).box.locator(".cell_output")).to_be_hidden()  # the book's "Not attempted"
    cell = live.find(ADD)
    assert cell.box.locator(".live-plain").inner_text() == "print('mine')"
    assert cell.run() == "mine"
    assert cell.editor().inner_text() == "print('mine')"
    cell.button("Reset").click()
    live = LivePage(page, hosted, CHAPTER)
    expect(page.locator(".live-plain")).to_have_count(1)  # the exercise's


def test_changed_code_of_the_book_is_told(page, hosted):
    live = LivePage(page, hosted, CHAPTER)
    cell = live.find(ADD)
    kept = json.dumps({"code": "print('old')", "book": "u5 = an_older_book"})
    page.evaluate(
        "([key, text]) => localStorage.setItem(key, text)", [f"transformer-block:code:{CHAPTER}:{cell.id}", kept]
    )
    cell = LivePage(page, hosted, CHAPTER).find(ADD)
    expect(cell.status).to_contain_text("The book's code has changed since you edited this")
    cell.button("Reset").click()
    expect(cell.box.locator("pre").first).to_be_visible()
    assert page.locator(".live-plain").count() == 0


BOTH = """() => {
  const kept = JSON.parse(localStorage.getItem("transformer-block:progress"))?.exercises ?? {};
  return "rope" in kept && "swiglu-more" in kept;
}"""


def test_two_tabs_that_overwrite_each_other_lose_no_points(browser, hosted):
    with watched(browser) as watch:
        one = LivePage(watch.page, hosted, CHAPTER)
        two = LivePage(watch.context.new_page(), hosted, CHAPTER)
        record = {"version": 1, "learner": "", "exercises": {"rope": {"attempts": 1, "hints": 0, "points": 3}}}
        overwrite = "text => localStorage.setItem('transformer-block:progress', text)"
        two.page.evaluate(overwrite, json.dumps(record))
        value = one.find(LETTER)
        value.write(one.sources[value.id].replace("...", '"d"'))
        value.run()
        for tab in (one, two):
            tab.page.wait_for_function(BOTH)
        expect(two.mark("swiglu-more")).not_to_be_empty()
        two.page.evaluate(overwrite, json.dumps(record))  # as if it had not heard of the other yet
        for tab in (one, two):
            tab.page.wait_for_function(BOTH)
        two.page.evaluate("localStorage.removeItem('transformer-block:progress')")  # erased, which stays
        expect(one.mark("swiglu-more")).to_be_empty()
        two.page.evaluate(overwrite, json.dumps(record))
        one.page.wait_for_function("localStorage.getItem('transformer-block:progress') !== null")
        assert "swiglu-more" not in one.page.evaluate("localStorage.getItem('transformer-block:progress')")


BLOCKED = "Object.defineProperty(window, 'localStorage', { get() { throw Error('blocked'); } })"
FULL = """const keep = Storage.prototype.setItem;
Storage.prototype.setItem = function (key, text) {
  if (key.startsWith("transformer-block:")) throw new DOMException("full", "QuotaExceededError");
  keep.call(this, key, text);
};"""


@pytest.mark.parametrize("script", [BLOCKED, FULL], ids=["blocked", "full"])
def test_without_storage_it_works_and_says_so_once(browser, hosted, script):
    with watched(browser) as watch:
        watch.context.add_init_script(script)
        if script == BLOCKED:  # the theme keeps its mode there
            watch.expect("page error: blocked")
            watch.expect("console error: Got invalid theme mode")
        live = LivePage(watch.page, hosted, CHAPTER)
        cell = live.find(ADD)
        cell.write("print('mine')")
        assert cell.run() == "mine"
        value = live.find(LETTER)
        value.write(live.sources[value.id].replace("...", '"d"'))
        value.run()
        expect(live.mark("swiglu-more")).not_to_be_empty()
        expect(watch.page.locator(".live-note")).to_have_count(1)
        expect(watch.page.locator(".live-note")).to_contain_text("This browser keeps nothing for this page")


# ---- progress ----


def progress(page):
    """The dialog, opened."""
    page.get_by_role("button", name="Progress", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_contain_text("Progress: ")
    return dialog


def bring_in(page, dialog, text):
    """Import a file that holds this text; what is said then."""
    dialog.locator("input[type=file]").set_input_files(
        {"name": "progress.json", "mimeType": "application/json", "buffer": text.encode()}
    )
    status = dialog.get_by_role("status")
    expect(status).to_contain_text("mported")
    return status.inner_text()


def test_progress_goes_out_and_in_again(browser, hosted, tmp_path, monkeypatch):
    with watched(browser) as watch:
        live = LivePage(watch.page, hosted, CHAPTER)
        value = live.find(LETTER)
        value.write(live.sources[value.id].replace("...", '"d"'))
        value.run()
        mark = live.mark("swiglu-more").inner_text()
        with watch.page.expect_download() as download:
            progress(watch.page).get_by_role("button", name="Export").click()
        file = tmp_path / "out.json"
        download.value.save_as(file)
        text = file.read_text()

    from exercises import import_progress
    from exercises.engine import record

    monkeypatch.setenv("TRANSFORMER_BLOCK_PROGRESS", str(tmp_path / "jupyter.json"))
    import_progress(str(file))
    assert record.of(record.read(), "swiglu-more")["attempts"] == 1

    with watched(browser) as watch:  # another machine
        live = LivePage(watch.page, hosted, CHAPTER)
        dialog = progress(watch.page)
        assert bring_in(watch.page, dialog, text).startswith("Imported progress.json")
        dialog.get_by_role("button", name="Close").click()
        assert live.mark("swiglu-more").inner_text() == mark
        assert live.page.locator(".live-plain").inner_text() == live.sources[value.id].replace("...", '"d"')
        dialog = progress(watch.page)
        assert bring_in(watch.page, dialog, record.to_text(record.read())).startswith("Imported")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"version": 1, "exercises": {"a": 1}}', "\x00\x01"])
def test_a_file_without_progress_loses_nothing(page, hosted, text):
    live = LivePage(page, hosted, CHAPTER)
    page.evaluate("text => localStorage.setItem('transformer-block:progress', text)", json.dumps(RECORD))
    said = bring_in(page, progress(page), text)
    assert said.startswith("Nothing was imported from progress.json: ") and "Choose a file" in said
    assert page.evaluate("JSON.parse(localStorage.getItem('transformer-block:progress'))") == RECORD
    assert live.page.get_by_role("dialog").is_visible()


RECORD = {"version": 1, "learner": "Ada", "exercises": {"swiglu-more": {"attempts": 2, "hints": 1, "points": 1}}}


def test_progress_is_erased_when_it_is_confirmed(page, hosted):
    live = LivePage(page, hosted, CHAPTER)
    page.evaluate("text => localStorage.setItem('transformer-block:progress', text)", json.dumps(RECORD))
    page.evaluate("localStorage.setItem('of-another-page', '1')")
    live = LivePage(page, hosted, CHAPTER)
    assert live.mark("swiglu-more").inner_text().startswith("✓ 1 of")
    dialog = progress(page)
    for answer, left in (("Keep it", True), ("Erase everything", False)):
        dialog.get_by_role("button", name="Erase", exact=True).click()
        dialog.get_by_role("button", name=answer).click()
        expect(dialog.get_by_role("status")).to_contain_text("rased.")
        assert (page.evaluate("localStorage.getItem('transformer-block:progress')") is not None) == left
    expect(live.mark("swiglu-more")).to_be_empty()
    assert page.evaluate("localStorage.getItem('of-another-page')") == "1"
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


# ---- the network ----


def test_before_the_first_run_nothing_of_python_is_asked_for(page, watch, hosted):
    LivePage(page, hosted, CHAPTER)
    page.wait_for_load_state("networkidle")
    asked = [url.rpartition("/")[2].partition("?")[0] for url in watch.requests]
    assert not {"worker.js", "editor.js", "progress.js", "course.zip", "runtime.json"} & set(asked)
    assert not [url for url in watch.requests if "/pyodide" in url]


def test_with_the_network_cut_it_goes_on(browser, hosted):
    with watched(browser) as watch:
        live = LivePage(watch.page, hosted, CHAPTER)
        cell = live.find(ADD)
        cell.write("print(2 + 3)")
        cell.run()
        watch.context.set_offline(True)
        cell.write("print(6 * 7)")
        assert cell.run() == "42"
        cell.button("Reset").click()
        assert "mean = -0.092" in live.find(NORM).run()


def test_where_python_cannot_be_loaded_one_sentence_says_what_to_do(browser, hosted):
    elsewhere = {"pyodide": "https://cdn.example/pyodide/", "version": "0"}
    with watched(browser) as watch:
        watch.context.route("**/runtime.json", lambda route: route.fulfill(json=elsewhere))
        watch.expect("outside request: https://cdn.example/pyodide/pyodide.mjs")
        cell = LivePage(watch.page, hosted, CHAPTER).find(NORM)
        cell.run()
        said = "Python could not be loaded from cdn.example. Check the connection, then press Retry."
        expect(cell.status).to_have_text(said)
        expect(cell.box.locator(".live-bar button").first).to_have_text("Retry")
        watch.context.unroute("**/runtime.json")
        assert "mean = -0.092" in cell.run()
        expect(cell.box.locator(".live-bar button").first).to_have_text("Run")


# ---- for everybody ----


def test_axe_finds_nothing_before_and_after_running(browser, hosted):
    with watched(browser) as watch:
        live = LivePage(watch.page, hosted, CHAPTER)
        found = {"before": look(watch.page)}
        cell = live.find(ADD)
        cell.write("print(1)\n1 / 0")
        cell.run()
        live.find(r"^_ = viz.branch_norms").run()
        live.find(CHECK).run()
        live.find(STUB).editor()
        found["after"] = look(watch.page)
        progress(watch.page)
        found["dialog"] = look(watch.page)
    assert found == {"before": [], "after": [], "dialog": []}


def look(page):
    """What axe-core finds, in light and in dark."""
    found = []
    for theme in ("light", "dark"):
        set_theme(page, theme)
        found += [f"{theme}: {line}" for line in violations(page)]
    set_theme(page, "light")
    return found


@pytest.mark.parametrize("width", [390, 1280])
def test_the_buttons_fit_and_can_be_hit(browser, hosted, width):
    with watched(browser, viewport={"width": width, "height": 800}) as watch:
        live = LivePage(watch.page, hosted, CHAPTER)
        live.find(ADD).editor()
        boxes = watch.page.locator(".live-bar button:visible, .live-progress-button").evaluate_all(
            "them => them.map((one) => one.getBoundingClientRect()).map((box) => [box.width, box.height, box.right])"
        )
        assert len(boxes) > 20
        assert all(w >= 24 and h >= 24 and right <= width for w, h, right in boxes)
        assert watch.page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_javascript_the_page_is_a_plain_page(browser, hosted):
    with watched(browser, java_script_enabled=False) as watch:
        watch.page.goto(f"{hosted}chapters/{CHAPTER}.html")
        assert watch.page.locator(".cell[id] .cell_input pre").count() > 20
        assert watch.page.locator(".live-bar, .live-out").count() == 0


# ---- what goes wrong ----


def test_code_that_ends_python_is_told_and_python_comes_back(live):
    cell = live.find(ADD)
    cell.write("import os\nos._exit(3)")
    cell.run()
    expect(cell.status).to_contain_text("This code ended Python itself. Python starts anew")
    cell.write("print(6 * 7)")
    assert cell.run() == "42"


def test_stop_pressed_three_times_is_one_stop(page, hosted):
    cell = LivePage(page, hosted, CHAPTER).find(NORM)
    before = cell.start()
    cell.button("Stop").evaluate("button => [1, 2, 3].forEach(() => button.click())")
    cell.wait(before)
    expect(cell.status).to_contain_text("Stopped.")
    assert "mean = -0.092" in cell.run()


def test_a_package_that_does_not_come_is_told_and_fetched_again(browser, hosted):
    with watched(browser) as watch:
        cell = LivePage(watch.page, hosted, CHAPTER).find(r"^_ = viz.branch_norms")
        watch.context.route("**/matplotlib-*.whl", lambda route: route.fulfill(status=404))
        cell.run()
        said = "What this cell imports could not be loaded. Check the connection, then press Retry."
        expect(cell.status).to_have_text(said)
        watch.context.unroute("**/matplotlib-*.whl")
        cell.run()
        expect(cell.out.locator("img")).to_have_count(1)


def test_progress_that_does_not_come_is_told(browser, hosted):
    with watched(browser) as watch:
        LivePage(watch.page, hosted, CHAPTER)
        watch.expect("ERR_FAILED")
        watch.context.route("**/progress.js*", lambda route: route.abort())
        with watch.page.expect_event("dialog") as told:
            watch.page.on("dialog", lambda dialog: dialog.accept())
            watch.page.get_by_role("button", name="Progress", exact=True).click()
        assert told.value.message == "Progress could not be loaded. Check the connection, then press Progress again."


def test_an_editor_that_does_not_come_is_told_until_it_comes(browser, hosted):
    with watched(browser) as watch:
        cell = LivePage(watch.page, hosted, CHAPTER).find(ADD)
        watch.expect("ERR_FAILED")
        watch.context.route("**/editor.js*", lambda route: route.abort())
        cell.button("Edit").click()
        expect(cell.status).to_contain_text("The editor could not be loaded.")
        watch.context.unroute("**/editor.js*")
        cell.editor()
        expect(cell.status).to_be_empty()
