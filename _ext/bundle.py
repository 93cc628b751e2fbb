"""Bundle a JavaScript module and all that it imports into one small file: esbuild, run by the environment's Node."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def bundle(entry, out, *options):
    """Write the bundle of the module `entry` to `out`: an ES module, unless `options` for esbuild say otherwise.

    RuntimeError says what is missing or wrong.
    """
    node = next(filter(None, (shutil.which("node", path=Path(sys.executable).parent), shutil.which("node"))), None)
    esbuild = ROOT / "node_modules" / ".bin" / "esbuild"
    if node is None or not esbuild.exists():
        raise RuntimeError("esbuild or Node is not here, which the book's scripts need: make book installs them")
    command = [node, esbuild, entry, f"--outfile={out}", "--bundle", "--minify", "--format=esm", "--target=es2022"]
    run = subprocess.run([*command, "--log-level=warning", *options], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"esbuild cannot bundle {Path(entry).name}:\n{run.stderr}")
