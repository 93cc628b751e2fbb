"""The class's page: how it did, which mistakes it made, what to talk about, and what a person should look at.

OUT/class.html   one page that needs nothing else: no network and no script
"""

import html
import math
import statistics
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import exercises
from exercises.grade import report, run
from exercises.grade.likeness import Likeness

NAMED = 50  # learners in a list; of the others it says how many
MISTAKES = 5  # of an exercise that are shown
GROUPS = 30  # of likeness
COLUMNS = 16  # of the distribution, and one for full marks
_WIDTHS = [digit * 10**power for power in range(6) for digit in (1, 2, 5)]
_STATUS = {"passed": "passed", "not yet": "not yet", "stopped": "not yet"}  # all others: not attempted


def write(out, ids, counted, title="", absent=0):
    """Write class.html into the folder of a run.

    Parameters
    ----------
    out : folder of the run; ids : the exercises; title : str, of the assignment
    counted : iterable of (result, learner), those that count, as `submission.grade` made them; the learner is a text,
        another one for each. It is gone through once, and of each only some numbers are kept.
    absent : int, how many of the roster handed in nothing
    """
    class_ = Class(ids)
    class_.absent = absent
    for result, learner in counted:
        class_.add(result, learner)
    run.write(Path(out, "class.html"), page(class_, title, Path(out)))


@dataclass
class Who:
    """How many learners, and the first of them."""

    count: int = 0
    names: list = field(default_factory=list)

    def add(self, name):
        """Count one more."""
        self.count += 1
        if len(self.names) < NAMED:
            self.names.append(name)


class Class:
    """What the results of a class come to.

    Attributes
    ----------
    ids : the exercises; points : of each submission that could be read
    statuses : {id: Counter of "passed", "not yet", "not attempted"}
    mistakes : {id: {sentence: Who}}; "" stands for those without a known mistake
    unreadable : Who, of (learner, submission, reason); likeness : Likeness; absent : int, who handed in nothing
    """

    def __init__(self, ids):
        self.ids, self.points = tuple(ids), array("d")
        self.statuses = {id: Counter() for id in self.ids}
        self.mistakes = {id: {} for id in self.ids}
        self.unreadable, self.likeness, self.absent = Who(), Likeness(self.ids), 0

    def add(self, result, learner):
        """Count the result of one learner."""
        if result["status"] == "unreadable":
            self.unreadable.add((learner, result["submission"], result["reason"]))
            return
        self.points.append(result["points"])
        self.likeness.add(result, learner)
        for id in self.ids:
            part = result["exercises"][id]
            status = _STATUS.get(part["status"], "not attempted")
            self.statuses[id][status] += 1
            if status == "not yet":
                self.mistakes[id].setdefault(part["diagnosis"], Who()).add(learner)

    def hardest_first(self):
        """The ids, those with the smallest share of passed first."""
        return sorted(self.ids, key=lambda id: (self.statuses[id]["passed"], -self.statuses[id]["not yet"]))

    def frequent(self, id):
        """[(sentence, Who)] of an exercise's known mistakes, the most frequent first."""
        known = [(sentence, who) for sentence, who in self.mistakes[id].items() if sentence]
        return sorted(known, key=lambda one: (-one[1].count, one[0]))


# ---- the page ----


def page(class_, title, out):
    """The whole page as text; `out` is the folder that it will lie in."""
    name = f"{title}: the class" if title else "The class"
    parts = [_facts(class_), _distribution(class_), _to_talk_about(class_), _exercises(class_), _mistakes(class_)]
    parts += [_alike(class_), _unreadable(class_, out)]
    return _PAGE.format(title=html.escape(name), style=_STYLE, body="\n".join(filter(None, parts)))


def _facts(class_):
    out_of = sum(exercises.load(id).points for id in class_.ids)
    count, full = len(class_.points), sum(points == out_of for points in class_.points)
    median = report.number(statistics.median(class_.points)) if count else "–"
    facts = [("submissions", count + class_.unreadable.count), ("could be read", count)]
    facts += [("points, the median", f"{median} of {out_of}"), ("with full marks", full)]
    facts += [("handed in nothing", class_.absent)] if class_.absent else []
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{cells}</dl>'


