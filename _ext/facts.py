"""Leave `_ = fact(…)` out of the cells as a page shows them.

These lines hold the text's numbers to the computed ones. They run all the same, and stand in the notebooks and in the
sources. On the page they would hide the lines that matter, and give away what the reader is asked to predict.
"""

import ast

from docutils import nodes


def without_facts(code):
    """The code without its fact statements, or as it is where nothing else would be left of a block."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a magic
        return code
    gone = set()
    for node in ast.walk(tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                facts = [statement for statement in block if _is_fact(statement)]
                if len(facts) < len(block):
                    gone |= {n for fact in facts for n in range(fact.lineno, fact.end_lineno + 1)}
    shown = []
    for line in (line for n, line in enumerate(code.splitlines(), 1) if n not in gone):
        if line.strip() and shown[-1:] == [""]:
            while shown[-1:] == [""]:
                shown.pop()
            around = line.startswith(("def ", "class ", "@")) or shown[-1:] and shown[-1].startswith(" ")
            shown += ["", ""] if around and not line.startswith(" ") else [""]
        shown.append(line.rstrip())
    return "\n".join(shown).strip("\n")


def _is_fact(statement):
    """Whether this is `_ = fact(…)`."""
    if not isinstance(statement, ast.Assign) or [getattr(target, "id", None) for target in statement.targets] != ["_"]:
        return False
    return getattr(getattr(statement.value, "func", None), "id", None) == "fact"


def clean(app, doctree):
    """Shorten every cell of a page."""
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code_source":
            for block in cell.findall(nodes.literal_block):
                code = without_facts(block.astext())
                block.rawsource, block.children = code, [nodes.Text(code)]


def setup(app):
    """Register with Sphinx."""
    app.connect("doctree-read", clean)
    return {"version": "1", "parallel_read_safe": True}
