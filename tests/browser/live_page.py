"""A chapter's page with live cells, as a reader uses it: edit, run, look at what comes out."""

import re

from playwright.sync_api import expect

RAN = "([id, runs]) => Number(document.getElementById(id).dataset.runs ?? 0) > runs"
PATIENCE = 90_000  # a busy machine takes ten times as long to start Python as a quiet one


class LivePage:
    """A chapter, opened."""

    def __init__(self, page, book, chapter):
        self.page = page
        page.goto(f"{book}chapters/{chapter}.html")
        page.locator(".live-bar").first.wait_for()
        cells = "cells => cells.map((cell) => [cell.id, cell.querySelector('.cell_input pre').textContent])"
        self.sources = {id: text.removesuffix("\n") for id, text in page.locator(".cell[id]").evaluate_all(cells)}

    def find(self, text, exercise=""):
        """The cell whose code, as the book has it, holds this text; the first, or the first of an exercise."""
        start = f"cell-ex-{exercise}-" if exercise else "cell-"
        found = [id for id, source in self.sources.items() if id.startswith(start) and re.search(text, source, re.M)]
        return Cell(self, found[0])

    def mark(self, exercise):
        """What stands beside an exercise's title."""
        return self.page.locator(f"#ex-{exercise} .live-mark")


class Cell:
    """One cell of it."""

    def __init__(self, live, id):
        self.page, self.live, self.id = live.page, live, id
        self.box = live.page.locator(f"[id='{id}']")
        self.out = self.box.locator(".live-out")
        self.status = self.box.locator(".live-bar .live-status")

    def button(self, name):
        """One of its buttons."""
        return self.box.locator(".live-bar button", has_text=re.compile(f"^{name}$"))

    def start(self):
        """Press Run or Check; the number of runs before."""
        before = int(self.box.get_attribute("data-runs") or 0)
        self.box.locator(".live-bar button").first.click()
        return before

    def wait(self, before):
        """Wait for the end of a run; what stands in the output."""
        self.page.wait_for_function(RAN, arg=[self.id, before], timeout=PATIENCE)
        return self.text()

    def run(self):
        """Press Run or Check and wait; what stands in the output."""
        return self.wait(self.start())

    def text(self):
        """What stands in the output."""
        return self.out.inner_text().strip() if self.out.count() else ""

    def editor(self):
        """The editor, opened if it is not."""
        if self.button("Edit").is_visible():
            self.button("Edit").click()
        editor = self.box.locator(".cm-content")
        expect(editor).to_be_visible()
        return editor

    def write(self, source):
        """Put this in the place of the code."""
        self.editor().press("Control+a")
        self.page.keyboard.insert_text(source)

    def written(self):
        """The code in the editor."""
        return "\n".join(self.box.locator(".cm-line").all_inner_texts()).replace("\u200b", "")