def _distribution(class_):
    """A column for each number of points, or for each few."""
    if not class_.points:
        return ""
    out_of = sum(exercises.load(id).points for id in class_.ids)
    width = next(width for width in _WIDTHS if out_of / width <= COLUMNS)
    counts = Counter(math.floor(points / width) for points in class_.points)
    most, columns = max(counts.values()), []
    for at in range(math.floor(out_of / width) + 1):
        low, high = at * width, min((at + 1) * width - 1, out_of)
        said = f"{low} points" if low == high else f"{low} to {high} points"
        columns.append(
            f'<li><span class="hidden">{said}: {counts[at]}</span><b aria-hidden="true">{counts[at] or ""}</b>'
            f'<i style="height:{8 * counts[at] / most:.2f}rem"></i><span aria-hidden="true">{low}</span></li>'
        )
    each = "" if width == 1 else f" A column holds {width} numbers of points, and is named after the lowest."
    return (
        "<section><h2>How many points</h2><figure>"
        f'<p class="axis">submissions</p><ol class="columns">{"".join(columns)}</ol><p class="axis x">points</p>'
        f"<figcaption>Of those that could be read, as the grader gave them: without the points of people, and before "
        f"anything is taken off for lateness.{each}</figcaption></figure></section>"
    )


def _to_talk_about(class_):
    """The mistakes that most learners made."""
    found = [(who.count, id, sentence) for id in class_.ids for sentence, who in class_.frequent(id) if who.count > 1]
    if not found:
        return ""
    items = []
    for count, id, sentence in sorted(found, key=lambda one: (-one[0], one[1:]))[:3]:
        exercise = exercises.load(id)
        share = _share(count, len(class_.points))
        where = f"{html.escape(exercise.title)}, {_chapter(exercise)}"
        items.append(f'<li>{report._inline(sentence)}<p class="quiet">{count} learners, {share}. {where}.</p></li>')
    return (
        '<section class="talk"><h2>What to talk about</h2><p>The mistakes that most learners made. Each is the '
        f"sentence that its author has read.</p><ol>{''.join(items)}</ol></section>"
    )


def _exercises(class_):
    total, rows = len(class_.points), []
    if not total:
        return ""
    for id in class_.hardest_first():
        exercise, counts = exercises.load(id), class_.statuses[id]
        stars = "★" * exercise.stars + "☆" * (3 - exercise.stars)
        about = (
            f'{_chapter(exercise)}, {exercise.minutes} minutes, <span aria-hidden="true">{stars}</span>'
            f'<span class="hidden">{exercise.stars} of 3 stars</span>'
        )
        pieces = "".join(
            f'<i class="{key.replace(" ", "-")}" style="width:{100 * counts[key] / total:.2f}%"></i>' for key in _SHOWN
        )
        cells = "".join(f"<td>{counts[key]}</td>" for key in _SHOWN)
        rows.append(
            f'<tr><th scope="row">{html.escape(exercise.title)}<span class="quiet">{about}</span>'
            f'<span class="bar" aria-hidden="true">{pieces}</span></th>'
            f"<td>{_share(counts['passed'], total)}</td>{cells}</tr>"
        )
    heads = "".join(
        f'<th scope="col"><i class="{key.replace(" ", "-")}"></i>{name}</th>' for key, name in _SHOWN.items()
    )
    return (
        "<section><h2>The exercises, the hardest first</h2><table><thead><tr>"
        f'<th scope="col">exercise</th><th scope="col">share passed</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></section>"
    )


_SHOWN = {"passed": "passed", "not yet": "not yet", "not attempted": "left open"}


