"""The course's widgets in a notebook with ipywidgets 7.7, as Colab has: the same is seen, done and known to Python."""

import pytest

from tests.browser import colab, notebooks
from tests.browser.jupyter import notebook, server
from tests.browser.watch import watched


class Classic:
    """A notebook in the classic notebook server, driven as a person does."""

    def __init__(self, page):
        self.page = page

    def run(self, cell):
        """Run a cell; its output."""
        place = self.page.locator("#notebook-container .code_cell").nth(cell)
        place.locator(".CodeMirror-code").click()
        self.page.keyboard.press("Shift+Enter")
        return place.locator(".output_wrapper")


@pytest.fixture(scope="module")
def classic(browser, tmp_path_factory):
    """A function that opens a notebook of these cells in the one classic notebook server."""
    folder = tmp_path_factory.mktemp("classic")
    command = [str(colab.environment()), "-m", "notebook"]
    with server(command, folder, "api/status", course=False) as (address, token), watched(browser) as watch:

        def opened(name, cells):
            (folder / f"{name}.ipynb").write_text(notebook(*cells))
            watch.page.goto(f"{address}notebooks/{name}.ipynb?token={token}")
            watch.page.locator("#kernel_indicator_icon[title='Kernel Idle']").wait_for()
            return Classic(watch.page)

        yield opened


@pytest.mark.parametrize("name", notebooks.CASES)
def test_widget(classic, name):
    notebooks.drive(name, classic)
