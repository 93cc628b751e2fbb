"""Says what isolation this machine allows, by trying: a program in each kind of box attempts what it must not do."""

import argparse
import os
import socket
import sys

from exercises.grade import boxes, run
from exercises.grade.answer import Answer, Lost
from exercises.spec import Exercise

# Each line of it is true if something was possible that a box must prevent.
_PROBE = """
import os, socket

def tried(action):
    try:
        action()
        return True
    except BaseException:
        return False

def forked():
    if os.fork() == 0:
        os._exit(0)

def connected():
    socket.create_connection(("127.0.0.1", {port}), timeout=1)

found = {{
    "reach the network": tried(connected),
    "start a process": tried(forked),
    "signal its parent": tried(lambda: os.kill(os.getppid(), 0)),
    "read /etc/passwd": tried(lambda: open("/etc/passwd").read()),
    "read the home folder": tried(lambda: os.listdir({home!r})),
    "see processes in /proc": tried(lambda: os.listdir("/proc/1")),
    "write outside of /tmp": tried(lambda: open("/written", "w").write("x")),
    "be root": os.getuid() == 0,
}}
"""
_EXERCISE = Exercise(id="probe", title="", chapter="", answer="found", points=0, stars=0, minutes=0, hints=())


def probe(way, room, filter_, uid):
    """{what: whether it was possible} in a box of this way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        source = _PROBE.format(port=listener.getsockname()[1], home=os.path.expanduser("~"))
        found = {"program": [["cell 1", 1, source]], "expression": "found", "attributes": []}
        with boxes.Box("runner", way, room, boxes.Limits(), filter_, uid) as box, box.process() as line:
            return Answer(_EXERCISE, box, line, found, {}, b"", False).value


def main(arguments=None, say=print):
    """Print what each way of isolation keeps out here; returns 0 if one of them can be used."""
    parser = argparse.ArgumentParser(prog="python -m exercises.grade doctor", description=__doc__)
    parser.parse_args(arguments)
    usable = []
    try:
        with run.prepared("none", boxes.Limits()) as (_, room, filter_, _), boxes.free_uids() as uid:
            remedy = "not there (Debian: apt install libseccomp2; and pip install pyseccomp)"
            say(f"libseccomp: {'there' if filter_ else remedy}")
            for way in ("bwrap", "uid"):
                found, why = boxes.choose(way, room, boxes.Limits(), filter_, uid)
                if not found:
                    say("\n".join(["", f"{way}: not possible", *why]))
                    continue
                try:
                    said = probe(way, room, filter_, uid)
                except (Lost, boxes.BoxError) as error:
                    say(f"\n{way}: the probe failed: {error}")
                    continue
                possible = [what for what, was in said.items() if was]
                say(f"\n{way}: {boxes.guarantee(way, bool(filter_))}")
                say("\n".join(f"  {'CAN' if was else 'cannot'} {what}" for what, was in said.items()))
                if not possible:
                    usable.append(way)
    except run.Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 2
    say(f"\n{f'The grader uses {usable[0]} here.' if usable else boxes.REMEDY}")
    return 0 if usable else 1
