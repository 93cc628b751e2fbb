"""What a notebook needs beyond plain Python: where the real model is not, the cells that need it say so."""

import ast
import html
import symtable
import textwrap

from scratch.pretrained import ModelUnavailable, fetch_smollm2


def skip_without_model():
    """Fetch the real model; where that fails, say why once and skip the cells that need it instead of failing.

    A cell needs the model when it calls `smollm2`, or reads a name that a skipped cell would have set. Outside
    IPython this does nothing more than fetch.
    """
    try:
        fetch_smollm2()
    except ModelUnavailable as error:
        try:
            shell = get_ipython()
        except NameError:
            raise error from None
        _show_note(f"{error} The cells that need it are skipped; the others run.")
        shell.ast_transformers.append(_SkipCells({"smollm2"}))


def _show_note(text):
    from IPython.display import display

    title = "The real model is not here."
    block = '<div class="admonition warning"><p class="admonition-title">{}</p><p>{}</p></div>'
    note = {"text/plain": textwrap.fill(f"{title} {text}", 80), "text/html": block.format(title, html.escape(text))}
    display(note, raw=True)


def say_skipped(draws):
    """What a skipped cell shows: a line, or an empty figure, which keeps the page's figure numbers and links."""
    if not draws:
        print("Skipped: this cell needs the real model.")
        return
    from scratch import viz

    viz.placeholder("This figure needs the real model.")


class _SkipCells(ast.NodeTransformer):
    """Replaces a cell that reads one of `missing` by a line that says so; what it would have set is missing too."""

    def __init__(self, missing):
        self.missing = missing

    def visit_Module(self, cell):
        reads, sets = set(), set()
        for statement in cell.body:
            loaded, stored = _names(statement)
            if not isinstance(statement, ast.Assign | ast.AugAssign):
                loaded -= stored  # a loop's variable, a function's own name
            reads |= loaded - sets
            sets |= stored
        if reads & self.missing:
            self.missing |= sets
            return ast.parse(f"__import__('scratch.notebook').notebook.say_skipped(draws={'viz' in reads})")
        self.missing -= sets
        return cell


def _names(statement):
    """The notebook's names that a statement reads, and those that it sets; not a comprehension's own variables."""
    table = symtable.symtable(ast.unparse(statement), "cell", "exec")
    stored = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
    loaded = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    inner = table.get_children()
    while inner:
        scope = inner.pop()
        loaded |= {s.get_name() for s in scope.get_symbols() if s.is_global()}
        inner += scope.get_children()
    loaded |= {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)} & {"smollm2"}
    return loaded, stored
