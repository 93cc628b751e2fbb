"""What the platforms' downloads look like: who handed in which file, and when."""

import contextlib
import email
import email.policy
import email.utils
import functools
import mailbox
import os
import re
import resource
import subprocess
import tempfile
import unicodedata
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from exercises.grade import run
from exercises.grade.platforms.files import Bad
from exercises.grade.run import Refusal


@dataclass(frozen=True)
class Handed:
    """A file that was handed in.

    name : str, what it is called below the folder of its attempt
    read : function without arguments that returns its bytes, or raises Bad
    clues : tuple of (kind, text) that say whose it is, the surest first (`people.People.owner`)
    label : str, what to call its folder if it is nobody's in the roster
    received : datetime with its zone, or None; late : bool, whether the platform calls it late
    where : str, its path in the download
    """

    name: str
    read: object
    clues: tuple
    label: str
    received: datetime | None
    where: str
    late: bool = False


@dataclass(frozen=True)
class Wanted:
    """What else is to be known.

    title : of the assignment; item : what the platform calls it, or ""; say : takes a line for the instructor
    numbered : whether Moodle's numbers are known, by the worksheet that belongs to the download
    """

    title: str = ""
    item: str = ""
    say: object = print
    numbered: bool = False


def kind_of(source):
    """The name of the platform that a download seems to be from, one of KINDS."""
    return next(kind for kind, (looks_like, _) in KINDS.items() if looks_like(source))


def _depth(source):
    """How many folders lie around all that is in a source."""
    return len(os.path.commonprefix([entry.parts[:-1] for entry in source.entries]))


def _most(source, fits):
    """Is there an entry that fits in most of what lies at the top? What one learner handed in is not to decide."""
    depth = _depth(source)
    fitting = {entry.parts[depth] for entry in source.entries if fits(entry)}
    return 2 * len(fitting) > len({entry.parts[depth] for entry in source.entries})


def handed_in(source, kind, wanted):
    """Yield a Handed for each file of a download of this kind."""
    return KINDS[kind][1](source, wanted)


# ---- Canvas ----

# instructure/canvas-lms, lib/content_zipper.rb, get_filename and add_upload_submission: the sortable name in small
# letters and without signs, LATE, the person's number, the file's number, the file's own name; `anon_…` where marking
# is anonymous. add_text_or_url: …_text.html and …_link.html. A file that stands in it twice has -1 at its end.
_CANVAS = re.compile(
    r"(?:(?P<name>\w*?)_)?(?P<late>LATE_)?(?P<id>\d+|anon_\w+?)_(?P<file>\d+_.+|(?:text|link)\.html)", re.DOTALL
)


def _is_canvas(source):
    names = [entry.parts[-1] for entry in source.entries]
    return 2 * sum(bool(_CANVAS.fullmatch(name)) for name in names) > len(names)


def _canvas(source, wanted):
    for entry in source.entries:
        found = _CANVAS.fullmatch(entry.parts[-1])
        if not found:
            yield _by_path(source, entry, None)
            continue
        clues = [("canvas", found["id"])] + ([("name", found["name"])] if found["name"] else [])
        name = re.sub(r"^\d+_", "", found["file"])
        label = "-".join(filter(None, (found["name"], found["id"])))
        late = bool(found["late"])
        yield Handed(name, partial(source.read, entry), tuple(clues), label, None, entry.path, late)


# ---- Moodle ----

# moodle/moodle, mod/assign/classes/downloader.php, get_student_prefix and load_submissionplugin_filelist: the full name
# with spaces for its underscores, the participant's number, assignsubmission_ and the plugin; then a folder, or, by a
# setting of the teacher's, an underscore and the file's name.
_MOODLE = re.compile(r"(?P<name>[^_]*)_(?P<id>\d+)_assignsubmission_(?P<plugin>[a-z]+)_?(?P<file>.*)")


def _moodle_part(entry):
    return next(((at, m) for at, part in enumerate(entry.parts) if (m := _MOODLE.fullmatch(part))), (None, None))


def _is_moodle(source):
    return _most(source, lambda entry: _moodle_part(entry)[1])


