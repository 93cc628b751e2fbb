"""The class's page, what it counts, and what it finds alike: planted copies, not what people write by themselves."""

import ast
import html.parser
import itertools
import math
import random
import re
import tracemalloc

import pytest

from exercises import ids, load
from exercises.grade import class_report, likeness, report, run, submission
from exercises.grade.boxes import Limits
from exercises.grade.inside import reader, sketch
from exercises.grade.likeness import Likeness
from exercises.spec import Code
from tests import classroom, further_right, sandbox

# ---- programs ----

ONE = """\
def backward(dout, x, table=None):
    \"\"\"Mine.\"\"\"
    total = np.sum(dout * x, axis=-1, keepdims=True)
    for row in range(len(x)):
        if x[row].max() > 3:
            total[row] = total[row] + 2 * np.exp(x[row]).mean()
    return dout - total / x.shape[-1]
"""
SAME = {
    "renamed": """\
def g(d, input, t=None):
    s = np.sum(d * input, axis=-1, keepdims=True)
    for i in range(len(input)):
        if input[i].max() > 3:
            s[i] = s[i] + 2 * np.exp(input[i]).mean()
    return d - s / input.shape[-1]
""",
    "imported otherwise": ONE.replace("np.", "numpy."),
    "other numbers": ONE.replace("3", "70.5").replace("2", "0x10").replace("-1", "-2"),
    "commented": "# a\n" + ONE.replace("\n", "  # b\n").replace('"""Mine."""  # b', '"""Some\n    thing else."""'),
    "laid out": ONE.replace("dout * x", "(\n  dout\n  * (x))").replace("    ", "\t"),
    "annotated": ONE.replace("dout, x, table=None", "dout: np.ndarray, x: float, table: dict = None"),
    "with prints of text": ONE.replace("    for", '    "done"\n    for'),
}


@pytest.mark.parametrize("how", SAME)
def test_what_changes_no_statement_changes_no_number(how):
    assert SAME[how] != ONE and sketch.pieces(SAME[how]) == sketch.pieces(ONE) != set()


def test_statements_may_change_places():
    body = ["    a = np.sum(x * x, axis=0)", "    b = np.exp(x).mean(axis=-1)", "    c = [v for v in x if v > 0]"]
    programs = ["def f(x):\n" + "\n".join(lines) for lines in itertools.permutations(body)]
    assert len({frozenset(sketch.pieces(program)) for program in programs}) == 1


@pytest.mark.parametrize(
    "before, after",
    [("np.exp", "np.log"), ("keepdims=True", "dtype=True"), ("dout * x", "dout + x"), ("range(", "list("), (">", "<")],
)
def test_what_is_done_changes_the_numbers(before, after):
    changed = sketch.pieces(ONE.replace(before, after))
    assert changed & sketch.pieces(ONE) and changed - sketch.pieces(ONE)


def test_numbers_are_the_same_in_every_python():
    assert sketch.sketch(sketch.pieces("def f(x):\n    return np.exp(x - x.max(axis=-1)) / 2\n")) == NUMBERS


NUMBERS = [33389459638, 60696414518, 165251027268, 253066064153, 461364377101, 818160192508, 979941049632]
NUMBERS += [1014230579247, 1050777982625, 1051241860743]


@pytest.mark.parametrize("source", ["", "x = (", "# nothing", "(" * 500 + ")" * 500, "x = 1\0", "-" * 100_000 + "1"])
def test_what_is_no_program_has_no_numbers(source):
    assert sketch.pieces(source) == set()


def test_a_large_statement_is_cut():
    long = "x = [" + "a.b(c), " * 8_000 + "]"
    mixed = "x = [" + "".join(f"a{n}.b{n}(c, d{n % 7}), " for n in range(8_000)) + "]"
    assert len(sketch.pieces(long)) < 20
    found = sketch.pieces(mixed)
    assert sketch.MOST_TOKENS / 3 < len(found) <= sketch.MOST_TOKENS
    assert sketch.sketch(found) == sorted(found)[: sketch.MOST]


# ---- from the reader to the result ----

WANT = {"id": "a-backward", "kind": "code", "answer": "backward", "args": ["dout", "x"], "parts": []}


def read(source, want=WANT, name="a.py"):
    return reader.read(name, source.encode(), [want], lambda code: "")["exercises"][want["id"]]


