"""Time Python in the page, in a real browser on the built book: `python -m benchmarks.page`.

Cold: from the press of Run, with an empty browser cache, to the first output of a cell that needs NumPy, in a book that
brings Python along, on loopback. Warm: the check of each right answer to each exercise, when Python runs and the answer
was checked before. Right answers differ in their own speed: of each exercise the fastest and the slowest are told.
Medians of `--rounds`.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from _ext.live import runtime
from exercises import ids, load
from notebooks import paper
from tests import classroom
from tests.browser import site
from tests.browser.live_page import LivePage

COLD = {"chapter 7, its first block": ("07_block", r"^y, cache = block_forward")}


def cold(browser, address, chapter, code):
    """Seconds from the press to the first output, in a browser that has kept nothing."""
    context = browser.new_context()
    try:
        cell = LivePage(context.new_page(), address, chapter).find(code)
        before, start = cell.start(), time.perf_counter()
        cell.wait(before)
        return time.perf_counter() - start
    finally:
        context.close()


def warm(browser, address, rounds):
    """{id: seconds of a warm check for each right answer, sorted}, as the page measures and says them."""
    found, chapters = {}, {}
    for id in ids():
        chapters.setdefault(load(id).chapter, []).append(id)
    for chapter, members in chapters.items():
        context = browser.new_context()
        live = LivePage(context.new_page(), address, chapter)
        for id in members:
            name, check, found[id] = classroom.name_of(id), live.find(rf'^check\(\s*"{id}"'), []
            for its in classroom.right_answers(id, ""):
                live.find(rf"^(def {name}\(|{name} = )", id).write("\n\n\n".join(classroom.filled(id, its)))
                check.run()
                took = []
                for _ in range(rounds):
                    check.run()
                    took.append(float(check.status.inner_text().split()[-2]))
                found[id].append(statistics.median(took))
            found[id].sort()
        context.close()
    return found


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    if os.getloadavg()[0] > 1:
        print("This machine is busy: the numbers say little.")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        hosted = Path(folder, "html")
        shutil.copytree(site.BOOK, hosted)
        runtime.place(hosted, "book")
        options = {"executable_path": paper.browser(), "chromium_sandbox": os.geteuid() != 0}
        browser = playwright.chromium.launch(**options)
        with site.served(hosted) as address:
            for name, (chapter, code) in COLD.items():
                took = [cold(browser, address, chapter, code) for _ in range(rounds)]
                print(f"cold, {name}: {statistics.median(took):.2f} s (from {min(took):.2f} to {max(took):.2f})")
            found = warm(browser, address, rounds)
        browser.close()
    every = [seconds for each in found.values() for seconds in each]
    print(f"warm: {len(every)} right answers to {len(found)} exercises, median {statistics.median(every):.2f} s")
    for id, seconds in sorted(found.items(), key=lambda item: -item[1][0])[:10]:
        print(f"  {id}: from {seconds[0]:.2f} to {seconds[-1]:.2f} s")


if __name__ == "__main__":
    main()
