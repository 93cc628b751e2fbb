"""Reads a file that nobody trusts: which exercises are in it, and for each the small program that makes its answer.

Nothing of the file is run here: it is parsed, compiled, and looked at. A notebook's cells are split into statements.
For each exercise the statement that defines the answer is found, and then those that it needs, in the document's order.

Text forms are read here and not by jupytext, which splits a script at blank lines inside brackets, keeps no line
numbers and reads YAML that anybody may have written; the tests write every exercise with jupytext, and read it back.
"""

import ast
import bisect
import json
import re
import symtable
import types
import warnings
from dataclasses import dataclass, field

from .sketch import pieces, sketch

# Limits. A submission is far below each of them; a file made to take long is cut, and the rest of it is read.
MAX_BYTES = 32_000_000  # JSON of this size may take forty times as much memory
MAX_CELLS = 5_000  # in a chapter of this course there are sixty
MAX_CELL = 300_000  # characters; the syntax tree of as many takes 200 MB
MAX_CODE = 1_000_000  # characters in all cells; more than three times what this whole course has
MAX_STATEMENTS = 8_000  # twice what this whole course has; each may be in the program of every exercise
MAX_MAGICS = 2_000_000  # lines with magics times characters of their cell: it is tokenized once more for each
MAX_MAGIC_LINE = 2_000  # characters of a line in such a cell; Python 3.12 takes quadratic time
MAX_RETRIES = 5_000  # attempts to parse parts of broken cells
MAX_COMPREHENSIONS = 10  # inside of each other; compiling 25 crashes Python 3.12 and 3.13
MAX_LITERAL = 20_000  # characters of a value that is read and not run
MAX_CHECKS = 100  # of one exercise; the last are looked at
MAX_ATTRIBUTES = 50_000
MAX_SKETCHED = 200_000  # characters of statements that are sketched, once each; a second
MAX_NOTES = 20
MAX_LEARNER = 80
MAX_OTHERS = 30  # exercises that are named and not wanted

STUB, BROKEN, PARTIAL, FILLED = range(4)  # how far a definition has come

