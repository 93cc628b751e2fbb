"""Grades on a Dask cluster: files' bytes go to its workers, results come back, and nothing is shared on disk.

Each Dask worker first makes itself ready for a run, with a room and boxes of its own. Then it has a resource with the
run's name, and Dask gives it submissions. What a worker had that is lost, Dask gives to another one.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import multiprocessing
import secrets
import sys
import tempfile
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import dask
import numpy as np
from distributed import Client, KilledWorker, get_worker
from distributed.comm import CommClosedError
from distributed.utils import sync

from exercises.grade import boxes, run, submission

CONNECTING_SECONDS = 10.0
_LOOK_SECONDS = 0.5  # between two looks at which workers there are
# as text: a function that cannot be imported there would end the worker
_PREPARE = "__import__('exercises.grade.cluster').grade.cluster.prepare(name, resource, given)"


def described():
    """What has to be the same here and on a worker, or a result might be another one."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"Python": python, "NumPy": np.__version__, "the course": run.course()}


class Cluster:
    """Grades on the workers of a Dask scheduler, which may come and go.

    Parameters
    ----------
    address : of the scheduler; given : {"ids", "specs", "limits", "secret"} of `run.Settings`; way : of isolation
    held : takes (way, filtered) of each worker; say : takes a line for the instructor
    """

    def __init__(self, address, given, way, held, say):
        specs = Path(given["specs"]).glob("*.py") if given["specs"] else ()
        self._given = given | {"way": way, "same": described(), "limits": dataclasses.asdict(given["limits"])}
        self._given["specs"] = {path.name: path.read_bytes() for path in sorted(specs)}
        # the same again for a run that goes on: what a grader that was killed left on a worker is used again
        self._name = f"grade-{hashlib.sha256(repr(sorted(self._given.items())).encode()).hexdigest()[:16]}"
        self._resource = f"{self._name}-{secrets.token_hex(4)}"  # another one: not all workers are ready again
        self._address, self._held, self._say = address, held, say
        self._asked, self._ready, self._refused = {}, {}, {}  # by the workers' addresses
        self._under_way, self._lock = {}, threading.Lock()  # {our Future: (folder, name, Dask's)}
        self._next_look, self._waiting = 0.0, False

    def __enter__(self):
        try:
            # a file may be larger than what Dask warns of
            dask.config.set({"distributed.admin.large-graph-warning-threshold": 4 * submission.LARGEST})
            self._client = Client(self._address, timeout=CONNECTING_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            start = "`dask scheduler` starts one and says its address, like tcp://10.0.0.5:8786"
            raise run.Refusal(f"--dask {self._address}: no scheduler answers there ({error}); {start}") from None
        try:
            while not self.most():
                if self._refused and not self._asked:
                    raise run.Refusal("no worker can grade:\n" + "\n".join(self._refused.values()))
                time.sleep(_LOOK_SECONDS)
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind, *error):
        if kind is not run.Stopped:
            with self._lock:
                self._client.cancel([there for *_, there in self._under_way.values()])
            with contextlib.suppress(OSError, TimeoutError):
                self._client.run(leave, self._name, kind is not None, workers=list(self._ready), on_error="ignore")
        self._client.close(timeout=1)

    def most(self):
        """How many submissions may be under way; as it is asked all the time, it also looks at the workers."""
        if time.monotonic() >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + _LOOK_SECONDS
        return 2 * sum(self._ready.values())

    def submit(self, folder, name):
        """A concurrent Future with the result of a submission; BrokenProcessPool if processes were lost at it."""
        future = concurrent.futures.Future()
        with self._lock:
            self._send(future, folder, name)
        return future

    def _send(self, future, folder, name):
        path = Path(folder, name)
        data = submission.contents(path)
        job = self._name, name, data, run.stamp(path, data)
        there = self._client.submit(grade, *job, pure=False, resources={self._resource: 1})
        self._under_way[future] = folder, name, there
        there.add_done_callback(functools.partial(self._pass_on, future))

    def _send_again(self):
        """Dask does not see that what waits for a resource can go on, where a worker has it since."""
        with self._lock:
            for future, (folder, name, there) in list(self._under_way.items()):
                self._send(future, folder, name)
                there.cancel()

    def _pass_on(self, future, there):
        """What became of a submission, in the words of `run`."""
        result = error = None
        try:
            result = there.result()
        except KilledWorker:
            error = BrokenProcessPool("several Dask workers were lost at it")
        except (concurrent.futures.CancelledError, CommClosedError) as lost:
            error = self._gone(lost)
        except Exception as other:
            error = other
        with self._lock:
            if self._under_way.get(future, [None])[-1] is not there:  # it was sent again
                return
            del self._under_way[future]
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _gone(self, why):
        return run.Stopped(f"--dask {self._address}: the scheduler does not answer any more ({why})")

    def _look(self):
        """See which workers there are: ask new ones whether they can grade, and forget those that are gone."""
        if self._client.status != "running":  # it would try for a long time to find the scheduler again
            raise self._gone(self._client.status)
        try:
            there = self._client.nthreads()
        except (OSError, TimeoutError) as error:
            raise self._gone(error) from None
        for known in (self._asked, self._ready, self._refused):
            for address in known.keys() - there.keys():
                del known[address]
                if known is self._ready:
                    self._say(f"{address} is gone; others do what it had")
        nobody = not self._ready
        for address in there.keys() - self._asked.keys() - self._ready.keys() - self._refused.keys():
            given = {"name": self._name, "resource": self._resource, "given": self._given}
            self._asked[address] = self._client.submit(eval, _PREPARE, given, pure=False, workers=[address])
        for address, future in list(self._asked.items()):
            if future.done():
                del self._asked[address]
                self._answered(address, future)
        if nobody and self._ready:
            self._send_again()
        if not self._ready and not self._asked and not self._waiting:
            self._say(f"no worker that can grade is there; waiting for one: dask worker {self._address}")
        self._waiting = not self._ready and not self._asked

    def _answered(self, address, future):
        """A worker is ready, or has said why it is not."""
        try:
            way, filtered, threads = future.result()
        except run.Refusal as refusal:
            self._refused[address] = f"{address}: {refusal}"
        except concurrent.futures.CancelledError as error:
            raise self._gone(error) from None
        except Exception as error:
            self._refused[address] = f"{address}: {type(error).__name__}: {error}. Is the same course installed there?"
        else:
            self._ready[address] = threads
            self._say(f"{address} grades, {threads} at a time")
            self._held(way, filtered)
            return
        self._say(f"REFUSED {self._refused[address]}")