def test_the_reader_sketches_the_whole_program_of_an_answer():
    helper = "def helper(values, other):\n    return np.tanh(values @ other).sum(axis=0) - other.mean()\n"
    other = "def other(values):\n    return values.argmax(axis=0).tolist() + list(values.shape)\n"
    check = 'check("a-backward", backward)\n'
    alone = read(f"{ONE}{check}")["sketch"]
    called = read(f"{other}{helper}{ONE.replace('dout - total', 'helper(dout, total)')}{check}")["sketch"]
    assert alone == sorted(sketch.pieces(ONE))
    assert sketch.pieces(helper) <= set(called) and not sketch.pieces(other) & set(called)
    expression = read('check("a-backward", lambda dout, x: np.exp(dout * x).sum(axis=-1) - dout)\n')["sketch"]
    assert len(expression) > 5
    lines = "".join(f"    x = x.a{n}(dout).b{n}(x + {n})\n" for n in range(90))
    assert len(read(f"def backward(dout, x):\n{lines}    return x\n{check}")["sketch"]) == sketch.MOST


@pytest.mark.parametrize(
    "source, kind",
    [
        ("def backward(dout, x):\n    return ...\n", "code"),
        ("def backward(dout, x:\n    return np.exp(x) - dout\n", "code"),
        ("", "code"),
        ("backward = 3\n", "number"),
        ("backward = [np.exp(one).mean(axis=0) for one in range(12)]\n", "number"),
    ],
)
def test_there_is_no_sketch_of_what_is_no_function(source, kind):
    assert read(f"import exercises\n{source}check('a-backward', backward)\n", WANT | {"kind": kind})["sketch"] == []


def test_the_reader_sketches_no_more_than_it_has_time_for(monkeypatch):
    monkeypatch.setattr(reader, "MAX_SKETCHED", len(ONE) + 60)
    lines = "".join(f"a{n} = [np.exp(a), b.sum(axis={n}), c @ d]\n" for n in range(5))
    uses = ONE.replace("2 *", "a0 * a1 * a2 * a3 * a4 *")
    assert len(read(f"{lines}{uses}check('a-backward', backward)\n")["sketch"]) < len(sketch.pieces(lines + uses))


@pytest.mark.parametrize("lie", [[-1], [1 << 40], [True], [1.5], ["a"], [1] * 201, None, 5])
def test_a_lying_sketch_is_refused(lie):
    id = next(id for id in ids() if isinstance(load(id), Code))
    told = {"found": "id", "where": "", "status": "run", "line": "", "program": [], "expression": "f"}
    told |= {"prints": [], "attributes": [], "mentions": []}
    good = submission._checked({"error": "", "exercises": {id: told | {"sketch": [0, 1 << 39]}}}, [load(id)])
    assert good["exercises"][id]["sketch"] == [0, 1 << 39]
    with pytest.raises((ValueError, TypeError)):
        submission._checked({"error": "", "exercises": {id: told | {"sketch": lie}}}, [load(id)])


# ---- likeness ----


def result(numbers=(), **more):
    """A result with this sketch, as far as likeness looks at it."""
    parts = {"rope": {"sketch": list(numbers), "status": "passed", "diagnosis": "", "points": 1, "out_of": 3}}
    given = {"status": "graded", "digest": str(random.random()), "submission": "a.ipynb", "reason": "", "points": 1}
    return given | {"exercises": parts} | more


def likeness_of(sketches):
    found = Likeness()
    for owner, numbers in sketches:
        found.add(result(numbers), owner)
    return found


def test_many_who_are_alike_do_not_hide_the_few_who_come_after_them(monkeypatch):
    """Hundreds may have found one page, and a pair may have copied from each other."""
    monkeypatch.setattr(likeness, "MOST_PAIRS", 100)
    sketches = {f"crowd {n}": range(50) for n in range(30)} | {f"other {n}": range(100, 150) for n in range(30)}
    found = likeness_of((sketches | {"a": range(500, 550), "b": range(500, 550)}).items()).groups()
    assert {"a", "b"} in [set(group.members) for group in found]


