"""Every exercise of the book on its page: a right answer passes, a wrong one is told what it is, as in Jupyter."""

import re

import pytest

from exercises import ids, load
from tests import classroom
from tests.browser.axe import violations
from tests.browser.live_page import LivePage
from tests.browser.site import BOOK
from tests.browser.watch import set_theme, watched

CHAPTERS = {}
for _id in ids():
    CHAPTERS.setdefault(load(_id).chapter, []).append(_id)


def plain(text):
    """A sentence as a card shows it: without marks of code, in one line."""
    return " ".join(text.replace("`", "").split())


def answer(live, id, its):
    """Put an answer where the stub stands, check it; what the card says, and the seconds that the status names."""
    stub = live.find(rf"^(def {classroom.name_of(id)}\(|{classroom.name_of(id)} = )", id)
    check = live.find(rf'^check\(\s*"{id}"')
    stub.write("\n\n\n".join(classroom.filled(id, its)))
    said = plain(check.run())
    return said, float(re.search(r"[\d.]+", check.status.inner_text())[0])


@pytest.mark.parametrize("chapter", sorted(CHAPTERS))
def test_every_exercise_is_judged_on_its_page(browser, hosted, chapter, capsys):
    if not (BOOK / "chapters" / f"{chapter}.html").exists():
        pytest.skip(f"{chapter} is not in this book")
    rows = []
    with watched(browser) as watch:
        live = LivePage(watch.page, hosted, chapter)
        for id in CHAPTERS[chapter]:
            exercise = load(id)
            wrong, right = classroom.wrong_answers(id, "")[0], classroom.right_answers(id, "")[0]
            said, slow = answer(live, id, wrong)
            assert said.startswith(f"✗ Not yet: {exercise.title}") and plain(wrong.said) in said, (id, said)
            assert live.mark(id).inner_text() == "tried"
            said, fast = answer(live, id, right)
            assert said.startswith(f"✓ Passed: {exercise.title}"), (id, said)
            points = f"{exercise.points} of {exercise.points} point{'s' * (exercise.points > 1)}"
            assert live.mark(id).inner_text() == f"✓ {points}"
            rows.append(f"{chapter} {id}: wrong {slow:.2f} s, right {fast:.2f} s")
        for theme in ("light", "dark"):  # with all of its editors and verdicts open
            set_theme(watch.page, theme)
            assert violations(watch.page) == []
        kept = watch.page.evaluate("JSON.parse(localStorage.getItem('transformer-block:progress'))")
    assert {id: record["attempts"] for id, record in kept["exercises"].items()} == dict.fromkeys(CHAPTERS[chapter], 2)
    with capsys.disabled():
        print("", *rows, sep="\n")
