"""Key the execution cache on everything a chapter's outputs depend on, so that no page shows stale results.

myst-nb re-executes a page when its cells change, not when the library they import does. Here the cache's folder is
named after a hash of that library, the Python and package versions, and whether the real model is there. A new name
also makes Sphinx read every page anew, because the cache's path is part of its configuration.
"""

import hashlib
import re
import shutil
import sys
from importlib.metadata import distributions
from pathlib import Path

CACHE = "_build/.nbcache"
CODE = ["scratch", "exercises", "widgets"]
KEPT = 3  # caches: going back to an earlier library, or another Python, stays fast


def model_available():
    """Say whether the pages would be executed with the real model."""
    try:
        from scratch.pretrained import find_smollm2
    except ImportError:
        return False
    return find_smollm2() is not None


def cache_key(root):
    """Hash what the outputs depend on."""
    key = hashlib.sha256(f"{sys.version} model={model_available()}".encode())
    for package in sorted({f"{d.name}=={d.version}" for d in distributions()}):
        key.update(package.encode())
    for folder in CODE:
        for file in sorted(Path(root, folder).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                key.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    for page in sorted(Path(root, "chapters").glob("[0-9]*.md")):  # the teaching guide lists the chapters' times
        key.update("".join(re.findall(r"\*\*Time\*\*:[^.]*", page.read_text())).encode())
    return key.hexdigest()[:12]


def set_cache(app, config):
    """Name this build's cache and drop the oldest ones."""
    caches = Path(app.srcdir, CACHE)
    cache = caches / cache_key(app.srcdir)
    cache.mkdir(parents=True, exist_ok=True)
    cache.touch()  # the time of last use
    for old in sorted(caches.iterdir(), key=lambda folder: folder.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old)
    config.nb_execution_cache_path = str(cache.resolve())


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", set_cache)
    return {"version": "1", "parallel_read_safe": True}