# ---- on a Dask worker ----

_runs = {}  # of this Dask worker: {name of a run: (what ends it, its Processes, what `prepare` returned)}
_preparing = threading.Lock()


def prepare(name, resource, given):
    """Make this Dask worker ready for a run, and give it the resource; returns (way, filtered, how many at a time).

    `given` is what `Cluster` says of the run. Refusal says what hinders.
    """
    for what, here in described().items():
        there = given["same"][what]
        if here != there:
            raise run.Refusal(f"{what} is {here} there, and {there} here; both have to be the same")
    worker = get_worker()
    threads = worker.state.nthreads
    if threads > run.MOST_WORKERS:
        most = run.MOST_WORKERS
        raise run.Refusal(
            f"it has {threads} threads, and {most} is the most; dask worker --nworkers 2 --nthreads {most}"
        )
    with _preparing, contextlib.ExitStack() as stack:
        if name not in _runs:
            processes, way, filtered = stack.enter_context(_processes(given))
            _runs[name] = stack.pop_all(), processes, (way, filtered, threads)
    sync(worker.loop, worker.set_resources, **{resource: threads})
    return _runs[name][2]


@contextlib.contextmanager
def _processes(given):
    """(run.Processes, way, filtered) for a run, with a room of its own."""
    # Dask's own way of starting a worker forbids it processes, as they might outlive it; these end with it
    multiprocessing.current_process().daemon = False
    limits = boxes.Limits(**given["limits"])
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(run.new_room())
        except (run.room.NoRoom, OSError) as error:
            raise run.Refusal(f"the room for learners' code cannot be built: {error}") from None
        way, _, filter_, uid = stack.enter_context(run.prepared(given["way"], limits, place))
        specs = Path(stack.enter_context(tempfile.TemporaryDirectory())) if given["specs"] else ""
        for file, text in given["specs"].items():
            (specs / file).write_bytes(text)
        settings = run.Settings(given["ids"], str(specs), limits, given["secret"], way, str(place), filter_, uid)
        processes = run.Processes(settings)
        yield processes, way, bool(filter_)


def grade(name, *job):
    """The result of a submission, of a process of this Dask worker."""
    try:
        return _runs[name][1].do(run.grade, *job)
    except boxes.BoxError as error:
        raise boxes.BoxError(f"{get_worker().address}: {error}") from None


def leave(name, kill):
    """End what `prepare` began."""
    if name in _runs:
        stack, processes, _ = _runs.pop(name)
        processes.stop(kill)
        stack.close()
