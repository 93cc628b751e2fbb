"""No number stands in a chapter's text without a cell that computes it or holds it to what was computed."""

import re
from pathlib import Path

import pytest

CHAPTERS = sorted((Path(__file__).resolve().parents[1] / "chapters").glob("[0-9]*.md"))
BLOCK = r"(?ms)^```\{%s\}.*?^```$"
CELL, SHOWN = BLOCK % "code-cell", BLOCK % "(?:literalinclude|math|exercise)"  # an exercise sets its own numbers
ELSEWHERE = [  # numbers that are not claims: references, code, the reader's minutes and points, sections of papers
    r"\{[\w:-]+\}`[^`]*`|`[^`]*`|\]\([^)]*\)",
    r"(?i:about|and|plan,)\s+\d+\s+(?:more|minutes)|\(\d+\)",
    r"sections?\s+\d[\d.]*(?:(?:\s+and\s+|,\s+)\d[\d.]*)*",
]
NUMBER = re.compile(r"(?<![\w.\\{^_])\d[\d,]*(?:\.\d+)?(?!\w)")
LITERAL = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SMALL = 10  # whole numbers up to here are words of the text as often as results


def unfounded(text):
    """The numbers that no code cell of the chapter contains, as it stands or as a percentage."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    code = " ".join(re.findall(CELL, text)).replace("_", "")
    known = {round(float(n) * scale, 9) for n in LITERAL.findall(code) for scale in (1, 100)}
    prose = re.sub(SHOWN, "", re.sub(CELL, "", text))
    prose = re.sub(r"(?m)^(?::|```|%).*$", "", prose)
    for pattern in ELSEWHERE:
        prose = re.sub(pattern, "", prose)
    found = []
    for match in NUMBER.finditer(prose):
        number = match[0].rstrip(",")
        value = float(number.replace(",", ""))
        if not ("." not in number and value <= SMALL) and round(value, 9) not in known:
            found.append(f"{number} in: …{prose[max(match.start() - 40, 0) : match.end() + 30]}…".replace("\n", " "))
    return found


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_numbers_come_from_cells(chapter):
    assert not unfounded(chapter.read_text())


def test_an_invented_number_is_seen():
    cell = "```{code-cell} ipython3\n_ = fact('F1', x, [0.25, 1_024])\n```\n"
    assert not unfounded(cell + "It is 0.25, that is 25%, of 1,024. About 15 minutes, see section 3.2.")
    assert unfounded(cell + "It is 0.26.") and unfounded(cell + "It is 1,025.") and unfounded(cell + "In 31 blocks.")
