"""Whom of the roster a platform means: by its numbers, by ids, addresses and names."""

import re
import unicodedata

from exercises.grade import roster


class People:
    """Finds learners by what a platform tells of them, a text of one of these kinds.

    id, email, login : as the roster has them; a login may be the e-mail. key : any of the three
    name : if only one has it
    repository : <assignment>-/<user>, of a column github_username, or of login or id; what is before the sign may have
        some of the user, too
    canvas : Canvas's number of a person, if the roster is a gradebook of Canvas
    participant : Moodle's number of one in one assignment, if the roster is a grading worksheet
    worksheet : the same number, of the worksheet that belongs to the download (`add`)

    Attributes
    ----------
    kinds : those of which the roster has any
    """

    def __init__(self, learners):
        self._finder, self._known = roster.Finder(learners), {}
        self.kinds = set()
        for learner in self._finder.learners:
            more = learner.more
            self.add("id", learner.id, learner)
            self.add("email", learner.email, learner)
            for login in (learner.login, learner.email):
                self.add("login", login, learner)
            for user in (more.get("github_username", ""), learner.login, learner.id):
                self.add("repository", user, learner)
            self.add("canvas", more.get("ID", "") if "Student" in more else "", learner)
            self.add("participant", more.get("Identifier", ""), learner)

    def add(self, kind, text, learner):
        """Let a text of this kind stand for a learner, if it does not stand for another one."""
        key = _key(kind, text)
        if not key[1]:
            return
        self.kinds.add(kind)
        if self._known.setdefault(key, learner) is not learner:
            self._known[key] = None  # of two people it says nothing

    def find(self, kind, text):
        """The Learner whom a text of this kind stands for, or None."""
        if kind == "name":
            return self._finder.by_name(text)
        if kind == "key":
            return self._finder.by_key(text) or self.find("login", text)
        if kind == "repository":  # both parts of it may have hyphens
            shared, _, rest = text.partition("/")
            starts = [0, *(hyphen.end() for hyphen in re.finditer("-", shared))]
            ends = (_key(kind, (shared + rest)[at:]) for at in starts)
            return next((self._known[end] for end in ends if end in self._known), None)
        return self._known.get(_key(kind, text))

    def owner(self, clues):
        """(the Learner or None, why it is nobody's, "" if nothing fits) of (kind, text) that tell whose a file is.

        A kind may be path, too, that of the file (`roster.Finder`). A name counts only where no number or e-mail is
        told of a kind that the roster has: others may have that name.
        """
        found, why = {}, ""
        kinds = {"email" if kind == "key" and "@" in text else kind for kind, text in clues}
        told = kinds & self.kinds & {"canvas", "email", "worksheet"}
        for kind, text in clues:
            learner, why = self._finder.look(text) if kind == "path" else (self.find(kind, text), why)
            if kind == "name" and learner is not None and told and not found:
                learner, why = None, f"{text} is a name of the roster's, and the number or e-mail with it is not"
            if learner is not None:
                found.setdefault(learner.id, learner)
        if len(found) > 1:
            return None, f"the platform's number, name or e-mail are those of {' and '.join(found)}"
        return next(iter(found.values()), None), why


def same(text):
    """What texts have in common that people take for the same, but for capitals and spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _key(kind, text):
    return kind, re.sub(r"\D", "", text) if kind in ("participant", "worksheet") else same(text)
