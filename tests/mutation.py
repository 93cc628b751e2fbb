"""`make mutation`: mutmut changes one spot of scratch after another, and each time some test must fail.

mutmut is installed for this run alone, into _build, because it brings a terminal interface that nothing else needs. It
works on a copy under _build/mutation. Lines that only check an argument or build a message are left alone: the tests of
wrong calls hold those. The run takes some twenty minutes on two cores, so it is no part of `make test`.

A mutant that no test can tell from the original is *equivalent*; those are listed in EQUIVALENT with the reason. Any
other survivor makes the run fail, and calls for a test.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

MUTMUT = "mutmut==3.8.1"
MODULES = ("ops", "norm", "loss", "rope", "attention", "ffn", "block")
TESTS = ("witnesses", "oracle", "properties", "scratch")
CONFIGURATION = """\
[tool.mutmut]
source_paths = ["scratch"]
only_mutate = [{modules}]
also_copy = ["tests", "scratch"]
do_not_mutate_patterns = ["_check", "raise ValueError", '^\\s*f"', "where = ", '"\\[']
pytest_add_cli_args_test_selection = [{tests}]
# Here scratch imports mutmut, and counts of source lines see the mutants.
pytest_add_cli_args = ["--deselect", "tests/test_scratch.py::test_import_needs_numpy_alone", "-p", "no:cacheprovider"]

[tool.pytest.ini_options]
filterwarnings = ["error"]
markers = ["model"]
"""

ROOT = Path(__file__).resolve().parents[1]
HOME, TOOL = ROOT / "_build" / "mutation", ROOT / "_build" / "mutmut"

# (a pattern of "function: the changed line", why nothing can tell it from the original).
EQUIVALENT = (
    (r"reshape\(-2", "NumPy takes any negative number for the length that it works out"),
    (r"cross_entropy_forward: .*keep\.size <= flat\.size", "all rows are then taken, which is a copy of them"),
    (r"cross_entropy_forward: .*axis=\+1", "the rows have two axes, so 1 is the last one, too"),
    (
        r"np\.(exp|reciprocal)\(\w+, (out=None)?\)",
        "the result is a new array instead of the old one: only memory differs",
    ),
    (
        r"(sdpa_(forward|backward)|_mask): .*(swapaxes\(-1, \+2\)|shape\[\+2:\])",
        "of four axes, 2 is the last but one, too",
    ),
    (r"_mask: .*np\.where\(pad_mask, 1,", "every key that is seen gets 1 more, which softmax forgets"),
    (
        r"_mask: .*(-np\.inf, (dtype=None)?\)|astype\(None\))",
        "added in place, so what is added takes the scores' dtype",
    ),
    (r"_pairs: .*slice\((None, |Dh // 2\),)", "a slice begins at 0 when it is not told where"),
    (r'convert_layout: .*"(XXhalfXX|HALF)"', "_pairs takes what is not interleaved for half"),
    (r"convert_layout: .*columns / n_heads\) % 2", "n_heads divides the columns here, so the float is whole"),
    (r"chunked_cross_entropy_forward: .*chunk=1025", "a chunk's size changes the memory, never the numbers"),
    (r"block_forward: .*lambda seen: 0", "nobody reads what a watcher returns"),
    (r"named_backward: .*(strict=(None|False)|grads, )\)", "no backward returns more or fewer gradients than names"),
)


def prepare():
    if not (TOOL / "mutmut").exists():
        install = ["-m", "pip", "install", "-qq", "--disable-pip-version-check", "--target", TOOL]
        subprocess.run([sys.executable, *install, MUTMUT, "-c", ROOT / "constraints.txt"], check=True)
    shutil.rmtree(HOME, ignore_errors=True)
    for room in ("scratch", "tests"):
        shutil.copytree(ROOT / room, HOME / room, ignore=shutil.ignore_patterns("__pycache__"))
    modules = ", ".join(f'"scratch/{name}.py"' for name in MODULES)
    tests = ", ".join(f'"tests/test_{name}.py"' for name in TESTS)
    (HOME / "pyproject.toml").write_text(CONFIGURATION.format(modules=modules, tests=tests))


def mutmut(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(TOOL)}
    return subprocess.run([sys.executable, "-m", "mutmut", *arguments], cwd=HOME, env=environment, **options)


def results():
    """(mutant's name, its fate) of every mutant."""
    listed = mutmut("results", "--all", "true", capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\s*(\S+__mutmut_\d+): (.+)$", listed, re.MULTILINE)


def change(name):
    """(function, lines taken away, lines put in their place) of a mutant."""
    shown = mutmut("show", name, capture_output=True, text=True, check=True).stdout.splitlines()
    taken = [line[1:].strip() for line in shown if line.startswith("-") and not line.startswith("---")]
    put = [line[1:].strip() for line in shown if line.startswith("+") and not line.startswith("+++")]
    return re.sub(r".*\.x_?(\w+?)__mutmut_\d+", r"\1", name), " ".join(taken), " ".join(put)


def report():
    """Print every survivor; True if one of them is not known to be equivalent."""
    fates, unknown = dict(results()), 0
    for name, fate in fates.items():
        if fate != "killed":
            function, taken, put = change(name)
            why = next((why for pattern, why in EQUIVALENT if re.search(pattern, f"{function}: {put}")), None)
            unknown += why is None
            print(f"\n{function}: {fate}{'' if why is None else f', equivalent: {why}'}\n  - {taken}\n  + {put}")
    killed = sum(fate == "killed" for fate in fates.values())
    print(f"\n{len(fates)} mutants, {killed} killed, {len(fates) - killed - unknown} equivalent, {unknown} survived")
    return unknown > 0


if __name__ == "__main__":
    prepare()
    mutmut("run", "--max-children", str(os.cpu_count()), check=True)
    sys.exit(report())
