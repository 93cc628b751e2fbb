"""The roster: who is in the course, read from the files that platforms give out, and whose a file is."""

import csv
import difflib
import io
import re
import unicodedata
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath

from exercises.grade.run import Refusal

# Headers, without capitals and signs, that mean one thing; the first that is there is taken. They are those of
# - Canvas, a gradebook that was exported (instructure/canvas-lms, lib/gradebook_exporter.rb, `csv_data`): Student, or
#   LastName and FirstName; ID; SIS User ID; SIS Login ID; Section
# - Moodle, participants and grades (moodle/moodle, grade/import/tests/load_data_test.php): First name, Last name (once
#   Surname), ID number, Email address, Groups; a grading worksheet: Identifier, Full name, Email address; a list of
#   users to upload: username, firstname, lastname, email, idnumber
# - nbgrader (jupyter/nbgrader, nbgrader/api.py, `Student`): id, first_name, last_name, email, lms_user_id
# - Gradescope, a roster that was downloaded: First Name, Last Name, SID, Email, Role, Section
# - GitHub Classroom: identifier, github_username, github_id, name
_IDS = (
    *("sis user id", "sis id", "id number", "idnumber", "student id", "student number", "sid"),
    *("matriculation number", "matrikelnummer", "id nummer", "id"),
)
_EMAILS = ("email", "e mail", "email address", "e mail address", "e mail adresse", "emailadresse", "mail")
_IDENTIFIERS = ("identifier", "github username", "username", "login")  # where there is neither an id nor an e-mail
_NAMES = ("name", "full name", "student name", "display name", "vollständiger name")
_GIVEN = ("first name", "firstname", "given name", "vorname")
_FAMILY = ("last name", "lastname", "surname", "family name", "nachname")
_LOGINS = ("login", "sis login id", "login id", "username", "user name", "github username", "anmeldename")
_SECTIONS = ("section", "sections", "section name", "group", "groups", "group name", "gruppe", "gruppen")
_ROLES = ("role", "roles")
_STAFF = {"instructor", "teacher", "ta", "teaching assistant", "reader", "staff", "grader", "observer", "designer"}
_TEST_STUDENT = "Student, Test"  # whom Canvas has for the teacher's own view of a course
UTF8 = "save it as CSV UTF-8 (in Excel: Save As, CSV UTF-8)"
csv.field_size_limit(10_000_000)  # of a cell; all comments and notes on one learner are one


@dataclass(frozen=True)
class Learner:
    """A line of the roster.

    id : str, unique: a SIS user id, a matriculation number, or whatever the roster calls it
    name : str, as one would write it, "Given Family"
    email, login, section : str, "" where the roster has none
    more : dict, all columns of the roster as they came, by the header's own words
    """

    id: str
    name: str
    email: str = ""
    login: str = ""
    section: str = ""
    more: dict = field(default_factory=dict, hash=False)


# ---- tables that people and platforms write ----


