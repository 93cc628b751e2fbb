"""Run every notebook once as a learner on Colab would: the file alone, in an environment that lacks the course.

The notebooks are copied into an empty folder and run by nbval with the kernel of a bare environment, which holds
NumPy, Matplotlib and a kernel only. So the first cell has to install the library, here from this checkout; every
cell must run, and cells tagged nbval-check-output must give the output that is stored.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["numpy", "matplotlib", "ipykernel"]
KERNEL = "bare"


def bare_environment():
    """Return the bare environment's folder, made anew when the pins or the Python change."""
    constraints = ROOT / "constraints.txt"
    key = hashlib.sha256(constraints.read_bytes() + " ".join([sys.version, *PACKAGES]).encode()).hexdigest()[:12]
    folder = ROOT / "_build" / f".bare-{key}"  # the dot keeps Sphinx from searching it for pages
    python = folder / "bin" / "python"
    spec = folder / "share" / "jupyter" / "kernels" / KERNEL / "kernel.json"
    if not spec.exists():
        for old in folder.parent.glob(".bare-*"):
            shutil.rmtree(old)
        print(f"making a bare environment with {', '.join(PACKAGES)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", "-c", constraints, *PACKAGES], check=True)
        argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec.parent.mkdir(parents=True)
        spec.write_text(json.dumps({"argv": argv, "display_name": KERNEL, "language": "python"}))
    # Left from the last run, it would hide a first cell that no longer works.
    subprocess.run([python, "-m", "pip", "uninstall", "-qq", "-y", "transformer-block"], check=True)
    return folder


def main():
    """Run the notebooks; return pytest's exit status."""
    bare = bare_environment()
    environment = os.environ | {
        "JUPYTER_PATH": str(bare / "share" / "jupyter"),
        "TRANSFORMER_BLOCK_SOURCE": str(ROOT),
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),  # the first cell's pip, too, installs what was tested
    }
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder:
        for notebook in (ROOT / "notebooks").glob("**/*.ipynb"):
            place = Path(folder, notebook.relative_to(ROOT / "notebooks"))
            place.parent.mkdir(exist_ok=True)
            shutil.copy(notebook, place)
        Path(folder, "pytest.ini").write_text("[pytest]\n")  # not the library's strict settings
        command = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-kernel-name", KERNEL]
        command += ["--nbval-cell-timeout", "600", "-p", "no:cacheprovider", "--durations=10", folder]
        status = subprocess.run(command, cwd=folder, env=environment).returncode
    if status:
        print("If a stored output differs because the library was meant to change: make notebooks ARGS=--execute")
    return status


if __name__ == "__main__":
    sys.exit(main())
