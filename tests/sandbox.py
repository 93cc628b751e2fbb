"""Which ways of isolation this machine allows, for the tests that need one: the others are skipped, loudly in CI."""

import functools

import pytest

from exercises.grade import boxes, run


@functools.cache
def why_not(way):
    """Why learners' code cannot be held in this way here; "" if it can."""
    with run.prepared("none", boxes.Limits()) as (_, room, filter_, _), boxes.free_uids() as uid:
        found, why = boxes.choose(way, room, boxes.Limits(), filter_, uid)
    if not filter_:
        return "libseccomp is not installed (Debian: apt install libseccomp2)"
    return "" if found else " ".join(why)


def need(way):
    """Skip a test that needs this way, where it is not possible."""
    if reason := why_not(way):
        pytest.skip(f"NO SANDBOX {way}:{reason}. {boxes.REMEDY}")