def table(path):
    """(header, [(line number, [a cell for each column])]) of a CSV; lines without a word are left out.

    Its cells are parted by commas, semicolons or tabs, whichever part its first line most; a line `sep=;`, which Excel
    writes, says it. Refusal if it is no UTF-8, has no line, or a line has more cells than there are columns.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise Refusal(f"{path}: there is no such file") from None
    except UnicodeDecodeError:
        raise Refusal(f"{path}: this is not UTF-8; {UTF8}") from None
    if "\0" in text:
        raise Refusal(f"{path}: this is no text; {UTF8}")
    said = re.match(r"sep=(.)\r?\n", text, re.IGNORECASE)
    skipped, text = (1, text[said.end() :]) if said else (0, text)
    try:
        first = {sign: len(next(csv.reader(io.StringIO(text, newline=""), delimiter=sign), ())) for sign in ",;\t"}
        delimiter = said[1] if said else max(first, key=first.get)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        header = [cell.strip() for cell in next(reader, ())]
        rows = []
        for row in reader:
            line = reader.line_num + skipped
            if any(cell.strip() for cell in row[len(header) :]):
                what = f"there are {len(row)} cells, and the header has {len(header)}; put texts with commas in quotes"
                raise Refusal(f"{path}, line {line}: {what}")
            if any(cell.strip() for cell in row):
                cells = [unguarded(cell) for cell in row[: len(header)]]
                rows.append((line, cells + [""] * (len(header) - len(cells))))
    except csv.Error as error:
        raise Refusal(f"{path}: this is no CSV: {error}") from None
    if not any(header):
        raise Refusal(f"{path}: it is empty; its first line has to name the columns")
    return header, rows


# what a spreadsheet takes for the beginning of a formula, whatever spaces are before it:
# https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = re.compile(r"[\s']*[=+\-@＝＋－＠]")


def guarded(text):
    """A text that no spreadsheet takes for a formula: a `'` is before one that could be, and `unguarded` undoes it."""
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded(text):
    """What was guarded; any other text as it is."""
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text


def columns(header, needed, known, path):
    """{name: index} of the columns that are known by their names; Refusal if one that is needed is missing."""
    there = {_plain(title): at for at, title in reversed(list(enumerate(header)))}
    for name in needed:
        if name not in there:
            raise Refusal(f"{path}: there is no column {name}; there are {', '.join(filter(None, header))}")
    return {name: there[name] for name in (*needed, *known) if name in there}


def _plain(title):
    """A header without capitals and signs."""
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", title).casefold()))


# ---- the roster ----


def read(path):
    """The Learners of a roster, in its order.

    A CSV of one's own (`id,name,email,login,section`), or one that Canvas, Moodle, nbgrader, Gradescope or GitHub
    Classroom gave out. The id is the first column that could be one and is not empty throughout, by the order of
    `_IDS`; else the e-mail. Where Canvas wrote the file, its rows that are no learners are left out, and teachers
    where a column tells roles. Refusal if there is none, an id is missing or stands twice, or the file is no table.
    """
    header, rows = table(path)
    rows = [(line, [cell.strip() for cell in row]) for line, row in rows]
    titles = [_plain(title) for title in header]
    if "id" in titles and {"sis user id", "sis login id"} & set(titles):
        rows = [(line, row) for line, row in rows if _is_learner(titles, row)]
    role = _first(titles, _ROLES)
    if role is not None:
        rows = [(line, row) for line, row in rows if row[role].casefold() not in _STAFF]
    if not rows:
        raise Refusal(f"{path}: there is no learner in it")
    given, family, name = (_first(titles, words) for words in (_GIVEN, _FAMILY, _NAMES))
    sortable = _first(titles, ("student",)) if name is None else None
    email, login, section = (_first(titles, words, rows) for words in (_EMAILS, _LOGINS, _SECTIONS))
    key = _key(path, header, titles, rows)
    learners, lines = [], {}
    for line, row in rows:
        id = row[key]
        if id.casefold() in lines:
            raise Refusal(f"{path}: {header[key]} {id} stands in line {lines[id.casefold()]} and in line {line}")
        lines[id.casefold()] = line
        if sortable is not None:
            last, _, first = row[sortable].partition(",")  # "Family, Given"
            called = f"{first} {last}"
        elif name is not None:
            called = row[name]
        else:
            called = " ".join(row[at] for at in (given, family) if at is not None)
        called = " ".join(called.split()) or id
        address = row[email] if email is not None else ""
        learners.append(
            Learner(
                id,
                called,
                address or (id if "@" in id else ""),
                row[login] if login is not None else "",
                row[section] if section is not None else "",
                dict(zip(header, row)),
            )
        )
    return learners


def of(folder, file=None, needed=False):
    """The Learners of this file, or of the roster.csv in an assignment's folder or beside it.

    Without one None, or, where it is needed, a Refusal.
    """
    places = [Path(folder, "roster.csv"), Path(folder).resolve().parent / "roster.csv"]
    for found in [file] if file else places:
        if file or found.exists():
            return read(found)
    if needed:
        raise Refusal(f"there is no roster: put roster.csv beside the folder {folder}, or say --roster FILE")
    return None


def _first(titles, words, rows=()):
    """The index of the first of these columns that is there, and not empty throughout if there are rows."""
    for at in (titles.index(word) for word in words if word in titles):
        if not rows or any(row[at] for _, row in rows):
            return at
    return None


def _key(path, header, titles, rows):
    """The index of the column that is the id."""
    at = _first(titles, (*_IDS, *_EMAILS, *_IDENTIFIERS), rows)
    if at is None:
        there = ", ".join(filter(None, header))
        raise Refusal(f"{path}: no column is an id or an e-mail; there are {there}; expected is a header like id,name")
    for line, row in rows:
        if not row[at]:
            what = f"there is no {header[at]}, and it is the id of the others"
            raise Refusal(f"{path}, line {line}: {what}; fill it in, or delete the column where others tell them apart")
    return at


def _is_learner(titles, row):
    """Is this row of a Canvas gradebook a learner's? The first two may tell what is hidden, and the points possible."""
    cells = dict(zip(reversed(titles), reversed(row)))
    name = cells["student"] if "student" in cells else f"{cells.get('lastname')}, {cells.get('firstname')}"
    return bool(cells["id"]) and name != _TEST_STUDENT


