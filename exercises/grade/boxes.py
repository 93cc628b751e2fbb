"""Boxes: processes that see nothing but the room, and how this machine can hold them in. Starts them, and ends them.

Three ways, from strong to none. `bwrap`: bubblewrap, in namespaces of its own. `uid`: another root folder and another
user, for root where namespaces are denied, as in many containers. `none`: only limits, and only on demand.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from exercises.grade.inside.wire import Line
from exercises.grade.room import DEVICES, PYTHON, SHARED

MIB = 1 << 20
FIRST_UID, UIDS = 61184, 4000  # users that systemd gives to nobody for long; one for each box
_ENVIRONMENT = {"HOME": "/tmp", "LANG": "C.UTF-8", "LD_LIBRARY_PATH": SHARED, "OPENBLAS_NUM_THREADS": "1"}
_ENVIRONMENT |= {"PYTHONHASHSEED": "0", "PATH": "/"}  # the same order of sets in each run
_START = (
    "import json, sys; sys.path[:0] = ['/', '/packages']; sys.dont_write_bytecode = True; "
    "from inside.box import main; main(int(sys.argv[1]), json.loads(sys.argv[2]))"
)

# System calls that no answer needs. Refused: new processes (threads are allowed), sockets, what reaches into other
# processes, what outlives a process, and what widens the surface of the kernel.
_REFUSED = """
fork vfork clone3 execve execveat kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal
pidfd_getfd ptrace process_vm_readv process_vm_writev process_madvise kcmp
socket socketpair connect bind listen accept accept4 sendmsg sendmmsg recvmsg recvmmsg
shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
mq_open mq_unlink mq_timedsend mq_timedreceive add_key request_key keyctl
unshare setns mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree mount_setattr
io_uring_setup io_uring_enter io_uring_register bpf perf_event_open userfaultfd fanotify_init
inotify_init inotify_init1 name_to_handle_at open_by_handle_at
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl syslog
settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname iopl ioperm personality
setpriority sched_setscheduler sched_setparam sched_setattr ioprio_set migrate_pages move_pages
symlink symlinkat link linkat mknod mknodat chown fchown lchown fchownat utime utimes utimensat futimesat
""".split()


class BoxError(Exception):
    """A box that does not start, or does not answer."""


@dataclass(frozen=True)
class Limits:
    """What one process may take.

    seconds : float, of the wall clock, in which all calls for one exercise must be done
    memory : int, bytes of address space
    files : int, bytes of the private /tmp, and of one file in it
    """

    seconds: float = 10.0
    memory: int = 2048 * MIB
    files: int = 16 * MIB

    def of_process(self):
        """The same as resource limits, soft and hard, by name."""
        processor = int(self.seconds) + 1
        return {
            "CPU": (processor, processor + 1),
            "AS": (self.memory, self.memory),
            "FSIZE": (self.files, self.files),
            "NPROC": (64, 64),
            "NOFILE": (64, 64),
            "CORE": (0, 0),
            "MEMLOCK": (0, 0),
            "MSGQUEUE": (0, 0),
        }


def seccomp_program():
    """The filter of system calls as bytes; none where libseccomp is not there."""
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError):
        return b""
    refused = pyseccomp.ERRNO(1)  # EPERM
    program = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in _REFUSED:
        # clone3 has its flags in memory, where a filter cannot look; told that there is none, the C library uses clone
        action = pyseccomp.ERRNO(38) if name == "clone3" else refused
        with contextlib.suppress(ValueError, RuntimeError, OSError):  # not a call of this architecture
            program.add_rule(action, name)
    thread = 0x10000  # CLONE_THREAD
    program.add_rule(refused, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, thread, 0))
    program.add_rule(refused, "prlimit64", pyseccomp.Arg(0, pyseccomp.NE, 0))
    for request in (8, 10, 15):  # F_SETOWN, F_SETSIG, F_SETOWN_EX: signals by way of a descriptor
        program.add_rule(refused, "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, request))
    for request in (0x8901, 0x8902):  # FIOSETOWN, SIOCSPGRP
        program.add_rule(refused, "ioctl", pyseccomp.Arg(1, pyseccomp.EQ, request))
    with tempfile.TemporaryFile() as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()


def _tool(name):
    """Where a command is."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin:/usr/bin:/bin")
    if found is None:
        raise BoxError(f"the command {name} is not installed")
    return found