def _moodle(source, wanted):
    parts = [_moodle_part(entry) for entry in source.entries]
    people = {(found["name"], found["id"]) for _, found in parts if found}
    # a participant has another number in each assignment, so it is used only where it stands for the name
    blind = len({name for name, _ in people}) == 1 and (len(people) > 1 or min(people)[0] == "Participant")
    numbers = Counter(_bare(name) for name, _ in people)
    several = {name for name, _ in people if numbers[_bare(name)] > 1 and not blind}
    for name in () if wanted.numbered else sorted(several):  # one of them may have taken the other's name
        told = "so their files are nobody's; --times with the grading worksheet tells them apart"
        wanted.say(f"LOOK: several people in Moodle are called {name}, {told}")
    for entry, (at, found) in zip(source.entries, parts):
        if not found:
            yield _by_path(source, entry, None)
            continue
        name = "/".join([*([found["file"]] if found["file"] else []), *entry.parts[at + 1 :]])
        clues = (("participant", found["id"]) if blind else ("name", found["name"]),)
        clues = () if found["name"] in several else clues
        clues += (("worksheet", found["id"]),) if wanted.numbered else ()
        yield Handed(name, partial(source.read, entry), clues, f"{found['name']}-{found['id']}", None, entry.path)


def _bare(name):
    """The words of a name in any order, without capitals and accents."""
    text = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return frozenset(re.findall(r"\w+", text.casefold()))


# ---- Gradescope ----

_GRADESCOPE = "submission_metadata.yml"
_KEPT = (":submitters", ":created_at")


def _metadata(source):
    """The entry that says whose each submission is, or None; deeper down it is a learner's own file."""
    depth = _depth(source)
    return next((one for one in source.entries if one.parts[depth:] == [_GRADESCOPE]), None)


def _is_gradescope(source):
    depth, name = _depth(source), re.compile(rf"submission_\d+|{re.escape(_GRADESCOPE)}")
    return _metadata(source) is not None and _most(source, lambda entry: name.fullmatch(entry.parts[depth]))


def _gradescope(source, wanted):
    """Gradescope's *Export Submissions*: folders named by submissions, and a file that says whose each is.

    The file is YAML as Ruby writes it, `submission_1: {":submitters": [{":name", ":sid", ":email"}], ":created_at"}`.
    What a group handed in is handed in by each of its members.
    """
    about = _metadata(source)
    if about is None:
        raise Refusal(f"there is no {_GRADESCOPE} in it; give what *Export Submissions* gave out")
    try:
        known = _submissions(source.read(about))
    except Bad as bad:
        raise Refusal(f"{_GRADESCOPE} {bad}; export once more") from None
    for entry in source.entries:
        if entry is about:
            continue
        below = entry.parts[len(about.parts) - 1 :]
        one = known.get(below[0])
        if one is None:
            yield _by_path(source, entry, None)
            continue
        name = "/".join(below[1:]) or below[0]
        people = [person for person in one.get(":submitters") or () if isinstance(person, dict)] or [{}]
        for person in people:
            told = [("key", person.get(":sid")), ("key", person.get(":email")), ("name", person.get(":name"))]
            clues = tuple((kind, str(text)) for kind, text in told if text)
            label = str(person.get(":sid") or person.get(":email") or below[0])
            yield Handed(name, partial(source.read, entry), clues, label, _aware(one.get(":created_at")), entry.path)