_FILE = "file"  # the label of code whose lines are counted from the file's beginning
_BAD_CODE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)  # what compiling may raise
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IN_PLACE = {"at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "setattr", "shuffle"}
_AGAIN = "Download the notebook again (File, Download, .ipynb) and hand that in."


class _Unreadable(Exception):
    """The file is no submission; the sentence says why."""


@dataclass
class _Cell:
    label: str
    start: int  # lines of the file that stand before it, where lines are counted from the file's beginning
    source: str
    ids: tuple = ()  # exercises that its metadata names


@dataclass
class _Expression:
    source: str
    name: str  # if it is a name and nothing else
    rank: int
    line: int
    uses: set
    attributes: set
    mentions: set


@dataclass
class _Statement:
    cell: int
    line: int
    source: str
    error: str = ""  # why it does not compile
    binds: set = field(default_factory=set)
    changes: set = field(default_factory=set)  # names whose objects it changes
    now: set = field(default_factory=set)  # names that it reads when it runs
    later: set = field(default_factory=set)  # names that a function in it reads when it is called
    globals: set = field(default_factory=set)  # names that a function in it binds by `global`
    imports: set = field(default_factory=set)
    made: set = field(default_factory=set)  # names bound by def, class, lambda or import: surely no numbers
    loops: set = field(default_factory=set)  # names bound by `for`
    ranks: dict = field(default_factory=dict)  # name -> STUB … FILLED
    parameters: dict = field(default_factory=dict)  # name -> its parameters' names
    code: types.CodeType | None = None
    value: str = ""  # the source of what a plain assignment assigns
    keys: tuple = ()  # if that is a dict
    always: bool = False  # a star import may bind anything
    passed: list = field(default_factory=list)  # (function, names that it is called with), as statements
    calls: list = field(default_factory=list)  # (id, _Expression) of each check in it
    learner: str = ""
    attributes: set = field(default_factory=set)
    mentions: set = field(default_factory=set)
    at: int = 0  # its place in the document


def read(name, data, wanted, fingerprint):
    """What a submitted file holds; never raises, and gives the same for the same.

    Parameters
    ----------
    name : str, the file's name; where its ending does not fit, the content decides
    data : bytes, the file's content
    wanted : list of dict with "id", "kind" ("code", "number", "choice" or "order"), "answer" (the name that the stub
        binds), "args" (names of parameters, for code) and "parts" (keys, for a choice), in the order of the problem set
    fingerprint : function of a code object that gives a str

    Returns
    -------
    dict of "error" (a sentence if the file cannot be read, else ""), "notes" (list of sentences), "learner" (str) and
    "exercises" {id: dict}, each with
        "found" : "id", "metadata", "name", "position" or "", which way; "where" : "cell 7", "line 12" or ""
        "status" : "missing", "syntax", "stub" (nothing filled in), "literal" (see "value") or "run"
        "line" : a sentence for "missing" and "syntax", else ""
        "value" : the value of a "literal", else None
        "program" : list of [label, first line, source], statements to run in this order
        "expression" : the source of what is the answer after that; "" for "missing" and "syntax"
        "prints", "attributes", "mentions" : sorted lists of str; the fingerprints of all code in program and
            expression, names looked up by dot or `getattr`, packages imported
        "sketch" : list of int, by which a function that runs is compared with those of others (`sketch`)
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a learner's text is none of ours
            return _read(name, data, wanted, fingerprint)
    except _Unreadable as error:
        said = str(error)
    except MemoryError:
        said = "The file takes too much memory to read. Clear all outputs, save it, and hand it in again."
    except RecursionError:
        said = f"The file is nested too deeply to be read. {_AGAIN}"
    except Exception as error:
        said = f"The file could not be read ({type(error).__name__}). {_AGAIN}"
    return {"error": said, "notes": [], "learner": "", "exercises": {}, "others": []}


def _read(name, data, wanted, fingerprint):
    notes = []
    text = _decoded(data, notes)
    document = _Document(*_cells(name, text, notes), notes)
    finds = {want["id"]: document.find(want, wanted) for want in wanted}
    document.guess(wanted, finds)
    exercises = {want["id"]: document.result(want, finds[want["id"]], fingerprint) for want in wanted}
    if len(notes) > MAX_NOTES:
        notes[MAX_NOTES - 1 :] = [f"There is more of this kind: {len(notes) - MAX_NOTES + 1} notes are not shown."]
    others = sorted(set(document.calls) - set(exercises))[:MAX_OTHERS]
    return {"error": "", "notes": notes, "learner": document.learner, "exercises": exercises, "others": others}


# ---- bytes, text, cells ----

_KINDS = (  # what is handed in by mistake, by its first bytes
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x1f\x8b", "a compressed archive"),
    (b"7z\xbc\xaf", "a compressed archive"),
    (b"Rar!", "a compressed archive"),
    (b"\xd0\xcf\x11\xe0", "an office document"),
    (b"{\\rtf", "an RTF document"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
)


def _decoded(data, notes):
    """The text of a file, in whatever way it was saved."""
    for begin, kind in _KINDS:
        if data.startswith(begin):
            raise _Unreadable(f"This is {kind}, not a notebook. {_AGAIN}")
    if len(data) > MAX_BYTES:
        size = f"{len(data) / 1e6:,.0f} MB"
        raise _Unreadable(f"The file has {size}; at most {MAX_BYTES // 1_000_000} are read. Clear all outputs first.")
    coding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(coding)
    except UnicodeDecodeError:
        text = data.decode(coding, "replace")
        notes.append("Some bytes are not text in UTF-8; each was read as �.")
    if not text.strip("\0 \t\r\n"):
        raise _Unreadable(f"The file is empty. {_AGAIN}")
    begin = text[:10_000]
    odd = sum(c == "\ufffd" or (c < " " and c not in "\t\n\r\f") for c in begin)
    if odd > len(begin) / 20:
        raise _Unreadable(f"This is no text, and so no notebook. {_AGAIN}")
    if text.lstrip()[:15].lower().startswith(("<!doctype html", "<html")):
        raise _Unreadable(f"This is a web page, not a notebook. {_AGAIN}")
    return _clean(text)


def _clean(text):
    """The text with plain line ends, without what no Python source may hold."""
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8", "replace").decode()  # JSON may spell half of a character


def _cells(name, text, notes):
    """(code cells, the source that they are all parts of or "") of a notebook, a Markdown file or a script."""
    ending = re.search(r"(\.\w+)?$", name.strip().lower())[0]
    scripted, written = ending == ".py", ending in (".md", ".markdown", ".myst", ".rmd", ".qmd")
    if text.lstrip().startswith("{") or ending == ".ipynb":
        try:
            return _notebook(text, notes), ""
        except _Unreadable:
            if text.lstrip().startswith("{") and not scripted and not written:
                raise
            cells, whole = _text_cells(text, scripted, written)
            if not scripted and not written and not _is_code(cells):
                raise
            notes.append("This is no notebook; it was read as text with Python in it.")
            return cells, whole
    return _text_cells(text, scripted, written)


def _text_cells(text, scripted, written):
    fenced = [] if scripted and not text.startswith(("---\n", "```")) else _markdown(text)
    if fenced or (written and not _parses(text)):
        return fenced, ""
    return _script(text)


def _is_code(cells):
    return any(re.search(r"^(def|from|import) |^\w+ = |^check\(", cell.source, re.MULTILINE) for cell in cells)


def _parses(text):
    if len(text) > MAX_CELL:
        return False
    try:
        ast.parse(text)
    except _BAD_CODE:
        return False
    return True


def _notebook(text, notes):
    try:
        book = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        line = text.rstrip().count("\n") + 1 if cut else error.lineno
        how = "breaks off at" if cut else "is damaged in"
        raise _Unreadable(f"This is not a whole notebook: its JSON {how} line {line}. {_AGAIN}") from None
    except (ValueError, RecursionError):  # a number of too many digits
        raise _Unreadable(f"This is not a notebook: its JSON holds what no notebook does. {_AGAIN}") from None
    found = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(found, list) and isinstance(book, dict) and isinstance(book.get("worksheets"), list):
        sheets = [sheet.get("cells") for sheet in book["worksheets"] if isinstance(sheet, dict)]
        found = [cell for cells in sheets if isinstance(cells, list) for cell in cells]
    if not isinstance(found, list):
        raise _Unreadable(f"This is JSON, but no notebook: it has no list of cells. {_AGAIN}")
    if len(found) > MAX_CELLS:
        notes.append(f"There are more cells than are read; only the first {MAX_CELLS:,} were.")
    cells = []
    for number, cell in enumerate(found[:MAX_CELLS], 1):
        source, kind = None, None
        if isinstance(cell, dict):
            source = cell.get("source", cell.get("input"))
            kind = cell.get("cell_type", "code" if "outputs" in cell else None)
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            if kind in ("code", None):
                notes.append(f"Cell {number} holds no text, and was left out.")
        elif kind == "code":
            cells.append(_Cell(f"cell {number}", 0, _clean(source), _named(cell.get("metadata"))))
    return cells


def _named(metadata):
    """The exercises that a cell's metadata names, {"exercise": id} or a tag "exercise:id"."""
    if not isinstance(metadata, dict):
        return ()
    tags = metadata.get("tags")
    found = [tag[9:] for tag in tags if isinstance(tag, str) and tag[:9] == "exercise:"] if type(tags) is list else []
    return tuple(_id(id) for id in [metadata.get("exercise"), *found] if isinstance(id, str))


def _id(text):
    return text.strip().lower().replace("_", "-")


_EXERCISE = re.compile(r"\bexercise\"?\s*[:=]\s*\"?([\w-]+)")
_FENCE = re.compile(r"[ \t]*(`{3,}+|~{3,}+)([^`]*)$")  # possessive, or a long line takes quadratic time
_INFO = (  # the first kind that a file has is the one that its cells are in
    re.compile(r"\{code-cell\}\s*(i?python\d?\s*)?$"),
    re.compile(r"\{i?python\d?\b"),
    re.compile(r"(i?python\d?|py)\b", re.IGNORECASE),
    re.compile(r"$"),
)


def _markdown(text):
    """The cells of a Markdown file: MyST's, R Markdown's, or fenced Python."""
    lines, fences, at, open = text.split("\n"), [], 0, set()
    while at < len(lines) and len(fences) <= 2 * MAX_CELLS:
        text_cell = re.match(r"<!-- #(region|raw|md)", lines[at])
        match = _FENCE.match(lines[at])
        at += 1
        if text_cell and text_cell[1] not in open:  # jupytext marks text so that holds a fence
            ends = range(at, len(lines))
            end = next((end for end in ends if lines[end].startswith(f"<!-- #end{text_cell[1]}")), None)
            open |= {text_cell[1]} if end is None else set()  # so as not to look for it again
            at = at if end is None else end
        elif match:
            fence, info = match.groups()
            end = next((end for end in range(at, len(lines)) if _closes(lines[end], fence)), len(lines))
            fences.append((at, info.strip(), lines[at:end]))
            at = end + 1
    for number, kind in enumerate(_INFO):
        its = [(at, info, body) for at, info, body in fences if kind.match(info)]
        if its:
            return [_fenced(at, info, body, options=number == 0) for at, info, body in its[: MAX_CELLS + 1]]
    return []


def _closes(line, fence):
    line = line.strip()
    return line.startswith(fence) and not line.strip(fence[0])


def _fenced(at, info, body, options):
    """The cell in a fence; its options become empty lines."""
    length = 0
    if options and body and body[0].startswith("---"):
        length = next((n for n, line in enumerate(body) if n and line.startswith("---")), 0) + 1
    elif options:
        length = next((n for n, line in enumerate(body) if not line.startswith(":")), len(body))
    ids = tuple(_id(id) for id in _EXERCISE.findall("\n".join([info, *body[:length]])))
    return _Cell(_FILE, at, "\n".join([""] * length + body[length:]), ids)


def _script(text):
    """The cells of a script, which jupytext or an editor marks with `# %%` or `# +`; without marks it is one cell."""
    cells, lines, mark = [], text.split("\n"), re.compile(r"# ?%%(\s|$)|# \+(\s|$)")
    starts = [at for at, line in enumerate(lines) if mark.match(line)][: MAX_CELLS + 1]
    for start, end in zip([0, *starts], [*starts, len(lines)]):
        ids = tuple(map(_id, _EXERCISE.findall(lines[start]))) if mark.match(lines[start]) else ()
        cells.append(_Cell(_FILE, start, "\n".join(lines[start:end]), ids))
    # where the whole parses, marks that stand inside of a text do no harm
    return cells, text if _parses(text) else ""


# ---- cells into statements ----


def _statements(cells, whole, notes):
    """The statements of all cells, in order; what does not compile among them, with its error."""
    found, starts, size = [], [cell.start for cell in cells], 0
    budget = {"retries": MAX_RETRIES, "magics": MAX_MAGICS}  # for the whole file
    checks = {"check", "learner"}  # and the names that `check` is imported by
    for number, cell in enumerate([_Cell(_FILE, 0, whole)] if whole else cells):
        place = _at(cell.label, cell.start + 1)
        if len(cell.source) > MAX_CELL:
            notes.append(f"What begins at {place} is too long, and was left out.")
            continue
        size += len(cell.source)
        if number >= MAX_CELLS or size > MAX_CODE or len(found) >= MAX_STATEMENTS:
            notes.append(f"There is more code than is read; it was cut at {place}.")
            break
        source = _python(cell.source, budget)
        lines = source.encode().split(b"\n")
        said = False
        if "exercises" in source:
            checks |= set(re.findall(r"\bcheck\s+as\s+(\w+)", source))
        for node, first, last, error in _parts(source, budget):
            if _does_nothing(node) or len(found) > MAX_STATEMENTS:
                continue
            if not error:
                first = _first(node)
                try:
                    statement = _understood(node, lines, checks)
                except _BAD_CODE as raised:
                    error = _moved(raised, first - 1)
            if error:
                statement = _broken(b"\n".join(lines[first - 1 : last]).decode(), error)
                first = _line_of(error, first, last)
                if not said:
                    place = _at(cell.label, cell.start + first)
                    notes.append(f"There is a syntax error in {place}; that part was left out.")
                said = True
            statement.line = cell.start + first
            statement.cell = bisect.bisect(starts, first - 1) - 1 if whole else number
            for _, expression in statement.calls:
                expression.line += cell.start
            found.append(statement)
    if len(found) > MAX_STATEMENTS:
        notes.append(f"There are more statements than are read; only the first {MAX_STATEMENTS:,} were.")
    del found[MAX_STATEMENTS:]
    for at, statement in enumerate(found):
        statement.at = at
    return found


def _does_nothing(node):
    """A `pass`, or `del x` of a name, after which an answer may still use it when it is called."""
    names = node.targets if isinstance(node, ast.Delete) else ()
    return isinstance(node, ast.Pass) or (bool(names) and all(isinstance(name, ast.Name) for name in names))


def _at(label, line):
    return f"line {line}" if label == _FILE else f"line {line} of {label}"


_KEPT = re.compile(r"%%(time|timeit|capture|prun|python|python3)\b.*")


def _python(source, budget):
    """A cell without its magics: the same lines, but for what IPython would do."""
    lines = source.split("\n")
    for at, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line.startswith("%%"):
            break
        if not _KEPT.match(line):
            return ""
        lines[at] = ""
    lines = [re.sub(r"^([ \t]*)%time[ \t]+(?=[^\s-])", r"\1", line) for line in lines]
    for at, line in enumerate(lines[:-1]):
        if line.lstrip()[:1] in ("%", "!") and line.endswith("\\"):
            lines[at], lines[at + 1] = line[:-1], "!" + lines[at + 1]  # IPython would make one line of them
    source = "\n".join(lines)
    cost = len(source) * (1 + sum(map(_is_magic, lines)))
    if _parses(source) or cost > budget["magics"] or max(map(len, lines)) > MAX_MAGIC_LINE:
        return source
    budget["magics"] -= cost
    from IPython.core.inputtransformer2 import TransformerManager

    blank = len(source) - len(source.lstrip("\n"))  # which IPython drops
    try:
        changed = "\n" * blank + TransformerManager().transform_cell(source)
    except Exception:
        return source
    changed = re.sub(r"^([ \t]*)get_ipython\(\)\..*$", r"\1pass", changed, flags=re.MULTILINE)
    return re.sub(r"^([ \t]*[\w, .]+=[ \t]*)get_ipython\(\)\..*$", r"\1None", changed, flags=re.MULTILINE)


def _is_magic(line):
    return line.lstrip()[:1] in ("%", "!", "?") or line.rstrip().endswith("?") or bool(re.search(r"=\s*[%!]", line))


def _parts(source, budget):
    """(node or None, first line, last line, error or None) of each statement, and of each part that does not parse."""
    try:
        return [(node, node.lineno, node.end_lineno, None) for node in ast.parse(source).body]
    except _BAD_CODE as error:
        whole = (None, 1, source.count("\n") + 1, error)
    chunks = _chunks(source.split("\n"))
    if budget["retries"] < len(chunks):
        return [whole]
    found, at = [], 0
    while at < len(chunks):
        first, nodes, error, end = chunks[at][0], None, None, at
        while nodes is None and end < len(chunks) and budget["retries"] > 0:
            budget["retries"] -= 1
            end += 1
            try:
                nodes = ast.parse("\n".join(line for _, lines in chunks[at:end] for line in lines)).body
            except _BAD_CODE as raised:
                error = error or _moved(raised, first - 1)
                if not re.search(r"never closed|unterminated triple|unexpected EOF", str(raised)):
                    break  # only what ends too early may go on in the next lines
        if nodes is None:
            last = first + len(chunks[at][1]) - 1
            if isinstance(error, IndentationError) and "expected an indented" not in str(error) and found:
                first = found.pop()[1]  # lines that are indented for no reason belong to what stands before them
            found.append((None, first, last, error or whole[3]))
            at += 1
            continue
        for node in nodes:
            ast.increment_lineno(node, first - 1)
        found += [(node, node.lineno, node.end_lineno, None) for node in nodes]
        at = end
    return found


def _chunks(lines):
    """(number of the first line, lines) of pieces that begin where nothing is indented; a decorator begins one, too."""
    chunks, decorated = [], False
    for number, line in enumerate(lines, 1):
        begins = re.match(r"[^\s#)\]}]", line) and not re.match(r"(else|elif|except|finally)\b", line)
        if not chunks or (begins and not decorated):
            chunks.append((number, []))
        chunks[-1][1].append(line)
        decorated = line.startswith("@") if begins else decorated
    return chunks


def _moved(error, lines):
    """The error with its line counted from the cell's beginning."""
    if isinstance(error, SyntaxError) and error.lineno:
        error.lineno += lines
    return error


def _line_of(error, first, last):
    return min(max(getattr(error, "lineno", None) or first, first), last)


def _why(error):
    """An error of the compiler in a few words; the lines that it names are counted otherwise than ours."""
    said = error.msg if isinstance(error, SyntaxError) and error.msg else "the code is nested too deeply"
    return re.split(r" \(detected| on line| after .* on line|\. Perhaps", said)[0][:120]


def _first(node):
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


def _segment(lines, node):
    """The source of a statement or an expression, decorators too; lines are in bytes, as columns are."""
    first, last = _first(node), node.end_lineno
    start = node.col_offset if first == node.lineno else 0
    if first == last:
        return lines[first - 1][start : node.end_col_offset].decode()
    its = [lines[first - 1][start:], *lines[first : last - 1], lines[last - 1][: node.end_col_offset]]
    return b"\n".join(its).decode()


def _broken(source, error):
    """What stands for a part that does not compile: the names that it would have bound."""
    names = re.findall(r"^(?:async +)?(?:def|class) +(\w+)|^(\w+) *(?::[^=\n]*)?=(?!=)", source, re.MULTILINE)
    names = {one or other for one, other in names}
    return _Statement(0, 0, source, _why(error), binds=names, made=names, ranks=dict.fromkeys(names, BROKEN))


# ---- what a statement does ----


def _understood(node, lines, checks):
    """A statement with all that is known of it without running it; raises if it does not compile."""
    source = _segment(lines, node)
    if _comprehensions(node) > MAX_COMPREHENSIONS:
        raise RecursionError
    its = _Statement(0, 0, source)
    its.code = compile(source, "cell", "exec", dont_inherit=True)
    bound, its.now, its.later, its.globals = _scopes(source, "exec")
    plain, added = set(), set()
    for one in _outer(node):
        _names(one, its, plain, added)
        if isinstance(one, ast.Call) and _called(one) in checks:
            _check(one, its, lines)
    its.binds |= (bound - (added - plain)) | its.globals
    its.changes |= added
    its.now |= added
    its.attributes, its.mentions = _looked_up(node)
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and all(isinstance(t, ast.Name) for t in targets):
        if isinstance(node.value, ast.Dict):
            its.keys = tuple(k.value for k in node.value.keys if isinstance(k, ast.Constant) and type(k.value) is str)
        value = _segment(lines, node.value)
        its.value = value if len(value) <= MAX_LITERAL else ""
    its.always = isinstance(node, ast.ImportFrom) and (node.module == "__future__" or node.names[0].name == "*")
    return its


def _comprehensions(node):
    """How many comprehensions stand inside of each other."""
    deepest, stack = 0, [(node, 0)]
    while stack:
        one, depth = stack.pop()
        depth += isinstance(one, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        deepest = max(deepest, depth)
        stack += [(child, depth) for child in ast.iter_child_nodes(one)]
    return deepest


def _outer(node):
    """The nodes that run with the statement itself, in its order: not those in functions and classes."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        if isinstance(one, (*_FUNCTIONS, ast.Lambda)):
            inner = [*getattr(one, "decorator_list", ()), *one.args.defaults, *filter(None, one.args.kw_defaults)]
        elif isinstance(one, ast.ClassDef):
            inner = [*one.decorator_list, *one.bases]
        else:
            inner = list(ast.iter_child_nodes(one))
        stack += reversed(inner)


def _names(one, its, plain, added):
    """Note what this node binds, and what it changes."""
    if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
        plain.add(one.id)
    elif isinstance(one, (*_FUNCTIONS, ast.ClassDef)):
        plain.add(one.name)
        its.made.add(one.name)
        if isinstance(one, _FUNCTIONS):
            _rank(its, one.name, _written(one))
            its.parameters[one.name] = _parameters(one.args)
    elif isinstance(one, ast.Import | ast.ImportFrom):
        names = {alias.asname or alias.name.partition(".")[0] for alias in one.names}
        its.imports |= names
        its.made |= names
    elif isinstance(one, ast.Assign | ast.AnnAssign | ast.NamedExpr):
        for target in one.targets if isinstance(one, ast.Assign) else [one.target]:
            if isinstance(target, ast.Name):
                its.binds.add(target.id)  # symtable of Python 3.12 does not say it of `:=` in a comprehension
                _rank(its, target.id, _given(one.value))
                if isinstance(one.value, ast.Lambda):
                    its.made.add(target.id)
                    its.parameters[target.id] = _parameters(one.value.args)
    elif isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
        added.add(one.target.id)
        one.target.ctx = ast.Load()  # so that it does not look like an assignment
    elif isinstance(one, ast.For | ast.AsyncFor):
        its.loops |= {name.id for name in ast.walk(one.target) if isinstance(name, ast.Name)}
    elif isinstance(one, ast.Attribute | ast.Subscript) and not isinstance(one.ctx, ast.Load):
        its.changes |= _base(one)
    elif isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
        its.changes |= _base(one.value.func) if isinstance(one.value.func, ast.Attribute) else set()
        its.changes |= _changed_by(one.value)
        if isinstance(one.value.func, ast.Name):
            given = [*one.value.args, *(keyword.value for keyword in one.value.keywords)]
            its.passed.append((one.value.func.id, {arg.id for arg in given if isinstance(arg, ast.Name)}))


def _rank(its, name, rank):
    its.ranks[name] = max(rank, its.ranks.get(name, STUB))


def _base(node):
    """The name at the beginning of `a.b[0].c`, in a set; an empty one if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _changed_by(call):
    """Names that a call as in `np.copyto(a, b)`, `random.shuffle(a)` or `np.add(a, b, out=a)` changes."""
    changed = {name for keyword in call.keywords if keyword.arg == "out" for name in _base(keyword.value)}
    return changed | (_base(call.args[0]) if _called(call) in _IN_PLACE and call.args else set())


def _parameters(args):
    return [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def _is_empty(node):
    return node is None or (isinstance(node, ast.Constant) and node.value in (None, ..., ""))


def _given(node):
    """How far a value has come."""
    if isinstance(node, ast.Lambda):
        return STUB if _is_empty(node.body) else FILLED
    items = node.values if isinstance(node, ast.Dict) else getattr(node, "elts", None)
    if items is None or isinstance(node, ast.Set):
        return STUB if _is_empty(node) else FILLED
    open = sum(map(_is_empty, items))
    return STUB if open == len(items) else PARTIAL if open else FILLED


def _written(function):
    """How far a function has come: STUB if all it does is to assign and return `...`."""
    body, inside = function.body, [function.args, *function.body]
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and type(body[0].value.value) is str:
        body = body[1:]
    open, filled, empty_return = set(), set(), False
    while inside:
        node = inside.pop()
        if isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_dots(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            open |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(node, ast.Return) and _is_dots(node.value):
            empty_return = True
        else:
            filled |= {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()
            inside += ast.iter_child_nodes(node)
    work = [node for node in body if not _is_idle(node)]
    refuses = any(map(_refuses, body))
    if not work and (open or empty_return or refuses or all(not isinstance(node, ast.Return) for node in body)):
        return STUB
    return PARTIAL if open - filled or empty_return or refuses else FILLED


def _is_dots(node):
    """`...`, alone or several in a tuple"""
    if isinstance(node, ast.Tuple) and node.elts:
        return all(isinstance(item, ast.Constant) and item.value is ... for item in node.elts)
    return isinstance(node, ast.Constant) and node.value is ...


def _is_idle(node):
    """A statement that a stub may have: `x = ...`, `pass`, `return x`, `raise NotImplementedError`."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return _is_dots(node.value) or node.value is None
    if isinstance(node, ast.Return):
        items = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        return all(item is None or isinstance(item, ast.Name | ast.Constant) for item in items)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Pass | ast.Import | ast.ImportFrom) or _refuses(node)


def _refuses(node):
    error = node.exc if isinstance(node, ast.Raise) else None
    return "NotImplementedError" in (getattr(error, "id", ""), _called(error) if isinstance(error, ast.Call) else "")


def _called(call):
    """The last name of what is called: "copyto" in `np.copyto(a, b)`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _check(one, its, lines):
    """Note a call of `check` or `learner`."""
    given = {keyword.arg: keyword.value for keyword in one.keywords}
    args = [arg for arg in one.args if not isinstance(arg, ast.Starred)]
    first = args[0] if args else given.get("id", given.get("name"))
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return
    answer = args[1] if len(args) > 1 else given.get("answer")
    if _called(one) == "learner":
        its.learner = _clean(first.value).strip()[:MAX_LEARNER]
    elif answer is not None:
        source = _segment(lines, answer)
        name = answer.id if isinstance(answer, ast.Name) else ""
        source = source if name else f"({source})"  # so that it may have several lines
        _, now, later, _ = _scopes(source, "eval")
        looked = _looked_up(answer)
        expression = _Expression(source, name, _given(answer), one.lineno, now | later, *looked)
        its.calls.append((_id(first.value), expression))


def _scopes(source, mode):
    """(names bound, names read at once, names read later, names bound later by `global`) of a piece of source."""
    top = symtable.symtable(source, "cell", mode)
    bound, now, later, globals = set(), set(), set(), set()
    stack = [(top, True)]
    while stack:
        table, at_once = stack.pop()
        for symbol in table.get_symbols():
            name, outside = symbol.get_name(), table is top or symbol.is_global()
            if table is top and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(name)
            elif symbol.is_declared_global() and symbol.is_assigned():
                globals.add(name)
                later.add(name)  # `count += 1` reads it, too
            # a class may read a name that it binds itself afterwards
            if symbol.is_referenced() and (outside or table.get_type() == "class"):
                (now if at_once else later).add(name)
        for child in table.get_children():
            runs = child.get_type() != "function" or child.get_name() in _COMPREHENSIONS
            stack.append((child, at_once and runs))
    return bound, now, later, globals


_COMPREHENSIONS = {"genexpr", "listcomp", "setcomp", "dictcomp"}


def _looked_up(node):
    """(names after a dot or in `getattr`, packages imported), in the whole of a node."""
    attributes, mentions = set(), set()
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute):
            attributes.add(one.attr)
        elif isinstance(one, ast.Import):
            mentions |= {alias.name.partition(".")[0] for alias in one.names}
        elif isinstance(one, ast.ImportFrom):
            attributes |= {alias.name for alias in one.names}
            mentions |= {one.module.partition(".")[0]} if one.module and not one.level else set()
        elif isinstance(one, ast.Call):
            texts = [a.value for a in one.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if _called(one) == "getattr":
                attributes.update(texts[:1])
            elif _called(one) in ("__import__", "import_module"):
                mentions.update(text.partition(".")[0] for text in texts[:1])
    return attributes, mentions


# ---- finding ----


def _order(statement):
    return statement.at


@dataclass
class _Find:
    way: str  # "id", "metadata", "name" or "position"
    rank: int
    expression: _Expression
    chosen: _Statement | None  # the statement that defines the answer; none if the expression is more than a name
    call: _Statement | None  # the statement with the check


class _Document:
    """The statements of a file, and what is looked up among them."""

    def __init__(self, cells, whole, notes):
        self.cells = cells
        self.statements = _statements(cells, whole, notes)
        self.binders, self.changers, self._compiled = {}, {}, {}
        self._pieces, self._left_to_sketch = {}, MAX_SKETCHED
        imported = {name for s in self.statements for name in s.imports}
        made = {name for s in self.statements for name in s.made}
        globals = {name: s.globals for s in self.statements for name in s.made if s.globals}
        for s in self.statements:
            for function, names in s.passed:  # `fill(table)` may change the table, and `test(backward)` no function
                s.changes |= globals.get(function, set())
                s.changes |= names - made if function in made and function not in imported else set()
            s.changes -= imported
            for name in s.binds:
                self.binders.setdefault(name, []).append(s)
            for name in s.changes:
                self.changers.setdefault(name, []).append(s)
        self.calls, self.users = {}, {}  # id -> (statement, what it checks); name -> ids that it is checked for
        for s in self.statements:
            for id, expression in s.calls:
                self.calls.setdefault(id, []).append((s, expression))
                self.users.setdefault(expression.name, {}).setdefault(id, []).append(s.at)
        self.has_star = any(s.always and "*" in s.source for s in self.statements)
        self.learner = next((s.learner for s in reversed(self.statements) if s.learner), "")

    def find(self, want, wanted):
        """Where the answer to an exercise is: by its id, by metadata, or by its name; None if nowhere."""
        found = self._by_id(want, wanted)
        if found is None or found.rank == STUB:
            others = [self._by_metadata(want), self._by_name(want, wanted)]
            better = [other for other in others if other and (found is None or other.rank > found.rank)]
            found = better[0] if better else found
        return found

    def _by_id(self, want, wanted):
        found = None
        for call, expression in self.calls.get(want["id"], [])[: -MAX_CHECKS - 1 : -1]:
            chosen, rank = None, expression.rank
            if expression.name:
                chosen = self._definition(expression.name, want, wanted, call)
                if chosen:
                    rank = self._rank(chosen, expression.name)
                elif not self.has_star:
                    continue
            if found is None or rank > found.rank:
                found = _Find("id", rank, expression, chosen, call)
        return found

    def _by_metadata(self, want):
        its = [s for s in self.statements if want["id"] in self.cells[s.cell].ids]
        found = [s for s in its if want["answer"] in s.binds]
        if found:
            return self._found("metadata", self._best(found, want["answer"]), want["answer"])
        functions = [(s, name) for s in its for name in sorted(s.parameters)]
        if want["kind"] == "code" and len(functions) == 1:
            return self._found("metadata", *functions[0])
        return None

    def _by_name(self, want, wanted):
        name = want["answer"]
        found = self._definitions(name, want)
        several = sum(other["answer"] == name for other in wanted) > 1
        if several or (want["kind"] != "code" and self._is_shared(name, wanted)):
            found = [s for s in found if set(s.keys) & set(want["parts"])]
        return self._found("name", self._best(found, name), name) if found else None

    def guess(self, wanted, finds):
        """Fill in what is not found yet: functions and values that nobody claimed, between neighbours in the order."""
        order = [want["id"] for want in wanted]
        # a file that nothing else says of that it answers exercises may be anybody's
        known = any(finds.values()) or any("exercises" in s.mentions for s in self.statements)
        taken = {s.at for find in finds.values() if find for s in self._needed(find)}
        for id in set(self.calls) - set(order):  # what another exercise's check claims
            for call, expression in self.calls[id]:
                taken |= {s.at for s in self.statements if s.cell == call.cell}
                taken |= {s.at for s in self.binders.get(expression.name, ()) if expression.name in s.made}
        for want in wanted:
            if finds[want["id"]]:
                continue
            place = order.index(want["id"])
            before = [self._place(finds[id]) for id in order[:place] if finds[id]]
            after = [self._place(finds[id]) for id in order[place + 1 :] if finds[id]]
            low, high = max(before, default=-1), min(after, default=len(self.statements))
            free = [s for s in self.statements if s.at not in taken and not s.error and (low < s.at < high)]
            if want["kind"] == "code":
                its = [(s, name) for s in free for name in s.parameters if name in s.binds]
                exact = [(s, n) for s, n in its if s.parameters[n] == list(want["args"])]
                alike = [(s, n) for s, n in its if len(s.parameters[n]) == len(want["args"])]
                found = (exact or (alike if known else []))[-1:]
            else:
                its = [s for s in free if known and want["answer"] in s.binds - s.loops]
                found = [(self._best(its, want["answer"]), want["answer"])] if its else []
            if found:
                finds[want["id"]] = self._found("position", *found[0])
                taken |= {s.at for s in self._needed(finds[want["id"]])}

    def _found(self, way, chosen, name):
        expression = _Expression(name, name, FILLED, chosen.line, {name}, set(), set())
        return _Find(way, self._rank(chosen, name), expression, chosen, None)

    @staticmethod
    def _place(find):
        return (find.chosen or find.call).at

    def _is_shared(self, name, wanted):
        """Do several exercises call their answer so?"""
        return len({*self.users.get(name, ()), *(want["id"] for want in wanted if want["answer"] == name)}) > 1

    def _definitions(self, name, want):
        """The statements that may define this exercise's answer under this name."""
        found = self.binders.get(name, [])
        found = [s for s in found if name not in s.loops] or found
        if want["kind"] == "code":  # a function may be called `step`, and so may a number
            found = [s for s in found if not self._is_number(s)] or found
        shares = {s.at: len(set(s.keys) & set(want["parts"])) for s in found}
        most = max(shares.values(), default=0)
        return [s for s in found if shares[s.at] == most] if 2 * most > len(want["parts"]) else found

    @staticmethod
    def _is_number(statement):
        return bool(statement.value) and _literal(statement.value) not in (None, (...,))

    def _definition(self, name, want, wanted, call):
        """The statement that defines what a check was given: for a function the latest, for a value the nearest."""
        found, shared = self._definitions(name, want), self._is_shared(name, wanted)
        if not found:
            return None
        if want["kind"] == "code" and not shared:
            # after the check a name may well be used for something else
            early = [s for s in found if s.at <= call.at or (name in s.made and self._fits(s, name, want))]
            best = self._best(early, name)
            return best if best and self._rank(best, name) >= PARTIAL else self._best(found, name)
        if shared:
            others = [at for id, places in self.users[name].items() if id != want["id"] for at in places]
            low = max((at for at in others if at < call.at), default=-1)
            high = min((at for at in others if at > call.at), default=len(self.statements))
            found = [s for s in found if low < s.at < high] or found
        before, after = [s for s in found if s.at <= call.at][::-1], [s for s in found if s.at > call.at]
        near = [[s for s in group if s.cell == call.cell] for group in (before, after)]
        groups = [group for group in [near[0] + near[1], before, after] if group]
        if not shared:
            groups = [[s for group in groups for s in group]]
        return max(groups[0], key=lambda s: self._rank(s, name))

    @staticmethod
    def _fits(statement, name, want):
        """May this be called as the exercise will? A function of another number of parameters is a helper's."""
        return name not in statement.parameters or len(statement.parameters[name]) == len(want["args"])

    def _best(self, statements, name):
        """The latest of those that have come furthest."""
        return max(statements, key=lambda s: (self._rank(s, name), s.at), default=None)

    def _rank(self, statement, name):
        rank = statement.ranks.get(name, FILLED)
        return FILLED if rank in (STUB, PARTIAL) and self._changes(statement, name) else rank

    def _changes(self, statement, name):
        """The statements that change the object which `statement` binds to `name`, up to its next definition."""
        changers, binders = self.changers.get(name, []), self.binders[name]
        after = bisect.bisect_right(binders, statement.at, key=_order)
        end = next((s.at for s in binders[after:] if name not in s.loops), len(self.statements))
        first = bisect.bisect_right(changers, statement.at, key=_order)
        return changers[first : bisect.bisect_left(changers, end, key=_order)]

    # ---- the program ----

    def _needed(self, find):
        """The statements that an answer needs, in the document's order."""
        name, chosen = find.expression.name, find.chosen
        horizon = max(s.at for s in (chosen, find.call) if s)
        chosen_one = [chosen, *self._changes(chosen, name)] if chosen else []
        included, waiting, earlier = {}, [s for s in self.statements if s.always] + chosen_one, -1
        seen, names = {name} if chosen else set(), set(find.expression.uses)
        while waiting or names - seen:
            for one in sorted(names - seen):
                seen.add(one)
                waiting += self._those_of(one, horizon)
            while waiting:
                s = waiting.pop()
                if s.error or s.at in included:
                    continue
                included[s.at] = s
                names |= s.now | s.later
                if chosen and name in s.now and earlier < s.at <= chosen.at:  # as in `f = cache(f)`
                    earlier = s.at
                    waiting += [o for o in self._those_of(name, s.at) if o.at < s.at]
        return [included[at] for at in sorted(included)]

    def _those_of(self, name, horizon):
        """The statements that bind or change a name before the horizon; all of them if none binds it before."""
        binders, changers = self.binders.get(name, []), self.changers.get(name, [])
        written = [s for s in binders if s.ranks.get(name, FILLED) >= PARTIAL]
        binders = written or binders
        if any(s.at <= horizon for s in binders):
            binders, changers = ([s for s in some if s.at <= horizon] for some in (binders, changers))
        return [*binders, *changers]

    # ---- what is returned ----

    def result(self, want, find, fingerprint):
        """The dict that `read` gives for one exercise."""
        result = {"found": "", "where": "", "status": "missing", "line": "", "value": None}
        result |= {"program": [], "expression": "", "prints": [], "attributes": [], "mentions": [], "sketch": []}
        if find is None:
            called = [expression.name for _, expression in self.calls.get(want["id"], ()) if expression.name]
            said = f'There is no `check("{want["id"]}", …)` here, and no `{want["answer"]}`.'
            if called:
                said = f'In `check("{want["id"]}", {called[-1][:60]})`, nothing defines `{called[-1][:60]}`.'
            return result | {"line": said}
        expression, chosen = find.expression, find.chosen
        place, line = (find.call, expression.line) if find.call else (chosen, chosen.line)
        label = self.cells[place.cell].label
        result |= {"found": find.way, "where": f"line {line}" if label == _FILE else label}
        if chosen and chosen.error:
            where = _at(self.cells[chosen.cell].label, chosen.line)
            said = f"`{expression.name[:60]}` has a syntax error, in {where}: {chosen.error}."
            return result | {"status": "syntax", "line": said}
        needed = self._needed(find)
        result["program"] = [[self.cells[s.cell].label, s.line, s.source] for s in needed]
        result["expression"] = expression.source
        result["prints"] = self._prints(needed, expression, fingerprint)
        result["attributes"] = sorted(expression.attributes.union(*(s.attributes for s in needed)))[:MAX_ATTRIBUTES]
        result["mentions"] = sorted(expression.mentions.union(*(s.mentions for s in needed)))
        source = expression.source
        if chosen:
            source = "" if self._changes(chosen, expression.name) else chosen.value
        value = _literal(source)
        if value:
            return result | {"status": "literal", "value": value[0]}
        if find.rank == STUB:
            return result | {"status": "stub"}
        if want["kind"] == "code":
            sources = [*(s.source for s in needed), expression.source]
            result["sketch"] = sketch(set().union(*map(self._pieces_of, sources)))
        return result | {"status": "run"}

    def _pieces_of(self, source):
        """The pieces of a statement; it may be in the programs of several exercises."""
        if source not in self._pieces:
            self._left_to_sketch -= len(source)
            self._pieces[source] = pieces(source) if self._left_to_sketch >= 0 else set()
        return self._pieces[source]

    def _prints(self, needed, expression, fingerprint):
        prints = set()
        for s in needed:
            if s.at not in self._compiled:
                self._compiled[s.at] = {fingerprint(one) for one in _nested(s.code)}
            prints |= self._compiled[s.at]
        code = compile(expression.source, "cell", "eval", dont_inherit=True)
        return sorted(prints.union(fingerprint(one) for one in _nested(code)))


def _literal(source):
    """(value,) of a source that is a literal and short; else None."""
    if not source or len(source) > MAX_LITERAL:
        return None
    try:
        value = ast.literal_eval(f"({source}\n)")
        repr(value)  # a number of very many digits cannot be written
    except (*_BAD_CODE, TypeError):
        return None
    return (value,)


def _nested(code):
    """A code object and all that are written inside it."""
    waiting = [code]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]