class Box:
    """One box of a kind, "runner" or "reader"; started at its first use, and again after it was lost.

    `way` is "bwrap", "uid" or "none"; `room` the folder that `room.build` made; `uid` the user inside and outside, for
    root. A box does one thing after another.
    """

    def __init__(self, kind, way, room, limits, filter_, uid=None):
        self.kind, self.way, self.room, self.limits, self.filter, self.uid = (
            kind,
            way,
            Path(room, kind),
            limits,
            filter_,
            uid,
        )
        self._process = self._control = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()

    def start(self):
        """Start it; BoxError says what hinders it."""
        hold = self._hold()
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        alone = self.way == "bwrap" or (self.way == "uid" and self.uid is not None)
        settings = {
            "kind": self.kind,
            "limits": self.limits.of_process(),
            "seccomp": self.filter.hex(),
            "alone": alone,
            "scratch": "/tmp" if self.way == "bwrap" else "",
        }
        command = [*hold, "-I", "-S", "-c", _START, str(there.fileno())]
        command.append(json.dumps(settings))
        rights = {"user": self.uid, "group": self.uid, "extra_groups": []} if self._as_other() else {}
        if self.way == "none":
            command[command.index("-c") + 1] = _START.replace("'/", f"'{self.room}/")
        self._log = tempfile.TemporaryFile()
        try:
            with _first_to_go():
                self._process = subprocess.Popen(
                    command,
                    pass_fds=[there.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._log,
                    env=_ENVIRONMENT,
                    cwd=self.room,
                    start_new_session=True,
                    **rights,
                )
        except (OSError, subprocess.SubprocessError) as error:
            here.close()
            raise BoxError(f"{command[0]}: {error}") from None
        finally:
            there.close()
        here.settimeout(60)
        self._control = here
        if self._command(b"", seconds=60) != b"ready":
            self._log.seek(0)
            said = self._log.read(2000).decode(errors="replace").strip()
            self.stop()
            raise BoxError(said or "the box ended without a word")

    def _as_other(self):
        return self.way == "bwrap" and self.uid is not None

    def _hold(self):
        """The command that holds the interpreter in."""
        if self.way == "none":
            return [sys.executable]
        if self.way == "uid":
            user = f"--userspec={self.uid}:{self.uid}"
            return [_tool("chroot"), user, "--groups=", str(self.room), PYTHON]
        size = str(self.limits.files)
        devices = [part for d in DEVICES for part in ("--dev-bind", f"/dev/{d}", f"/dev/{d}")]
        return [
            *(_tool("bwrap"), "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--uid", "65534", "--gid", "65534", "--hostname", "box"),
            *("--ro-bind", str(self.room), "/", *devices, "--size", size, "--tmpfs", "/tmp", "--chdir", "/tmp"),
            *("--", PYTHON),
        ]

    def stop(self):
        """End it and all that is in it."""
        process, control, self._process, self._control = self._process, self._control, None, None
        if control is not None:
            control.close()
        if process is None:
            return
        self._log.close()
        try:
            process.wait(timeout=1 if self.way == "uid" else 0.2)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self.way == "uid":
            _kill_all_of(self.uid)

    def _command(self, command, descriptors=(), seconds=10):
        """Send a command, and return the answer; b"" if the box is lost."""
        try:
            self._control.settimeout(seconds)
            if command:
                socket.send_fds(self._control, [command], list(descriptors))
            return b"" if command == b"f" else self._control.recv(4096)
        except OSError:
            return b""

    @contextlib.contextmanager
    def process(self):
        """A fresh process in the box: a Line to it, and on leaving what became of it is in `self.ended`."""
        if self._process is None:
            self.start()
        here, there = socket.socketpair()
        line = Line(here)
        self.ended = None
        try:
            self._command(b"f", [there.fileno()])
            there.close()
            yield line
        finally:
            line.close()
            ended = self.end()
            # what one left behind, the next must not find; without a filter, something may be left where nobody looks
            if ended["dirty"] or not ended["clean"] or (not self.filter and self.kind == "runner"):
                self.stop()

    def end(self):
        """End the process that runs, and say how it ended; None for "ended" if the whole box is lost."""
        if self.ended is None:
            said = self._command(b"k")
            self.ended = json.loads(said) if said else {"ended": None, "seconds": 0.0, "dirty": True, "clean": False}
        return self.ended

    def processor_seconds(self):
        """How long the process has used a processor so far."""
        said = self._command(b"c")
        return float(json.loads(said)) if said else float("inf")


@contextlib.contextmanager
def _first_to_go():
    """Whatever is started meanwhile is what the system ends first when it runs out of memory, and not the grader."""
    place = Path("/proc/self/oom_score_adj")
    try:
        before = place.read_text()
        place.write_text("1000")
    except OSError:
        before = None
    try:
        yield
    finally:
        if before is not None:
            place.write_text(before)


def _kill_all_of(uid):
    """Kill every process of this user, from a process of its own."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(child, 0)


# ---- what this machine allows ----

REMEDY = (
    "Install bubblewrap (Debian: apt install bubblewrap) where user namespaces are allowed, or run as root, in a "
    "container for example. `python -m exercises.grade doctor` tells more. --unsafe-no-sandbox runs the code without a "
    "sandbox: only for submissions that you would run yourself."
)


def guarantee(way, filtered):
    """What a way of isolation keeps a learner's code from, in a line for the report."""
    lines = {
        "bwrap": "Sandbox: bubblewrap. No network, no other process, no file but the interpreter and NumPy, read-only.",
        "uid": "Sandbox: another user in another root folder (weaker than bubblewrap: the kernel's namespaces are "
        "shared with the machine). No file but the interpreter and NumPy, and nothing can be written.",
        "none": "NO SANDBOX. The submissions' code can read and change all that you can.",
    }
    network = {"bwrap": "", "uid": " THE NETWORK CAN BE REACHED: libseccomp is not installed.", "none": ""}
    sockets = {"bwrap": "", "uid": " No network, and no new processes: system calls are filtered.", "none": ""}
    return lines[way] + (sockets if filtered else network)[way]


@contextlib.contextmanager
def free_uids():
    """The first of a range of users that nobody has, and that no other grader takes meanwhile; None without root."""
    if os.geteuid() != 0:
        yield None
        return
    taken = set()
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit():
            with contextlib.suppress(OSError):
                taken.add(os.stat(f"/proc/{entry}").st_uid)
    for first in range(FIRST_UID, FIRST_UID + UIDS, 128):
        if taken & set(range(first, first + 128)):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
            try:
                lock.bind(f"\0transformer-block-grade-{first}")  # the system takes it back when this process ends
            except OSError:
                continue
            yield first
            return
    raise BoxError("no free users are left for the boxes; are other graders running?")


def choose(way, room, limits, filter_, uid):
    """(the way to use, why the stronger ones are not possible): "" if none is. `way` is "auto" or one of them."""
    why = []
    for one in ("bwrap", "uid") if way == "auto" else (way,):
        if one == "uid" and uid is None:
            why.append("  uid: only root can start processes of another user")
            continue
        try:
            with Box("runner", one, room, limits, filter_, uid) as box:
                box.start()
            return one, why
        except BoxError as error:
            why.append(f"  {one}: {' '.join(str(error).split())[:300]}")
    return "", why
