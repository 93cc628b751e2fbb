"""A Dask cluster of real processes, which can be killed as machines die."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Dask:
    """A scheduler and workers, each in a session of its own, so that killing one is like a machine that dies."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.start()

    def start(self):
        host, port = self.address.removeprefix("tcp://").split(":")
        self.scheduler = self._run("scheduler", "--host", host, "--port", port)

    def worker(self, root=ROOT):
        """Start a worker with the course in `root`, and return its process."""
        place = self.folder / f"worker{len(self.processes)}"
        return self._run("worker", self.address, "--nthreads", "1", "--local-directory", place, root=root)

    def _run(self, *arguments, root=ROOT):
        with (self.folder / f"{arguments[0]}{len(self.processes)}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:], "--no-dashboard"],
                cwd=root,
                env=os.environ | {"PYTHONPATH": str(root)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def kill(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self):
        for process in self.processes:
            self.kill(process)