def _mistakes(class_):
    """For each exercise its known mistakes, and who made them."""
    total, parts = len(class_.points), []
    for id in class_.hardest_first():
        known, other = class_.frequent(id), class_.mistakes[id].get("")
        rows = [_expandable(who, total, report._inline(sentence)) for sentence, who in known[:MISTAKES]]
        if rest := known[MISTAKES:]:
            whose = report.many(sum(who.count for _, who in rest), "learner")
            rows.append(f'<p class="quiet">Not shown: {report.many(len(rest), "rarer mistake")}, of {whose}.</p>')
        if other:
            rows.append(_expandable(other, total, "No mistake that is known: an error, or numbers that differ."))
        if rows:
            parts.append(f"<h3>{html.escape(exercises.load(id).title)}</h3>{''.join(rows)}")
    if not parts:
        return ""
    return (
        "<section><h2>The mistakes</h2><p>The grader knows the mistakes that people make, and recognizes them by what "
        f"an answer returns. Open a line to see whose it is.</p>{''.join(parts)}</section>"
    )


def _alike(class_):
    """Near-identical submissions."""
    groups, rows = class_.likeness.groups(), []
    for group in groups[:GROUPS]:
        names = _names(group.members[:NAMED], group.size)
        said = "The same file, byte for byte" if group.identical else f"{_percent(group.share)} in common"
        rows.append(f"<li><b>{said}</b>: {names}</li>")
    if not rows:
        return ""
    rest = report.many(len(groups) - GROUPS, "group")
    more = f'<p class="quiet">Not shown: {rest}.</p>' if len(groups) > GROUPS else ""
    return (
        '<section class="look"><h2>Very much alike: for a person to look at</h2><p>Likeness is no proof of anything. '
        "Two learners may have sat together where that is allowed, or found the same page. So read both, and ask. "
        "Names of variables, comments, numbers and the order of statements do not count here; nor does what half of "
        f"the class writes, or this course shows.</p><ul>{''.join(rows)}</ul>{more}</section>"
    )


def _unreadable(class_, out):
    """What could not be read, with a link to the page that says so."""
    if not class_.unreadable.count:
        return ""
    rows = []
    for learner, name, reason in class_.unreadable.names:
        file = f"feedback/{report.file_name(name, run.hashed(name))}.html"
        shown = html.escape(learner)
        shown = f'<a href="{file}">{shown}</a>' if (out / file).exists() else shown
        rows.append(f"<li>{shown}: {report._inline(reason)}</li>")
    left = class_.unreadable.count - len(rows)
    rows += [f"<li>and {left} more</li>"] if left else []
    return f'<section class="look"><h2>Could not be read</h2><ul>{"".join(rows)}</ul></section>'


# ---- words ----


def _expandable(who, total, said):
    share = _share(who.count, total)
    return (
        f'<details><summary><span class="count">{who.count}</span><span>{said} '
        f'<span class="quiet">{share}</span></span></summary><p>{_names(who.names, who.count)}</p></details>'
    )


def _names(names, count):
    more = f", and {count - len(names)} more" if count > len(names) else ""
    return ", ".join(f'<span class="name">{html.escape(name)}</span>' for name in names) + more


def _share(count, total):
    return _percent(count / total if total else 0)


def _percent(share):
    """A share as text that is not broken in two."""
    return "less than 1\u00a0%" if 0 < share < 0.005 else f"{100 * share:.0f}\u00a0%"


def _chapter(exercise):
    """What a chapter is called, after its file: "chapter 7, block"."""
    number, _, name = exercise.chapter.partition("_")
    name = html.escape(name.replace("_", " "))
    return f"chapter {int(number)}, {name}" if number.isdigit() else html.escape(exercise.chapter)


