"""Numbers that two programs have in common where they are alike, whatever their names, their layout and their order.

Each statement is a row of tokens: its syntax, the names of attributes, keywords and built-in functions. Of other names
only their order counts, and of constants only their kind. Of each row all pieces of LENGTH tokens are hashed. So new
names, other numbers and comments change nothing, and statements may change places.

Hashed pieces, of which those that many share are left out, are those of Schleimer, Wilkerson and Aiken, "Winnowing:
local algorithms for document fingerprinting", SIGMOD 2003. A statement is short, so all its pieces are kept, no sample.
"""

import ast
import builtins
import hashlib
import itertools

LENGTH = 8  # tokens of a piece
SHORTEST = 5  # tokens of a statement that is a piece as a whole
MOST = 200  # numbers of one exercise's sketch; half of this course's answers have at most 50
MOST_TOKENS = 20_000  # of a statement; a tenth of a second
BITS = 40  # of a number: among thirty million a few hundred pairs are equal by chance

_BUILT_IN = frozenset(dir(builtins))
_IMPORTS = (ast.Import, ast.ImportFrom)
_SILENT = (ast.expr_context, ast.arguments, ast.Expr)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def sketch(numbers):
    """The list of at most MOST of these numbers that stands for all: the smallest, which are those of a copy, too."""
    return sorted(numbers)[:MOST]


def pieces(source):
    """The set of numbers of a piece of Python; empty if it does not parse."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found = set()
    for row in (row for statement in statements for row in _rows(statement)):
        if len(row) >= SHORTEST:
            found |= {_number(row[at : at + LENGTH]) for at in range(max(1, len(row) - LENGTH + 1))}
    return found


def _number(tokens):
    """The hash of a piece in which names are numbered in the order in which they appear."""
    places = {}
    text = " ".join(t if isinstance(t, str) else str(places.setdefault(t, len(places))) for t in tokens)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=BITS // 8).digest(), "big")


def _rows(tree):
    """The tokens of a statement, and of each that is inside of it; a name that was chosen is a tuple."""
    nodes = list(itertools.islice(_nodes(tree), MOST_TOKENS))
    chosen = {one.id for one in nodes if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    chosen |= {one.arg for one in nodes if isinstance(one, ast.arg)}
    chosen |= {one.name for one in nodes if isinstance(one, _DEFINITIONS)}
    kept, row = _BUILT_IN - chosen, []
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield row
            row = []
        row += _token(node, kept)
    yield row


def _nodes(tree):
    """The nodes in the order in which they are written, without docstrings, imports and annotations."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, _IMPORTS) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        yield node
        for field, value in reversed(list(ast.iter_fields(node))):
            if field not in ("annotation", "returns"):
                stack += [one for one in reversed(value if isinstance(value, list) else [value]) if _is_node(one)]


def _is_node(value):
    return isinstance(value, ast.AST)


def _token(node, kept):
    if isinstance(node, _SILENT):
        return []
    if isinstance(node, ast.Name | ast.arg):
        name = node.id if isinstance(node, ast.Name) else node.arg
        return [name if name in kept else (name,)]
    if isinstance(node, ast.Constant):
        return ["number" if type(node.value) in (int, float, complex) else type(node.value).__name__]
    kind = "Assign" if isinstance(node, ast.AnnAssign) else type(node).__name__
    return [f"{kind} {getattr(node, 'attr', getattr(node, 'arg', ''))}"]
