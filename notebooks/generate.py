"""Write notebooks/NAME.ipynb from chapters/NAME.md: what Colab and Binder open, and what the tests execute.

Beside each chapter's notebook stands its problem set, notebooks/problems/NAME.ipynb, made by `notebooks.problems`.

    python -m notebooks.generate             write those that are out of step with their chapter
    python -m notebooks.generate --execute   also compute the stored outputs anew, after a change of the library
    python -m notebooks.generate --check     write nothing, fail if one is out of step (the pre-commit hook)

A notebook holds the chapter in plain Markdown, its cells, and one cell before them that makes the library importable.
Outputs are stored only for cells tagged `nbval-check-output`: those nbval compares.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import jupytext
import nbformat
import yaml
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from notebooks.plain import Plain

ROOT = Path(__file__).resolve().parents[1]
COMPARED = "nbval-check-output"
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}  # folded in a notebook: it has nothing hidden
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
ABOUT = "*A chapter of [The Transformer Block]({url}), as a notebook. Run the next cell first: where the course's \
library is missing, as on Colab, it installs it.*"
BOOTSTRAP = """\
# Makes the course's library importable; does nothing where it is installed already.
import importlib.util, os, pathlib, subprocess, sys

if not all(map(importlib.util.find_spec, ["scratch", "exercises", "gguf", "tokenizers", "names", "anywidget"])):
    local = os.environ.get("TRANSFORMER_BLOCK_SOURCE")  # a checkout to install from instead
    source = pathlib.Path(local).resolve().as_uri() if local else "git+{url}"
    course = f"transformer-block[model,data,threads,widgets] @ {{source}}"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", course]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"could not install the course's library:\\n{{done.stderr}}")
    importlib.invalidate_caches()"""


def chapters(root=ROOT):
    """Return the numbered chapters that have code to run; other pages are for the book alone."""
    return [page for page in sorted(Path(root, "chapters").glob("[0-9]*.md")) if "{code-cell}" in page.read_text()]


def target(chapter):
    """Return where a chapter's notebook lies."""
    return chapter.parents[1] / "notebooks" / f"{chapter.stem}.ipynb"


def build(chapter):
    """Return a chapter's notebook, without outputs."""
    url = yaml.safe_load((chapter.parents[1] / "_config.yml").read_text())["repository"]["url"]
    plain = Plain(chapter)
    cells = [new_markdown_cell(ABOUT.format(url=url)), new_code_cell(BOOTSTRAP.format(url=url))]
    for cell in jupytext.read(chapter, fmt="md:myst").cells:
        if cell.cell_type == "markdown":
            cells.append(new_markdown_cell(plain.text(cell.source)))
            continue
        tags = cell.metadata.get("tags", [])
        metadata = {"tags": tags} if tags else {}
        if HIDDEN & set(tags):
            metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}  # JupyterLab's way, and Colab's
        cells.append(new_code_cell(cell.source, metadata=metadata))
        figure = cell.metadata.get("mystnb", {}).get("figure", {})
        if "caption" in figure:
            cells.append(new_markdown_cell(plain.caption(figure.get("name", ""), figure["caption"])))
    return number_cells(new_notebook(cells=[cell for cell in cells if cell.source], metadata=METADATA))


def number_cells(notebook):
    """Give each cell an id that depends on its content alone: this keeps other cells out of a change's diff."""
    seen = {}
    for cell in notebook.cells:
        name = hashlib.sha256(cell.source.encode()).hexdigest()[:12]
        seen[name] = seen.get(name, 0) + 1
        cell.id = f"{name}-{seen[name]}"
    return notebook


def is_compared(cell):
    """Say whether a cell's outputs are stored and compared."""
    return COMPARED in cell.metadata.get("tags", [])


def without_outputs(notebook):
    """Return a copy as it was generated, before any cell ran."""
    notebook = nbformat.from_dict(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def code(notebook):
    """Return what stored outputs depend on."""
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def fill(notebook, stored, folder, execute):
    """Give the compared cells their outputs: the stored ones if the code is the same, else by running it."""
    compared = [index for index, cell in enumerate(notebook.cells) if is_compared(cell)]
    if not compared:
        return
    source = stored
    if execute or stored is None or code(stored) != code(notebook) or not all_filled(stored):
        source = NotebookClient(nbformat.from_dict(notebook), timeout=300, resources={"metadata": {"path": folder}})
        source = source.execute()
    outputs = {cell.id: cell.outputs for cell in source.cells if is_compared(cell)}
    for index in compared:
        cell = notebook.cells[index]
        cell.outputs = [without_count(output) for output in outputs[cell.id]]
        cell.execution_count = 1  # nbval compares nothing in a cell that has none


def without_count(output):
    """Return an output as if its cell had been the first to run."""
    return output | {"execution_count": 1} if "execution_count" in output else output


def all_filled(notebook):
    """Say whether every compared cell has outputs."""
    return all(cell.outputs for cell in notebook.cells if is_compared(cell))


def in_step(chapter):
    """Say whether a chapter's stored notebook is what would be generated now."""
    path = target(chapter)
    if not path.exists():
        return False
    stored = nbformat.read(path, as_version=4)
    return nbformat.writes(without_outputs(stored)) == nbformat.writes(build(chapter)) and all_filled(stored)


def problem_sets(root=ROOT):
    """Return {path: text} of the problem sets' notebooks: the learner's edition, with nobody's name in it."""
    from notebooks import problems  # which builds on this file

    return {
        Path(root, "notebooks", "problems", f"{chapter.stem}.ipynb"): nbformat.writes(
            problems.learner_edition(title, its, root=root)
        )
        + "\n"
        for chapter, (title, its) in problems.sets(root).items()
    }


def main(arguments=None, root=ROOT):
    """Do what the command line asks; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--execute", action="store_true")
    asked = parser.parse_args(arguments)
    folder = Path(root, "notebooks")
    wanted = {target(chapter): chapter for chapter in chapters(root)}
    sets = problem_sets(root)
    orphans = [p for p in folder.glob("**/[0-9][0-9]_*.ipynb") if p not in wanted and p not in sets]
    stale = [path for path, chapter in wanted.items() if asked.execute or not in_step(chapter)]
    changed = [path for path, text in sets.items() if not path.exists() or path.read_text() != text]
    for path in [*orphans, *stale, *changed]:
        print(f"{'out of step' if asked.check else 'writing'}: {path.relative_to(root)}")
    if asked.check:
        return bool(orphans or stale or changed)
    for path in orphans:
        path.unlink()
    for path in changed:
        path.parent.mkdir(exist_ok=True)
        path.write_text(sets[path])
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        notebook = build(wanted[path])
        stored = nbformat.read(path, as_version=4) if path.exists() else None
        fill(notebook, stored, str(path.parent), asked.execute)
        path.write_text(nbformat.writes(notebook) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:  # something in a chapter, named in the message
        sys.exit(f"error: {error}")