# ---- whose is it ----

_LONGEST = 8  # words that a key may have


def _words(text):
    """Its letters and digits, without capitals, parted where there is anything else."""
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold())


_GERMAN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def _spellings(name):
    """The words of a name as it is, without accents, and as German does without them."""
    words = _words(name)
    bare = [c for c in unicodedata.normalize("NFKD", " ".join(words)) if not unicodedata.combining(c)]
    return {tuple(words), tuple("".join(bare).split()), tuple(word.translate(_GERMAN) for word in words)}


def _weight(words):
    """How many letters and digits these are; a Chinese, Japanese or Korean sign says as much as some three letters."""
    return sum(3 if ord(sign) > 0x2E7F else 1 for word in words for sign in word)


def _may_be_all(words):
    """May a whole name of a file or folder be this key? A number of a week, a group or a year may not."""
    return _weight(words) >= (5 if "".join(words).isdigit() else 3)


def _may_be_part(words):
    """May the beginning or the end of a name be this key?"""
    if "".join(words).isdigit():
        return len(words) == 1 and _weight(words) >= 5
    return _weight(words) >= (4 if len(words) > 1 else 6)


class Finder:
    """Whose a file is, by its path or by a text, for a roster of any size.

    What stands for a learner: the id, the login, the e-mail and its part before the @, the name, in any order that
    keeps neighbours together ("Family Given"), and the name in one word ("familygiven"), as Canvas calls files. In
    names accents may be left out. Capitals do not matter, and signs and spaces only part words.

    In a path, a part between slashes has to be one of these, or begin or end with one; in the file's own name the
    ending is left out. The longest counts where one lies in another. All that fit, anywhere in the path, have to agree
    on one learner; otherwise it is nobody's, as a wrong owner is worse than none. For the same reason

    - a number of less than five digits fits no path: it is as likely a week, a group or an attempt
    - other texts of less than three letters do not, and less than six have to be the whole of a part, unless they
      are several words
    - a single word fits nobody if it is a word of another's name: `mueller_ps3.ipynb` may be any Müller's

    What does not fit has to stand in submissions.csv.
    """

    def __init__(self, learners):
        self.learners = list(learners)
        self._keys = {}  # text: index of a learner, or a set of them
        self._exact = {}
        names, single = {}, set()
        for at, learner in enumerate(self.learners):
            keys = [_words(key) for key in (learner.id, learner.login, learner.email, learner.email.partition("@")[0])]
            for words in _spellings(learner.name):
                for word in words:
                    names[word] = at if names.get(word, at) == at else -1
                turns = [words[turn:] + words[:turn] for turn in range(len(words) if len(words) <= _LONGEST else 0)]
                keys += turns
                for turn in turns if len(words) > 1 else ():
                    _add(self._keys, "".join(turn), at)
            for key in keys:
                _add(self._keys, " ".join(key[:_LONGEST]), at)
                if len(key) == 1:
                    single.add(key[0])
            for key in {learner.id, learner.email} - {""}:
                _add(self._exact, key.casefold(), at)
        for word in single:
            if names.get(word, self._keys[word]) != self._keys[word]:
                self._keys[word] = {*_as_set(self._keys[word]), -1}
        self._keys.pop("", None)

    def by_key(self, text):
        """The Learner with this id or e-mail, or None if there is none, or more than one."""
        found = self._exact.get(text.strip().casefold())
        return self.learners[found] if isinstance(found, int) else None

    def wanted(self, text, where, astray):
        """The Learner with this id or e-mail; if there is none, None, and `astray` gets a line with who is near."""
        found = self.by_key(text)
        if found is None:
            if text.strip().casefold() in self._exact:
                astray.append(f"{where}: {text} is the e-mail of several learners in the roster; give the id")
                return None
            keys = {key: one.id for one in islice(self.learners, 7_000) for key in (one.id, one.email, one.name) if key}
            near = dict.fromkeys(keys[key] for key in difflib.get_close_matches(text, keys, n=3, cutoff=0.5))
            told = f"; did you mean {' or '.join(near)}?" if near else ""
            astray.append(f"{where}: the roster has no learner with the id or e-mail {text or '(it is empty)'}{told}")
        return found

    def by_name(self, text):
        """The Learner whom a text as a whole stands for, or None."""
        found = self._keys.get(" ".join(_words(text)), -1)
        return self.learners[found] if isinstance(found, int) and found >= 0 else None

    def by_path(self, path):
        """The Learner whose a file is by its relative path, or None."""
        return self.look(path)[0]

    def look(self, path):
        """(the Learner whose a file is by its relative path, or None; why it is nobody's, "" if nothing fits)."""
        fitting = []
        parts = PurePosixPath(path).parts
        for number, part in enumerate(parts):
            ending = PurePosixPath(part).suffix if number == len(parts) - 1 else ""
            fitting += self._fitting(_words(part), len(_words(ending)))
        if not fitting:
            return None, ""
        agreed = set.intersection(*(found for _, found in fitting))
        if len(agreed) == 1 and -1 not in agreed:
            return self.learners[agreed.pop()], ""
        everybody = sorted(set.union(*(found for _, found in fitting)) - {-1})
        names = [f"{self.learners[at].name} ({self.learners[at].id})" for at in everybody[:3]]
        names += ["others"] if len(everybody) > 3 or any(-1 in found for _, found in fitting) else []
        return None, f"its path fits {' and '.join(names)}"

    def _fitting(self, words, ending):
        """[(key, the set of learners)] of what one part of a path may stand for."""
        ends = {len(words), len(words) - ending} - {0}
        spans = {(0, stop) for stop in range(1, min(len(words), _LONGEST) + 1)}
        spans |= {(start, end) for end in ends for start in range(max(0, end - _LONGEST), end)}
        found = {}
        for start, stop in spans:
            key = words[start:stop]
            whole = start == 0 and stop in ends
            if (_may_be_all(key) if whole else _may_be_part(key)) and " ".join(key) in self._keys:
                found[start, stop] = _as_set(self._keys[" ".join(key)])
        longest = [s for s in found if not any(o != s and o[0] <= s[0] and s[1] <= o[1] for o in found)]
        return [(span, found[span]) for span in longest]


def _as_set(value):
    return {value} if isinstance(value, int) else value


def _add(keys, key, at):
    """Let a key stand for a learner, too."""
    before = keys.get(key, at)
    keys[key] = at if before == at else {*_as_set(before), at}
