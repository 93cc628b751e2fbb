"""A Jupyter server of its own for a test: no setting of the machine's, nothing asked of anybody else."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request

from tests.browser.site import ROOT

SETTINGS = ".own/settings"  # where the server's settings lie, below its folder
SECONDS = 60  # a busy machine needs ten to start


def notebook(*cells):
    """A notebook of code cells, as JSON."""
    empty = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [empty | {"id": f"cell-{at}", "source": source} for at, source in enumerate(cells)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


@contextlib.contextmanager
def server(command, folder, probe, course=True):
    """Start a Jupyter server in a folder; yield (its address, its token).

    command : list of str, to which what concerns the folder, port and token is added
    probe : a path below the address that answers as soon as the server does
    course : whether its kernels import the course from this checkout; else it has to be installed
    """
    # nothing of the user's: neither settings nor extensions nor kernels, and no trace left with them
    places = {"CONFIG": SETTINGS, "DATA": ".own/data", "RUNTIME": ".own/run"}
    places = {f"JUPYTER_{name}_DIR": str(folder / place) for name, place in places.items()}
    places["IPYTHONDIR"] = str(folder / ".own/ipython")
    token = secrets.token_hex(16)
    environment = os.environ | places | {"JUPYTER_TOKEN": token, "JUPYTER_PREFER_ENV_PATH": "1"}
    for name in ("PYTHONPATH", "TRANSFORMER_BLOCK_BOOK"):
        environment.pop(name, None)
    if course:
        environment["PYTHONPATH"] = str(ROOT)
    port = _free_port()
    command = [*command, "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    if os.geteuid() == 0:
        command.append("--allow-root")
    log = folder / ".own/log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}/"
    try:
        _wait(process, f"{address}{probe}?token={token}", log)
        yield address, token
    finally:
        process.terminate()  # its kernels end with it
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def _wait(process, address, log):
    """Return when the server answers; AssertionError with its log when it does not."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            direct.open(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"Jupyter did not start:\n{log.read_text()[-2000:]}")