@pytest.mark.parametrize("seed", range(20))
def test_pairs_are_those_that_plain_python_finds(seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(likeness, "LEAST", rng.choice([1, 3]))
    monkeypatch.setattr(likeness, "SHARE", rng.choice([0.2, 0.5]))
    monkeypatch.setattr(likeness, "MANY", rng.choice([4, 300]))
    pool = [rng.getrandbits(40) for _ in range(80)]
    class_ = {f"learner-{n}": set(rng.choices(pool, k=rng.randrange(30))) for n in range(rng.randrange(2, 15))}
    held = {one: sum(one in its for its in class_.values()) for its in class_.values() for one in its}
    own = {one: math.log2(len(class_) / n) for one, n in held.items() if 2 * n <= len(class_)}
    own = {one: weight for one, weight in own.items() if one not in likeness.shown(())}
    wanted = {}
    for (a, one), (b, two) in itertools.combinations(enumerate(class_.values()), 2):
        both = [x for x in one & two if x in own and held[x] <= likeness.MANY]
        whole = min(sum(own.get(x, 0) for x in its) for its in (one, two))
        if len(both) >= likeness.LEAST and whole and sum(own[x] for x in both) / whole >= likeness.SHARE:
            wanted[a, b] = (sum(own[x] for x in both) / whole, len(both))
    found = {pair[:2]: pair[2:] for pair in likeness_of(class_.items()).pairs()}
    assert found.keys() == wanted.keys()
    assert all(found[pair] == pytest.approx(wanted[pair]) for pair in wanted)


def test_identical_files_come_first_then_who_is_all_alike():
    numbers = iter(range(10**6))

    def some(count=60):
        return list(itertools.islice(numbers, count))

    copied, other, stub = some(), some(), some(10)
    its = {f"learner-{n:03}": result([*stub, *some()]) for n in range(12)}
    its |= {"copy-1": result([*stub, *copied]), "copy-2": result([*stub, *copied]), "copy-3": result(copied[:55])}
    its |= {"far-1": result([*other, *some()]), "far-2": result([*other, *some(30)])}
    its |= {"same-1": result(some(), digest="f" * 64), "same-2": result([], digest="f" * 64)}
    its |= {"empty-1": result(status="unreadable", digest="e"), "empty-2": result(status="unreadable", digest="e")}
    found = Likeness()
    for owner, one in its.items():
        found.add(one, owner)
    for _ in range(2):  # attempts of one learner are not compared
        found.add(result([*range(10**7, 10**7 + 60)], digest="d" * 64), "again")
    groups = found.groups()
    assert [(group.members, group.identical) for group in groups] == [
        (("same-1", "same-2"), True),
        (("copy-1", "copy-2", "copy-3"), False),
        (("far-1", "far-2"), False),
    ]
    assert groups[1].common == 60 and groups[1].share == pytest.approx(1)
    shared, own = 60 * math.log2(20 / 2), 30 * math.log2(20)  # of twenty learners
    assert groups[2].common == 60 and groups[2].share == pytest.approx(shared / (shared + own))
    assert found.groups() == groups


def test_a_chain_is_no_group():
    ends = [list(range(at, at + 100)) for at in (0, 30, 66)]
    fillers = [(f"learner-{n}", range(1000 * n, 1000 * n + 50)) for n in range(1, 9)]
    groups = likeness_of([*zip("abc", ends), *fillers]).groups()
    assert [group.members for group in groups] == [("a", "b")]


def test_nobody_is_alike_in_a_class_of_three():
    for count in range(4):
        assert likeness_of((f"learner-{n}", range(100)) for n in range(count)).groups() == []


def independent(id):
    """Answers to a Code exercise that are right, written otherwise each."""
    answers = list(classroom.right_answers(id, ""))
    names = [answer.__name__ for its, answer in further_right.RIGHT if its == id and hasattr(answer, "__name__")]
    names = [name for name in names if hasattr(further_right, name)]
    answers += [classroom.written(id, further_right.__name__, name) for name in names]
    return answers


def program(answer):
    return "\n".join(filter(None, [answer.helpers, answer.definition, answer.value]))


class Disguise(ast.NodeTransformer):
    """Other names and other numbers; what is left of comments and layout goes with the source."""

    def __init__(self, tree, rng):
        nodes = list(ast.walk(tree))
        bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
        bound |= {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
        self.names = {name: f"other_{at}" for at, name in enumerate(rng.sample(sorted(bound), len(bound)))}
        self.rng = rng

    def visit(self, node):
        self.generic_visit(node)
        for key in ("id", "arg", "name"):
            if isinstance(node, ast.Name | ast.arg | ast.FunctionDef) and hasattr(node, key):
                setattr(node, key, self.names.get(getattr(node, key), getattr(node, key)))
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and self.rng.random() < 0.3:
            node.value += 1
        if isinstance(getattr(node, "body", None), list):
            for at in range(len(node.body) - 2):
                if self.rng.random() < 0.3:
                    node.body[at : at + 2] = node.body[at : at + 2][::-1]
            if isinstance(node, ast.FunctionDef):
                node.body.insert(self.rng.randrange(len(node.body)), ast.parse('print("here", len("there"))').body[0])
        return node


def disguised(source, rng):
    tree = ast.parse(source)
    return ast.unparse(ast.fix_missing_locations(Disguise(tree, rng).visit(tree)))


CODE = [id for id in ids() if isinstance(load(id), Code)]


def test_planted_copies_are_found_and_independent_answers_are_not():
    rng = random.Random(1)
    programs = {id: list(map(program, independent(id))) for id in CODE}
    programs = {id: its for id, its in programs.items() if len(its) >= 7}
    learners = [{id: rng.choice(its) for id, its in programs.items()} for _ in range(50)]
    copied = rng.sample(range(50), 8)
    learners += [{id: disguised(source, rng) for id, source in learners[at].items()} for at in copied]
    sketches = [set().union(*(sketch.sketch(sketch.pieces(s)) for s in its.values())) for its in learners]
    class_ = likeness_of((f"learner-{n:03}", numbers) for n, numbers in enumerate(sketches))
    found = {pair[:2] for pair in class_.pairs()}
    planted = {(at, 50 + n) for n, at in enumerate(copied)}
    assert planted <= found
    assert len(found - planted) <= 10  # of 1,645; a pool of some eight programs for each exercise is small


def test_right_answers_written_otherwise_are_not_alike():
    close, pairs = 0, 0
    for id in CODE:
        for one, two in itertools.combinations([sketch.pieces(program(one)) for one in independent(id)], 2):
            close += len(one & two) >= likeness.SHARE * min(len(one), len(two))
            pairs += 1
    assert pairs > 500 and close <= 5


def test_what_the_course_shows_is_not_counted():
    rng = random.Random(2)
    numbers = sketch.pieces(program(classroom.right_answers("gqa-backward", "")[0]))
    others = [(f"learner-{n}", [rng.getrandbits(40) for _ in range(60)]) for n in range(8)]
    for ids_, wanted in ((("gqa-backward",), []), (("rope",), [("one", "two")])):
        class_ = Likeness(ids_)
        for owner, its in [*others, ("one", numbers), ("two", numbers)]:
            class_.add(result(its), owner)
        assert [group.members for group in class_.groups()] == wanted


# ---- the page ----

SET = ("rope", "gate", "contributions")


def graded(points, **parts):
    """A result in which each exercise has this (status, diagnosis)."""
    told = {id: {"status": "passed", "diagnosis": "", "sketch": []} for id in SET}
    for id, (status, diagnosis) in parts.items():
        told[id] |= {"status": status, "diagnosis": diagnosis}
    return result(points=points, exercises=told)


def page_of(tmp_path, counted, title="Problem set 3"):
    class_report.write(tmp_path, SET, counted, title)
    return (tmp_path / "class.html").read_text(encoding="utf-8")


class Seen(html.parser.HTMLParser):
    """The tags of a page, its attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.open, self.words = [], [], [], []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.open += [tag] if tag not in ("meta", "br") else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += [data] if self.open and self.open[-1] != "style" else []


SAID = "You forgot `half` of it."


def test_who_handed_in_nothing_is_counted(tmp_path):
    class_report.write(tmp_path, SET, [(graded(6), "learner-001")], "x", 12)
    assert "handed in nothing 12" in Seen((tmp_path / "class.html").read_text()).text
    assert "handed in nothing" not in Seen(page_of(tmp_path, [(graded(6), "learner-001")])).text


def test_what_the_class_did_is_counted(tmp_path):
    its = [(graded(6), f"learner-{n:03}") for n in range(5)]
    its += [(graded(4, rope=("not yet", SAID)), f"late-{n}") for n in range(70)]
    its += [(graded(4, rope=("stopped", ""), gate=("not attempted", "")), "lost")]
    its += [(graded(0, rope=("missing", ""), gate=("missing", ""), contributions=("not yet", "Once.")), "learner-9")]
    its += [(result(status="unreadable", reason="The file is empty."), "nobody")]
    text = Seen(page_of(tmp_path, iter(its))).text
    assert text.startswith("Problem set 3: the class Problem set 3: the class")
    out_of = sum(load(id).points for id in SET)
    for said in (
        "submissions 78 could be read 77",
        f"points, the median 4 of {out_of}",
        "0 points: 1 1 0",
        "4 points: 71 71 4",
        f"with full marks {5 if out_of == 6 else 0}",
        f"{load('rope').title} chapter 4, positions, {load('rope').minutes} minutes",
        "6 % 5 71 1",
        "99 % 76 1 0",
        "70 You forgot half of it. 91 % late-0 , late-1 ,",
        "late-49 , and 20 more",
        "1 No mistake that is known: an error, or numbers that differ. 1 % lost",
        "70 learners, 91 %",
        "nobody: The file is empty.",
    ):
        assert said in text, said
    order = [text.index(f"{load(id).title} chapter") for id in ("rope", "gate", "contributions")]
    assert order == sorted(order)
    assert "late-50" not in text and "learner-003" not in text
    talk = text[text.index("What to talk about") : text.index("The exercises")]
    assert "You forgot half" in talk and "Once." not in talk


def test_wide_points_come_in_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(class_report, "COLUMNS", 3)
    out_of = sum(load(id).points for id in SET)
    text = Seen(page_of(tmp_path, ((graded(n % (out_of + 1)), f"learner-{n}") for n in range(3 * (out_of + 1))))).text
    counts = [int(n) for n in re.findall(r"points: (\d+)", text)]
    assert sum(counts) == 3 * (out_of + 1) and len(counts) <= 4
    assert "0 to 1 points: 6" in text and "A column holds 2 numbers of points" in text


def test_nothing_of_a_learner_is_markup_and_the_page_needs_nothing_else(tmp_path):
    hostile = "<script src='http://x'>alert(1)</script>&amp;\"><img onerror=a>"
    its = [(graded(1, rope=("not yet", hostile), gate=("not yet", "")), f"{hostile}{n}") for n in range(3)]
    its += [(result(status="unreadable", reason=hostile, submission=hostile), hostile)]
    its += [(graded(1) | {"digest": "f" * 64}, f"{hostile}{name}") for name in "ab"]
    page = page_of(tmp_path, its, hostile)
    seen = Seen(page)
    assert not {"script", "img", "link", "iframe", "object", "form"} & set(seen.tags)
    assert {key for _, key, _ in seen.attributes} <= {
        *("lang", "charset", "name", "content", "class", "style", "scope", "aria-hidden", "href"),
    }
    assert "http" not in re.sub(r"http://x", "", page) and "url(" not in page and "@import" not in page
    assert seen.text.count("alert(1)") >= 8


def test_a_page_is_linked_where_it_is(tmp_path):
    its = [(result(status="unreadable", submission=name), name) for name in ("group 1/a.ipynb", "b.ipynb")]
    (tmp_path / "feedback").mkdir()
    name = f"{report.file_name('group 1/a.ipynb', run.hashed('group 1/a.ipynb'))}.html"
    (tmp_path / "feedback" / name).touch()
    links = [value for tag, key, value in Seen(page_of(tmp_path, its)).attributes if (tag, key) == ("a", "href")]
    assert links == [f"feedback/{name}"]


@pytest.mark.parametrize("count", [0, 1])
def test_a_class_of_nobody_has_a_page(tmp_path, count):
    assert "The class" in page_of(tmp_path, [(graded(6), "learner-001")][:count], "")


def test_long_lists_are_cut(tmp_path):
    files = [(graded(1) | {"digest": f"{n % 40:016}"}, f"learner-{n:04}") for n in range(4000)]
    files += [(result(status="unreadable"), f"lost-{n:03}") for n in range(80)]
    page = page_of(tmp_path, files)
    assert page.count("byte for byte") == class_report.GROUPS and "Not shown: 10 groups" in page
    assert "and 50 more</li>" in page and "and 30 more</li>" in page
    assert len(page) < 200_000


def test_headings_descend_and_tables_have_heads(tmp_path):
    page = page_of(tmp_path, [(graded(1, rope=("not yet", SAID)), f"learner-{n}") for n in range(3)])
    seen = Seen(page)
    assert not seen.open
    levels = [int(tag[1]) for tag in seen.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 == levels.count(1) and all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert ("html", "lang", "en") in seen.attributes
    assert seen.tags.count("th") == 5 + len(SET) == sum(key == "scope" for _, key, _ in seen.attributes)


def luminance(colour):
    """WCAG 2.2, relative luminance."""
    colour = colour if len(colour) == 6 else "".join(2 * c for c in colour)
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_told_apart(scheme):
    light, dark = class_report._STYLE.split("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--([\w-]+): #(\w+)", light))
    if scheme == "dark":
        colours |= dict(re.findall(r"--([\w-]+): #(\w+)", dark.split("* {")[0]))

    def contrast(one, two):
        high, low = sorted([luminance(colours[one]), luminance(colours[two])], reverse=True)
        return (high + 0.05) / (low + 0.05)

    for text, ground in itertools.product(("text", "quiet", "link"), ("page", "soft")):
        assert contrast(text, ground) >= 4.5, (text, ground)
    for bar in ("passed", "not-yet", "not-attempted"):
        assert contrast(bar, "page") >= 3, bar


def test_memory_is_flat(tmp_path):
    def class_(count):
        for n in range(count):
            one = graded(n % 7, rope=("not yet", SAID))
            one["exercises"]["rope"] |= {
                "lines": ["x" * 20_000],
                "sketch": [(20 * n + k) * 65537**2 % 2**40 for k in range(20)],
            }
            yield one, f"learner-{n:05}"

    peaks = []
    for count in (500, 500, 4000):
        tracemalloc.start()
        class_report.write(tmp_path, SET, class_(count), "")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 3500 * 1500  # bytes of a submission that brings 20,000


# ---- the whole way ----

WHY = "Attention moves what other tokens offer, and the feed-forward works on each alone. " * 3


def test_words_and_sketches_come_through_the_grader(tmp_path):
    way = next((way for way in ("bwrap", "uid") if not sandbox.why_not(way)), None) or sandbox.need("bwrap")
    asked = ("contributions", "gqa-backward")
    exercise = load("contributions")
    right = {part.name: part.right() for part in exercise.parts}
    literal = repr(right | {"why": f"{WHY}<b>\n\n0x7f00aa"})
    computed = f"dict({right!r}, why=' '.join({WHY!r}.split()))"
    cut = repr(right | {"why": "word " * 4000})
    wrong = repr(right | {"attention": "none", "why": "I do not know."})
    number = repr(right | {"why": 5})
    first, *others = (program(one) for one in independent("gqa-backward")[::-1] if not one.value)
    programs = [first, disguised(first, random.Random(3)), *others[:3]]
    folder = tmp_path / "submissions"
    folder.mkdir()
    for n, (value, source) in enumerate(zip([literal, computed, cut, wrong, number], programs)):
        answers = {"contributions": classroom.filled("contributions", classroom.Answer(value=value))}
        own, name = ast.parse(source).body[-1].name, classroom.name_of("gqa-backward")
        answers["gqa-backward"] = [source] if own == name else [source, f"{name} = {own}"]
        text = classroom.as_ipynb(classroom.notebook(asked, f"learner-{n}", answers))
        (folder / f"learner-{n}.ipynb").write_text(text, encoding="utf-8")
    out = tmp_path / "grades"
    run.run(folder, out, asked, limits=Limits(5), workers=1, way=way, say=lambda line: None)
    results = list(run.results(out, run.submissions(folder)))
    words = [one["exercises"]["contributions"]["words"] for one in results]
    assert words[0] == f"{WHY}<b> 0x…" and words[1] == WHY.strip()
    assert len(words[2]) == submission.MOST_WORDS and words[3:] == ["I do not know.", ""]
    parts = [one["exercises"]["gqa-backward"] for one in results]
    assert all(part["words"] == "" for part in parts) and all(len(part["sketch"]) > 20 for part in parts)
    assert set(parts[0]["sketch"]) <= set(parts[1]["sketch"])
    assert results[0]["exercises"]["contributions"]["sketch"] == []
    class_report.write(out, asked, ((one, one["learner"]) for one in results))
    text = Seen((out / "class.html").read_text(encoding="utf-8")).text
    alike = text[text.index("Very much alike") :]
    assert "in common : learner-0 , learner-1" in alike and "learner-2" not in alike
