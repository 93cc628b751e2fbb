"""The course's widgets in JupyterLab: seen, moved by pointer and keys, and Python knows."""

import json
import sys

import pytest

from tests.browser import notebooks
from tests.browser.jupyter import SETTINGS, notebook, server
from tests.browser.watch import watched

LAB = [sys.executable, "-m", "jupyterlab", "--LabApp.extension_manager=readonly"]
QUIET = {"fetchNews": "false", "checkForUpdates": False}  # else it asks, and looks for a newer JupyterLab


class Lab:
    """A notebook in JupyterLab, driven as a person does: a click into a cell, Shift and Enter."""

    def __init__(self, page):
        self.page = page

    def output(self, cell):
        """Where the cell's output stands."""
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{cell}"] .jp-Cell-outputArea')

    def run(self, cell):
        """Run a cell; its output."""
        self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{cell}"] .cm-content').click()
        self.page.keyboard.press("Shift+Enter")
        return self.output(cell)


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """A function that opens a notebook of these cells in the one JupyterLab."""
    folder = tmp_path_factory.mktemp("lab")
    settings = folder / SETTINGS / "lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(QUIET))
    with server(LAB, folder, "api/status") as (address, token), watched(browser) as watch:

        def opened(name, cells):
            (folder / f"{name}.ipynb").write_text(notebook(*cells))
            watch.page.goto(f"{address}doc/tree/{name}.ipynb?token={token}")
            watch.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()  # before that, Shift and Enter do nothing
            return Lab(watch.page)

        yield opened


@pytest.mark.parametrize("name", notebooks.CASES)
def test_widget(lab, name):
    notebooks.drive(name, lab)