_STYLE = """\
:root { color-scheme: light dark; --page: #fff; --text: #1c2128; --quiet: #57606a; --line: #d5dae0; --link: #0a5ca8; }
:root { --soft: #f4f6f8; --passed: #1f78b4; --not-yet: #d97706; --not-attempted: #87919c; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181d; --text: #e6e9ec; --quiet: #a7b0ba; --line: #39424c; --link: #7ab8f5; --soft: #1d232a; }
  :root { --passed: #5aa9e6; --not-yet: #f0a43c; --not-attempted: #6b7580; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 2rem 1rem 4rem; overflow-wrap: anywhere; }
h1, h2, h3 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 1.7rem; margin: 0 0 1.2rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { margin: .4rem 0; max-width: 44rem; }
a { color: var(--link); }
code { font-size: .9em; background: var(--soft); padding: .05em .3em; border-radius: .25em; }
.quiet, figcaption { color: var(--quiet); font-size: .875rem; font-weight: normal; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem; margin: 0; }
.facts div { display: flex; flex-direction: column-reverse; padding: .7rem .9rem; border-radius: .5rem; }
.facts div { background: var(--soft); }
.facts dt { color: var(--quiet); font-size: .875rem; }
.facts dd { margin: 0; font-size: 1.45rem; font-weight: 600; font-variant-numeric: tabular-nums; }
figure { margin: 0; }
.axis { color: var(--quiet); font-size: .8rem; margin: 0; max-width: none; }
.x { text-align: right; }
.columns { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; gap: 2px; align-items: end; }
.columns { list-style: none; margin: 0; padding: 0; font-variant-numeric: tabular-nums; }
.columns li { display: flex; flex-direction: column; text-align: center; min-width: 0; position: relative; }
.columns b { font-size: .75rem; font-weight: normal; line-height: 1.4; overflow-wrap: normal; }
.columns i { background: var(--passed); border-radius: 3px 3px 0 0; }
.columns li > span:last-child { border-top: 1px solid var(--quiet); font-size: .75rem; padding-top: .2rem; }
.columns li > span:last-child { overflow-wrap: normal; }
.talk { border-left: 4px solid var(--not-yet); padding-left: 1rem; margin-top: 2.6rem; }
.talk h2 { margin-top: 0; }
.talk ol { padding-left: 1.3rem; }
.talk li { margin: .7rem 0; }
.talk li p { margin: 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; vertical-align: top; }
thead th { font-size: .8rem; color: var(--quiet); vertical-align: bottom; padding: 0 .4rem .4rem 0; }
thead th + th, td { text-align: right; padding: .7rem 0 .7rem .6rem; white-space: nowrap; vertical-align: top; }
thead th + th { padding: 0 0 .4rem .6rem; white-space: normal; overflow-wrap: normal; }
thead i { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .35em; }
tbody tr { border-top: 1px solid var(--line); }
tbody th { padding: .7rem 0; width: 60%; }
tbody th .quiet { display: block; }
.bar { display: flex; gap: 1px; height: .6rem; margin-top: .4rem; border-radius: 3px; overflow: hidden; }
i.passed { background: var(--passed); }
i.not-yet { background: var(--not-yet); }
i.not-attempted { background: var(--not-attempted); }
details { border-top: 1px solid var(--line); }
summary { display: flex; gap: .8rem; padding: .5rem 0; cursor: pointer; align-items: baseline; }
summary::-webkit-details-marker { display: none; }
summary::after { content: "+"; margin-left: auto; color: var(--quiet); }
details[open] > summary::after { content: "–"; }
summary:hover { background: var(--soft); }
.count { min-width: 2.6rem; text-align: right; font-weight: 600; font-variant-numeric: tabular-nums; flex: none; }
details p { margin: 0 0 .8rem 3.4rem; }
.name { white-space: nowrap; }
.look ul { padding-left: 1.2rem; }
.look li { margin: .4rem 0; }
@media (max-width: 34rem) {
  main { padding-top: 1.2rem; }
  thead i { display: block; margin: 0 0 .2em auto; }
  tbody th { width: 50%; }
  thead th + th, td { padding-left: .5rem; }
  .name { white-space: normal; }
  details p { margin-left: 0; }
}
@media print {
  :root { color-scheme: light; --page: #fff; --text: #000; --quiet: #444; --line: #bbb; --soft: #f2f2f2; }
  i, .facts div { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  tr, details, figure, .talk, .facts, li { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  summary::after { content: ""; }
}
"""
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""
