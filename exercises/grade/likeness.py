"""Finds submissions that have more in common than chance gives, for a person to look at; it is never a verdict.

What is compared are the sketches of the answers' programs (`inside/sketch.py`). As in MOSS (Schleimer, Wilkerson and
Aiken, "Winnowing", SIGMOD 2003), what many hand in says nothing: it stands in the stub, in the chapter, or is how one
writes it. Neither does what this course's own files hold: a right answer is often written as theirs is.
"""

import functools
import importlib
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import scratch
from exercises.grade.inside.sketch import BITS, pieces

COMMON = 2  # what more than half of the class has is the stub, or how everybody writes it; of three, what two have
MANY = 300  # and what more than so many have is no sign, as the work grows with it
LEAST = 15  # pieces that two have in common: some ten statements
SHARE = 0.6  # of the pieces of the one who has fewer, a rare one counting more
MOST_PAIRS = 100_000  # if there are more, only those of owners who are in none yet are looked for
LARGEST_GROUP = 200  # owners in one group that are named
_OWNERS = 64 - BITS


@dataclass(frozen=True)
class Group:
    """Submissions that are alike.

    Attributes
    ----------
    members : tuple of str, in the order in which they came; at most LARGEST_GROUP of them
    size : int, how many there are
    identical : bool, whether the files are the same, byte for byte
    share : float, the largest share of rare pieces that two of them have in common, and common : int, how many
    """

    members: tuple[str, ...]
    size: int
    identical: bool
    share: float = 1.0
    common: int = 0


class Likeness:
    """The sketches of a class: eight bytes for each piece.

    Parameters
    ----------
    ids : the exercises; what their files show is not counted
    """

    def __init__(self, ids=()):
        self._shown = np.array(sorted(shown(tuple(ids))), dtype=np.uint64)
        self._owners, self._files, self._same = {}, {}, {}
        self._entries = array("Q")

    def add(self, result, owner):
        """Take in a result of `submission.grade`. Files of one owner, a str, are not compared with each other."""
        if result["status"] == "unreadable":
            return
        at = self._owners.setdefault(owner, len(self._owners))
        first = self._files.setdefault(result["digest"][:16], at)
        if first != at:
            self._same.setdefault(first, {first: None})[at] = None
        numbers = {number for part in result["exercises"].values() for number in part.get("sketch", ())}
        self._entries.extend(number << _OWNERS | at for number in numbers)

    def groups(self):
        """The Groups, identical files first, then the largest share first."""
        owners = list(self._owners)
        same = [tuple(its) for its in self._same.values()]
        found = [Group(_named(its, owners), len(its), True) for its in same]
        one_file = {at: its[0] for its in same for at in its}
        pairs = [pair for pair in self.pairs() if one_file.get(pair[0], pair[0]) != one_file.get(pair[1], pair[1])]
        for members, (_, _, share, common) in _gathered(pairs).values():  # the closest come first
            found.append(Group(_named(sorted(members), owners), len(members), False, share, common))
        return found

    def pairs(self):
        """(first, second, share, common) of all that are alike, as places in the order in which they came."""
        whole, owners, lengths, weights = self._counted()
        ends, begins = np.cumsum(lengths), np.cumsum(lengths) - lengths
        piece = np.repeat(np.arange(len(lengths)), lengths)[np.argsort(owners, kind="stable")]  # of each owner in turn
        own = np.r_[0, np.cumsum(np.bincount(owners, minlength=len(whole)))]
        found, seen = [], np.zeros(len(whole), bool)
        for at in np.flatnonzero(np.diff(own) >= LEAST):
            if seen[at] and len(found) > MOST_PAIRS:
                continue
            its = piece[own[at] : own[at + 1]]
            others = owners[_ranges(begins[its], ends[its])]
            common = np.bincount(others, minlength=len(whole))
            common[: at + 1] = 0
            near = np.flatnonzero(common >= LEAST)
            if len(near):
                weight = np.bincount(others, np.repeat(weights[its], lengths[its]))[near]
                share = weight / np.minimum(whole[at], whole[near])
                high = share >= SHARE
                columns = near[high], share[high], common[near[high]]
                seen[near[high]] = True
                found += [(int(at), *row) for row in zip(*(column.tolist() for column in columns))]
        return found

    def _counted(self):
        """What is compared.

        Returns
        -------
        whole : float array, the weight of all pieces of each owner
        owners : int array, those of a piece that several have, one piece after the other; lengths : how many each has
        weights : float array, of each of these pieces
        """
        entries = np.frombuffer(self._entries, np.uint64)
        entries.sort()
        count = len(self._owners)
        whole, owners, lengths = np.zeros(count), [], []
        # in portions, so that all that is made on the way is small
        cuts = np.searchsorted(entries, np.arange(1, 64, dtype=np.uint64) << np.uint64(58))
        for portion in np.split(entries, cuts):
            portion = np.unique(portion)
            _, index, length = np.unique(portion >> np.uint64(_OWNERS), return_index=True, return_counts=True)
            own = (length <= count / COMMON) & ~np.isin(portion[index] >> np.uint64(_OWNERS), self._shown)
            shared = own & (length > 1) & (length <= MANY)
            owner = (portion & np.uint64((1 << _OWNERS) - 1)).astype(np.int32)
            weight = np.where(own, np.log2(count / length), 0)
            whole += np.bincount(owner, np.repeat(weight, length), minlength=count)
            owners.append(owner[np.repeat(shared, length)])
            lengths.append(length[shared])
        lengths = np.concatenate(lengths)
        return whole, np.concatenate(owners), lengths, np.log2(count / lengths)


@functools.lru_cache(maxsize=8)
def shown(ids):
    """The pieces that everybody may have seen: those of `scratch` and of the exercises' files."""
    files = [Path(importlib.import_module(f"exercises.{id.replace('-', '_')}").__file__) for id in ids]
    files += Path(scratch.__file__).parent.rglob("*.py")
    return frozenset().union(*(pieces(file.read_text(encoding="utf-8")) for file in files))


def _ranges(begins, ends):
    """The whole numbers of several ranges, one after the other."""
    lengths = ends - begins
    return np.arange(lengths.sum()) + np.repeat(begins - (np.cumsum(lengths) - lengths), lengths)


def _named(members, owners):
    return tuple(owners[at] for at in members[:LARGEST_GROUP])


def _gathered(pairs):
    """{first: (members, its closest pair)}: those who are all alike, each with whom it has most in common."""
    alike = {pair[:2] for pair in pairs}
    groups, group_of = {}, {}
    for pair in sorted(pairs, key=lambda pair: (-pair[2], -pair[3], pair)):
        first, second = pair[:2]
        if first in group_of and second in group_of:
            continue
        group = group_of.get(first, group_of.get(second))
        if group is None:
            group = first
            groups[group] = ([], pair)
        members = groups[group][0]
        new = [at for at in pair[:2] if at not in group_of]
        if all((min(at, other), max(at, other)) in alike for at in new for other in members):
            members += new
            group_of |= dict.fromkeys(new, group)
    return groups
