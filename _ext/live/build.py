"""The part of `live` that runs while the book is built: lists of cells, scripts, and the course as an archive."""

import json
import os
import re
import shutil
import zipfile
from importlib.util import find_spec
from pathlib import Path

import jupytext
from bundle import bundle
from docutils import nodes
from facts import without_facts

import exercises

from . import needs, runtime

HERE = Path(__file__).parent
CHECK = re.compile(r'^check\(\s*"([\w-]+)"', re.MULTILINE)
AS_THE_BOOK_HAS_IT = {"widget", "remove-input", "remove-cell"}  # tags of cells that are not edited
SCRIPTS = ("cells", "editor", "progress", "worker")  # each fetched when it is needed
IN_THE_PAGE = ("__init__.py", "needs.py", "page.py", "show.py", "uses.py")
NOT_IN_THE_PAGE = {"grade", "__pycache__"}
AGE = (2020, 1, 1, 0, 0, 0)  # of every file in an archive: the same files are the same archive


def list_cells(app, doctree):
    """Name the cells of a chapter, and put the list of them at its end."""
    if not Path(app.env.docname).name[0].isdigit():  # a page for the book alone has no notebook, and nothing to run
        return
    containers = [node for node in doctree.findall(nodes.container) if node.get("nb_element") == "cell_code"]
    if not containers:
        return
    names, left, cells, sources = _names(doctree), list(containers), [], []
    for cell in jupytext.read(app.env.doc2path(app.env.docname), fmt="md:myst").cells:
        if cell.cell_type == "code":
            tags = set(cell.metadata.get("tags", []))
            absent = "remove-cell" in tags or {"remove-input", "remove-output"} <= tags
            container = None if absent else left.pop(0)
            sources.append("" if "widget" in tags else without_facts(cell.source))
            cells.append(_cell(cell, sources[-1], names[container] if not tags & AS_THE_BOOK_HAS_IT else None))
            if container and not tags & AS_THE_BOOK_HAS_IT:
                container["ids"].append(names[container])
    for at in needs.Page(sources).with_model():
        cells[at]["model"] = True
    data = json.dumps({"page": Path(app.env.docname).name, "cells": cells}, sort_keys=True).replace("<", "\\u003c")
    doctree += nodes.raw("", f'<script type="application/json" id="live-page">{data}</script>', format="html")
    app.env.metadata[app.env.docname]["live"] = "yes"


def _names(doctree):
    """{cell: name}: after the exercise or section it stands in, so that other changes of the chapter leave it alone."""
    found, place, count = {}, "", {}
    for node in doctree.findall(nodes.Element):
        of_the_page = isinstance(node, nodes.section) and isinstance(node.parent, nodes.section | nodes.document)
        if of_the_page or (node.get("label") or "").startswith("ex-"):
            place = node.get("label") or node["ids"][0]
        elif node.get("nb_element") == "cell_code":
            count[place] = count.get(place, 0) + 1
            found[node] = f"cell-{place}-{count[place]}"
    return found


def _cell(cell, source, name):
    """What the page has to know of a cell: its name where it can be edited, else its source."""
    found = {"id": name} if name else {"source": source}
    if name and (alt := cell.metadata.get("mystnb", {}).get("image", {}).get("alt")):
        found["alt"] = alt
    if name and (check := CHECK.search(source)):
        found |= {"exercise": check[1], "points": exercises.load(check[1]).points}
    return found


def add_assets(app, pagename, templatename, context, doctree):
    """Give a chapter's page the script and its styles."""
    if app.env.metadata.get(pagename, {}).get("live"):
        app.add_css_file("live/live.css")
        app.add_js_file("live/cells.js", type="module")


def make(app):
    """Write what the pages fetch; not into the source's _static, all of which Jupyter Book adds to every page."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir, "_static", "live")
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCRIPTS:
        bundle(HERE / "js" / f"{name}.js", folder / f"{name}.js")
    shutil.copyfile(HERE / "live.css", folder / "live.css")
    root = Path(exercises.__file__).parents[1]
    course = {file.relative_to(root): file for room in ("scratch", "exercises") for file in (root / room).rglob("*.py")}
    course = {name: file for name, file in course.items() if not NOT_IN_THE_PAGE & set(name.parts)}
    archive(folder / "course.zip", course | {Path("live", name): HERE / name for name in IN_THE_PAGE})
    if surnames := find_spec("names"):
        source = Path(surnames.origin).parent
        archive(folder / "names.zip", {Path("names", name): source / name for name in ("__init__.py", "dist.all.last")})


def archive(target, files):
    """Write a zip archive of {name in it: file}, the same bytes for the same files."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name in sorted(files):
            out.writestr(zipfile.ZipInfo(name.as_posix(), AGE), files[name].read_bytes(), zipfile.ZIP_DEFLATED, 9)


def finish(app, exception):
    """Say where Python is, list the exercises, and version it all, so that no browser mixes two builds."""
    if exception or app.builder.format != "html":
        return
    folder = Path(app.outdir, "_static", "live")
    listed = [exercises.load(id) for id in exercises.ids()]
    titles = {Path(name).name: title.astext() for name, title in app.env.titles.items()}
    rows = [
        {"id": e.id, "title": e.title, "points": e.points, "chapter": e.chapter, "of": titles[e.chapter]}
        for e in sorted(listed, key=lambda e: e.chapter)
        if e.chapter in titles
    ]
    (folder / "exercises.json").write_text(json.dumps(rows) + "\n", encoding="utf-8")
    runtime.place(app.outdir, os.environ.get("BOOK_PYTHON") or "cdn")


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", make)
    app.connect("doctree-read", list_cells, priority=600)  # after `facts`, which shortens what the page shows
    app.connect("html-page-context", add_assets)
    app.connect("build-finished", finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