def _submissions(data):
    """{submission: what is said of it, of _KEPT alone}, read as a stream: all results of all tests are in it, too."""
    try:
        import yaml
    except ImportError:
        raise Refusal("an export of Gradescope is read with PyYAML: pip install pyyaml") from None
    found = {}
    try:
        events = iter(yaml.parse(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        first = [next(events), next(events), next(events)]  # of the stream, of the document, of its content
        if not isinstance(first[-1], yaml.MappingStartEvent):
            raise Refusal(f"{_GRADESCOPE} holds no submissions; export once more")
        for name, event in _pairs(events):
            found[name] = {}
            if not isinstance(event, yaml.MappingStartEvent):
                _pass_over(events, event)
                continue
            for key, below in _pairs(events):
                if key in _KEPT:
                    found[name][key] = _value(events, below)
                else:
                    _pass_over(events, below)
    except (yaml.YAMLError, StopIteration, ValueError, RecursionError) as error:
        raise Refusal(f"{_GRADESCOPE} cannot be read: {' '.join(str(error).split())}; export once more") from None
    return found


def _pairs(events):
    """Yield (a key, the first event of its value) until a mapping ends."""
    for event in events:
        if type(event).__name__ == "MappingEndEvent":
            return
        yield str(_value(events, event)), next(events)


def _value(events, event):
    """What begins with this event, made of texts alone; a tag does not matter, a reference to an earlier part is ""."""
    kind = type(event).__name__
    if kind == "SequenceStartEvent":
        items = []
        while type(item := next(events)).__name__ != "SequenceEndEvent":
            items.append(_value(events, item))
        return items
    if kind == "MappingStartEvent":
        return {key: _value(events, below) for key, below in _pairs(events)}
    return getattr(event, "value", "")


def _pass_over(events, event):
    """Go to the end of what begins with this event."""
    depth = 0
    while depth := depth + _step(event):
        event = next(events)


def _step(event):
    kind = type(event).__name__
    return kind.endswith("StartEvent") - kind.endswith("EndEvent")


def _aware(value):
    """The time in a text of Ruby's, `2027-03-05 17:34:00.861687000 Z`, or in an object of it; None if there is none."""
    text = value.get("utc") if isinstance(value, dict) else value  # ActiveSupport::TimeWithZone
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?", str(text).strip())
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or 'Z'}") if found else None
    except ValueError:
        return None


# ---- nbgrader ----

# jupyter/nbgrader, nbgrader/exchange/default/submit.py, init_dest: inbound/<student>+<assignment>+<time>+<random>;
# coursedir.py: submitted/<student>/<assignment>/, and in it timestamp.txt, as exchange.py, set_timestamp, writes it.
_INBOUND = re.compile(
    r"(?P<student>.+)\+(?P<item>[^+]+)\+(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? ?[^+]*)(?:\+[^+]+)?"
)
_NBGRADERS_OWN = {"timestamp.txt", "submission_secret.txt"}


def _submitted(entry, depth):
    """(student, assignment, time or None, what is below) of a path in nbgrader's folders, or None.

    What is deeper than nbgrader's own folders, at `depth`, is the learner's, who may call it like them.
    """
    names, at = entry.parts, 0
    for number, name in enumerate(names[: min(depth + 2, len(names) - 1)]):
        if found := _INBOUND.fullmatch(name):
            return found["student"], found["item"], found["time"], names[number + 1 :]
        if name == "submitted" and number <= depth:
            at = number + 1
            break
    return (names[at], names[at + 1], None, names[at + 2 :]) if len(names) > at + 2 else None


def _is_in(entry, folders, depth):
    return bool(folders & {*entry.parts[:-1][: depth + 1]})


def _is_nbgrader(source):
    depth = _depth(source)

    def fits(entry):
        found = _submitted(entry, depth)
        return found and (found[2] or found[3] == ["timestamp.txt"])

    whole = any(_is_in(entry, {"submitted", "inbound"}, depth) for entry in source.entries)
    return whole and any(_submitted(entry, depth) for entry in source.entries) or _most(source, fits)


def _nbgrader(source, wanted):
    depth = _depth(source)
    found = [(entry, _submitted(entry, depth)) for entry in source.entries]
    if any(_is_in(entry, {"submitted"}, depth) for entry in source.entries):  # a course has other folders beside it
        found = [one for one in found if _is_in(one[0], {"submitted"}, depth) or one[1] and one[1][2]]
    item = _item({told[1] for _, told in found if told}, wanted)
    times = {}
    for entry, told in found:
        if told and told[1] == item and told[3] == ["timestamp.txt"]:
            with contextlib.suppress(Bad):
                times[told[0], told[2]] = _time(source.read(entry)[:200].decode("utf-8", "replace"))
    for entry, told in found:
        if told is None:
            yield _by_path(source, entry, None)
        elif told[1] == item and told[3][-1] not in _NBGRADERS_OWN:
            student, _, time, below = told
            received = times.get((student, time)) or (_time(time) if time else None)
            clues = (("key", student), ("name", student))
            yield Handed("/".join(below), partial(source.read, entry), clues, student, received, entry.path)


def _item(items, wanted):
    """The one of nbgrader's assignments that is meant."""
    if len(items) <= 1 and not wanted.item:
        return next(iter(items), "")
    if not items:
        raise Refusal("there is no folder of nbgrader in it; leave --item out, or give submitted/ or the exchange")
    asked = wanted.item or wanted.title
    found = [item for item in items if _plain(item) == _plain(asked)]
    if len(found) != 1:
        there = ", ".join(sorted(items))
        raise Refusal(f"nbgrader: no assignment of these is {asked}: {there}; say which: --item {min(items)}")
    return found[0]


def _plain(text):
    return re.sub(r"[\W_]+", "", text.casefold())


def _time(text):
    """The time that nbgrader writes, `%Y-%m-%d %H:%M:%S.%f %Z`; None if its zone has a name that nobody knows."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\s*(.*)", text.strip())
    if not found:
        return None
    try:
        time, zone = datetime.fromisoformat(found[1]), found[2]
        if re.fullmatch(r"[+-]\d\d:?\d\d", zone):
            return datetime.fromisoformat(found[1] + zone)
        # without a zone it is UTC: nbgrader/utils.py, parse_utc
        return time.replace(tzinfo=ZoneInfo(zone) if zone not in ("", "Z", "UTC") else UTC)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        return None


# ---- GitHub ----

GIT_SECONDS = 20


def _checkout(source, entry):
    """The relative path of the checkout that a file is in, or None; what is inside of one is the learner's."""
    above = ("/".join(entry.parts[:depth]) for depth in range(1, len(entry.parts)))
    return next((folder for folder in above if folder in source.repositories), None)


def _is_github(source):
    return bool(source.repositories) and _most(source, lambda entry: _checkout(source, entry))


def _github(source, wanted):
    """Checkouts, one a learner, in a folder: `gh classroom clone student-repos`, or by hand.

    Source: github/gh-classroom, cmd/gh-classroom/clone/student-repos/student-repos.go: <assignment>-submissions/, and
    in it each repository by its name, <assignment>-<user>. Git has the time of a commit from whoever made it.
    """
    committed = functools.cache(_committed)
    names = [place.rpartition("/")[2] for place in source.repositories]
    beginnings = Counter(name[: hyphen.end()] for name in names for hyphen in re.finditer("-", name))
    for entry in source.entries:
        place = _checkout(source, entry)
        if place is None:
            yield _by_path(source, entry, entry.time)
            continue
        repository = place.rpartition("/")[2]
        name = entry.path[len(place) + 1 :]
        # a user may be called x-learner-017: what is before a user's name is what others have there, too
        shared = max((b for b, n in beginnings.items() if repository.startswith(b) and 2 * n >= len(names)), default="")
        clues = (("repository", f"{shared}/{repository[len(shared) :]}"),)
        yield Handed(name, partial(source.read, entry), clues, repository, committed(source.path / place), entry.path)


def _committed(folder):
    """When the last commit of a checkout was made, or None.

    `cat-file` runs no hook, no pager and no program that the checkout's own settings name, and nothing is fetched.
    """
    quiet = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_LAZY_FETCH": "1"}
    quiet |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    small = ["-c", "core.packedGitWindowSize=32m"]  # by default it maps 1 GiB
    command = ["git", *small, f"--git-dir={folder / '.git'}", "cat-file", "commit", "HEAD"]
    how = {"env": {"PATH": os.environ.get("PATH", os.defpath)} | quiet, "stderr": subprocess.DEVNULL}
    try:
        with tempfile.TemporaryFile() as file:
            subprocess.run(command, **how, stdout=file, timeout=GIT_SECONDS, check=True, preexec_fn=_bound)
            file.seek(0)
            said = file.read()
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(rb"^committer .*> (\d{1,12}) ([+-])(\d\d)(\d\d)$", said.partition(b"\n\n")[0], re.MULTILINE)
    if not found:
        return None
    away = timedelta(hours=int(found[3]), minutes=int(found[4])) * (-1 if found[2] == b"-" else 1)
    try:
        return datetime.fromtimestamp(int(found[1]), timezone(away))
    except (ValueError, OverflowError, OSError):
        return None


def _bound():
    """Bound what git may use: a commit may be of any size, and a file in a checkout a link to what has no end."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


# ---- e-mail ----

LONGEST_HEADER = 5_000  # characters


class Mailbox:
    """A file of messages as a source: `mbox`, as mail programs export a folder, or one saved message."""

    archive, repositories = True, ()

    def __init__(self, path):
        self.path, self.entries = path, []

    def messages(self):
        """Yield (where, a function that returns the bytes of a message)."""
        if self.path.suffix.lower() == ".eml":
            yield self.path.name, self.path.read_bytes
            return
        box = mailbox.mbox(self.path, create=False)
        try:
            for key in box.iterkeys():
                yield f"message {key + 1}", partial(box.get_bytes, key)
        finally:
            box.close()

    def close(self):
        """Nothing is open."""


def _is_mail(source):
    endings = [entry.parts[-1].rpartition(".")[2].lower() for entry in source.entries]
    return isinstance(source, Mailbox) or 2 * endings.count("eml") > len(endings)


def _mail(source, wanted):
    """Saved messages: the attachments are handed in by whoever the message is from.

    The time is that at which the own mail server took it (the first `Received`), else the sender's `Date`.
    """
    if isinstance(source, Mailbox):
        messages = source.messages()
    else:
        for entry in source.entries:
            if not entry.path.lower().endswith(".eml"):
                yield _by_path(source, entry, entry.time)
        saved = (entry for entry in source.entries if entry.path.lower().endswith(".eml"))
        messages = ((entry.path, partial(source.read, entry)) for entry in saved)
    for where, read in messages:
        try:
            message = _parsed(read())
            sender = email.utils.parseaddr(str(message["From"] or ""))[1]
            time, attached = _sent(message), list(_attachments(message))
        except Bad as error:
            wanted.say(f"LOOK: {where} {error}")
            continue
        except Exception as error:  # the parser stumbles over headers that were made to that end
            wanted.say(f"LOOK: {where} cannot be read as a message ({type(error).__name__})")
            continue
        if not attached:
            wanted.say(f"LOOK: {where}, from {run.printable(sender)[:100] or 'nobody'}, has no attachment")
        for name, content in attached:
            label = run.printable(sender) or "nobody"
            yield Handed(name, lambda content=content: content, (("key", sender),), label, time, f"{where}: {name}")


def _parsed(data):
    """The message; Bad if a header of it would take the parser minutes, as its time grows with the square."""
    for part in email.message_from_bytes(data).walk():  # by the old policy, which leaves headers as they are
        for name, value in part.raw_items():
            if name.lower().startswith(("from", "date", "received", "content-")) and len(value) > LONGEST_HEADER:
                raise Bad(f"has a header of more than {LONGEST_HEADER} characters")
    return email.message_from_bytes(data, policy=email.policy.default)


def _sent(message):
    received = [str(text).rpartition(";")[2] for text in message.get_all("Received", [])[:1]]
    for text in [*received, str(message["Date"] or "")]:
        try:
            time = email.utils.parsedate_to_datetime(text.strip())
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    return None


def _attachments(message):
    for part in message.walk():
        content = None if part.is_multipart() else part.get_payload(decode=True)
        name = part.get_filename()
        if content is not None and (name or part.get_content_disposition() == "attachment"):
            yield run.printable(str(name or "attachment")), content


# ---- any folder ----


def _plain_folder(source, wanted):
    """Any folder or archive: the path says whose a file is, and its own time when it came."""
    for entry in source.entries:
        yield _by_path(source, entry, entry.time)


def _by_path(source, entry, time):
    label = entry.parts[0] if len(entry.parts) > 1 else entry.parts[0].rpartition(".")[0] or entry.parts[0]
    return Handed(entry.parts[-1], partial(source.read, entry), (("path", entry.path),), label, time, entry.path)


KINDS = {
    "gradescope": (_is_gradescope, _gradescope),
    "moodle": (_is_moodle, _moodle),
    "github": (_is_github, _github),
    "nbgrader": (_is_nbgrader, _nbgrader),
    "mail": (_is_mail, _mail),
    "canvas": (_is_canvas, _canvas),
    "folder": (lambda source: True, _plain_folder),
}
TIMELESS = ("canvas", "moodle")  # whose downloads do not tell when a file came
