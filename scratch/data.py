"""The text that chapter 11 trains on: surnames of the United States census of 1990, from the package `names`."""

from importlib.util import find_spec
from pathlib import Path

FILE = "dist.all.last"


def surnames():
    """All surnames of the file, each once, in lower case and in the order of the alphabet: a list of str.

    Raises ModuleNotFoundError where the package is missing; the message says what to do.

    Source: US Census Bureau, Frequently Occurring Surnames from the 1990 Census (public domain).
    """
    found = find_spec("names")
    # Reading the file needs no code of the package, so none is run.
    path = None if found is None or found.origin is None else Path(found.origin).with_name(FILE)
    if path is None or not path.exists():
        raise ModuleNotFoundError("The surnames come with the package names: pip install names==0.3.0")
    lines = path.read_text(encoding="ascii").splitlines()
    return sorted({line.split()[0].lower() for line in lines if line.strip()})
