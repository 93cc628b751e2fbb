"""An environment with the old Jupyter that Colab has, and the course installed in it."""

import hashlib
import shutil
import subprocess
import sys
import tomllib

from tests.browser.site import ROOT

# Colab's own pins (its package list of August 2026), as far as they touch a widget; they run under 3.11 to 3.13.
PACKAGES = (
    "ipywidgets==7.7.1",
    "widgetsnbextension==3.6.1",  # as old; Colab lists 3.6.10, but its page does not use it: not a slider shows with it
    "ipykernel==6.17.1",
    "ipython==7.34.0",
    "notebook==6.5.7",
    "jupyter-client==7.4.9",
    "traitlets==5.7.1",
    "tornado==6.5.7",
    "anywidget==0.9.21",
    "numpy==2.1.3",
    "matplotlib==3.10.0",
)


def environment():
    """The environment's Python; the environment is made anew when the pins or the Python change, the course always."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = [*PACKAGES, *project["build-system"]["requires"]]  # so that the course is installed without a network
    key = hashlib.sha256(" ".join([sys.version, *packages]).encode()).hexdigest()[:12]
    folder = ROOT / "_build" / f".colab-{key}"  # the dot keeps Sphinx from searching it for pages
    python = folder / "bin" / "python"
    made = folder / "made"
    if not made.exists():
        for old in folder.parent.glob(".colab-*"):
            shutil.rmtree(old)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        _install(python, *packages)
        made.touch()
    _install(python, "--no-deps", "--no-build-isolation", "--force-reinstall", str(ROOT))
    return python


def _install(python, *what):
    command = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-compile", *what]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, f"pip: {done.stderr[-2000:]}"
