"""Inside a box: the warm parent, which runs no learner's code, and forks one process for each thing to be done.

`exercises.grade.boxes` starts it, in the room that `exercises.grade.room` built.

Commands come over a socket: "f" with a descriptor forks a process that talks over that descriptor; "c" asks how many
seconds of a processor it has used; "k" ends it and everything it left behind. When nobody is at the other end any more,
all ends.
"""

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
import time

_NOT_DUMPABLE, _SUBREAPER, _NO_NEW_PRIVS, _PDEATHSIG, _SECCOMP = 4, 36, 38, 1, 22  # of prctl(2)


def main(descriptor, settings):
    """Serve until the other end is closed."""
    control = socket.socket(fileno=descriptor)
    handle = _handler(settings["kind"])
    confine = _confinement(bytes.fromhex(settings["seccomp"]))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        # a child of the same uid may neither trace this process nor read its memory
        libc.prctl(_NOT_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    gc.collect()
    gc.freeze()  # or a child's first collection would touch, and so copy, all that is here
    control.send(b"ready")
    child = 0
    while True:
        try:
            command, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        except OSError:
            command = b""
        if command == b"f":
            child = os.fork()
            if child == 0:
                _child(control, descriptors[0], handle, settings["limits"], confine)
            os.close(descriptors[0])
        elif command == b"c":
            control.send(json.dumps(_seconds_of(child)).encode())
        elif command == b"k":
            control.send(json.dumps(_end(child, settings)).encode())
            child = 0
        else:
            _end(child, settings)
            return


def _handler(kind):
    """What a child does with its connection."""
    if kind == "reader":
        from . import reading as work
    else:
        from . import runner as work
    work.warm_up()
    return work.serve


def _child(control, descriptor, handle, limits, confine):
    """Take away what the work does not need, do it, and end; never returns."""
    try:
        control.close()
        connection = socket.socket(fileno=descriptor)
        with contextlib.suppress(OSError):
            os.setsid()
        for standard in (1, 2):
            os.dup2(0, standard)  # which is /dev/null: whatever is printed goes nowhere
        os.closerange(3, descriptor)
        os.closerange(descriptor + 1, 4096)
        for name, (soft, hard) in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (soft, hard))
        confine()
        handle(connection)
        os._exit(0)
    except MemoryError:
        os._exit(77)
    except BaseException:
        os._exit(70)


def _confinement(filter_):
    """A function that loads a seccomp filter: from then on some system calls are refused, for good."""
    if not filter_:
        return lambda: None

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

    program = Program(len(filter_) // 8, filter_)
    prctl, place = ctypes.CDLL(None).prctl, ctypes.byref(program)

    def confine():
        if prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(_SECCOMP, 2, place, 0, 0):
            raise OSError("the filter of system calls was not taken")

    return confine


def _seconds_of(pid):
    """How long a process has used a processor; clock_getcpuclockid(3) gives the clock."""
    try:
        return time.clock_gettime((~pid << 3) | 2) if pid else 0.0
    except OSError:
        return 0.0


def _end(child, settings):
    """Kill the child and all that it left; returns how it ended, and whether it left files."""
    status, used = None, 0.0
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # where the box has its processes for itself, no process escapes, whatever session it made for itself
            if settings["alone"]:
                os.kill(-1, signal.SIGKILL)
            elif child and status is None:
                os.kill(child, signal.SIGKILL)
        try:
            pid, code, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == child:
            status, used = code, usage.ru_utime + usage.ru_stime
        elif pid == 0:
            time.sleep(0.0002)
    left = settings["scratch"] and os.listdir(settings["scratch"])
    ended = None if status is None else os.waitstatus_to_exitcode(status)
    return {"ended": ended, "seconds": used, "dirty": bool(left), "clean": status is not None or not child}
