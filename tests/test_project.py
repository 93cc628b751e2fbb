"""The repository keeps its own rules: what is pinned, what is said in first lines, what must stand nowhere."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
LISTED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
).stdout.split("\n")
FILES = sorted(path for path in (ROOT / name for name in LISTED if name) if path.is_file())
BINARY = {".png", ".npz", ".woff2", ".safetensors", ".gguf"}
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in FILES if path.suffix not in BINARY}
CHECKED = {name: text for name, text in TEXTS.items() if name != "tests/test_project.py"}  # it spells out the patterns
WRITTEN = {name: text for name, text in CHECKED.items() if not name.startswith("notebooks/") or name.endswith(".py")}


def test_git_lists_the_files():
    assert "requirements.txt" in TEXTS


def test_every_requirement_is_pinned_and_explained():
    lines = [line for line in TEXTS["requirements.txt"].splitlines() if line and not line.startswith("#")]
    assert [
        line for line in lines if not re.match(r"[\w-]+==[\w.]+(; python_version [<>]=? \"3\.\d+\")? +# \w", line)
    ] == []


def test_constraints_follow_the_requirements():
    pinned = {pin.lower() for pin in re.findall(r"^[\w-]+==[\w.]+", TEXTS["requirements.txt"], flags=re.MULTILINE)}
    locked = set(re.findall(r"^[\w-]+==[\w.]+", TEXTS["constraints.txt"], flags=re.MULTILINE))
    assert pinned - locked == set(), "run `make lock`"


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith(".py")])
def test_a_module_says_its_purpose_in_its_first_line(name):
    purpose = (ast.get_docstring(ast.parse(TEXTS[name])) or "").split("\n")[0]
    assert TEXTS[name].startswith(('"""', 'r"""')) and len(purpose.split()) >= 4


COMMENTED = (".yml", ".yaml", ".toml", ".cff", ".sh", ".cfg", "Makefile", "requirements.txt", ".gitignore")


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith(COMMENTED) or name.startswith(".ci/")])
def test_a_settings_file_says_its_purpose_in_its_first_line(name):
    first = [line for line in TEXTS[name].splitlines() if not line.startswith("#!")][0]
    assert first.startswith(("# ", '"""')) and len(first.split()) >= 4


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith((".js", ".css"))])
def test_a_script_or_style_sheet_says_its_purpose_in_its_first_line(name):
    first = TEXTS[name].splitlines()[0]
    assert first.startswith(("// ", "/* ", "/** ")) and len(first.split()) >= 5


def test_what_the_pages_bring_along_is_pinned_exactly():
    listed = json.loads(TEXTS["package.json"])
    locked = json.loads(TEXTS["package-lock.json"])["packages"]
    for name, version in (listed["dependencies"] | listed["devDependencies"]).items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version) and locked[f"node_modules/{name}"]["version"] == version


FORBIDDEN = {
    "a package registry's host": r"(py[p]i|python[h]osted|np[m]js|ana[c]onda)[.](org|com)",
    "an absolute path": r"(?<![\w.:/~-])/(home|root|Users|tmp|opt|work|mnt|var)/\w",
    "a merge conflict": r"^(<<<<<<<|>>>>>>>) ",
}
ATTACKS = "tests/exploits/"  # which try the folders that any machine may have


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what):
    checked = {n: t for n, t in CHECKED.items() if not (n.startswith(ATTACKS) and what == "an absolute path")}
    assert [name for name, text in checked.items() if re.search(FORBIDDEN[what], text, flags=re.MULTILINE)] == []


def test_the_address_of_the_project_stands_in_one_place():
    url = yaml.safe_load(TEXTS["_config.yml"])["repository"]["url"]
    name = url.split("://")[1]
    assert TEXTS["_config.yml"].count(name) == 1
    assert [path for path, text in WRITTEN.items() if name in text and path != "_config.yml"] == []


@pytest.mark.parametrize("name", [name for name in TEXTS if re.match(r"chapters/.*\.md$", name)])
def test_code_fits_the_text_column(name):
    """84 characters, the width that `_static/course.css` makes room for; a cell's metadata is not shown."""
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(?:---\n.*?^---\n)?(.*?)^```", TEXTS[name], re.MULTILINE | re.DOTALL)
    assert [line for cell in cells for line in cell.splitlines() if len(line) > 84] == []
