"""What a cell needs of the cells above it, read from the code alone: when the book is built, and in the page.

A cell *reads* names, *sets* names, and *changes* what a name holds: by a method that is not known to be pure, by
assigning to a part of it, by `out=`. The library never changes what it is given. So what is passed to a call counts as
changed only where it was made to change: a random generator, a cache, and what else is `STATEFUL`.
"""

import ast
import symtable
from dataclasses import dataclass, field
from functools import lru_cache

PURE = {name for kind in (str, bytes, int, float, complex, tuple, frozenset, range) for name in dir(kind)}
PURE |= set(
    """
    all any argmax argmin argsort astype conj copy cumprod cumsum diagonal dot flatten get item items keys max mean min
    nonzero prod ravel repeat reshape round squeeze std sum swapaxes take tobytes tolist trace transpose values var view
    """.split()
)
SETTINGS = ("set_", "seed", "use_")  # how a module's function is called that changes the module
STATEFUL = {"default_rng", "iter", "KVCache", "PagedKVCache", "Decoder", "Traffic"}
MODEL = "smollm2"  # the function that loads the real model


@dataclass
class Uses:
    """What running some code does to names."""

    reads: set = field(default_factory=set)
    mentions: set = field(default_factory=set)  # read, though the code itself may have set it
    sets: set = field(default_factory=set)  # for certain
    may_set: set = field(default_factory=set)
    changes: set = field(default_factory=set)
    calls: set = field(default_factory=set)  # (name, method) that changes what the name holds, unless that is a module
    stateful: set = field(default_factory=set)
    modules: set = field(default_factory=set)
    functions: dict = field(default_factory=dict)  # name -> the Uses of its body

    def read(self, node):
        """Count the names that an expression reads."""
        names = _loaded(node)
        self.mentions |= names
        self.reads |= names - self.sets


@lru_cache(maxsize=1000)
def uses(source):
    """The Uses of a cell, not to be changed; of one that is no Python, none."""
    found = Uses()
    try:
        _block(found, ast.parse(source).body)
    except SyntaxError:
        return Uses()
    return found


def _block(found, statements):
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _definition(found, node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            found.sets |= names
            found.modules |= names
        else:
            _statement(found, node)


def _statement(found, node):
    bodies = [body for name in ("body", "orelse", "finalbody") if (body := getattr(node, name, None))]
    bodies += [part.body for name in ("handlers", "cases") for part in getattr(node, name, [])]
    inside = {id(child) for body in bodies for child in body}
    heads = [child for child in ast.iter_child_nodes(node) if id(child) not in inside] if bodies else [node]
    for head in heads:
        _simple(found, head)
    certain = set(found.sets)
    for body in bodies:
        if isinstance(node, ast.For | ast.AsyncFor):
            found.sets |= _stored(node.target)  # known inside, but a loop may have no turn
        _block(found, body)
        if not isinstance(node, ast.With | ast.AsyncWith):
            found.may_set |= found.sets - certain
            found.sets = set(certain)


def _simple(found, node):
    """A statement that holds no others, or the head of one that does."""
    found.read(node)
    stored = _stored(node)
    if isinstance(made := getattr(node, "value", None), ast.Call):
        found.stateful |= stored if getattr(made.func, "id", getattr(made.func, "attr", "")) in STATEFUL else set()
    for part in ast.walk(node):
        if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
            found.mentions |= {part.target.id}
            found.reads |= {part.target.id} - found.sets
            found.changes |= {part.target.id}
            stored -= {part.target.id}
        elif isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store | ast.Del):
            found.changes |= _root(part)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Del):
            found.changes |= {part.id}
        elif isinstance(part, ast.Call):
            for keyword in part.keywords:
                found.changes |= _root(keyword.value) if keyword.arg == "out" else set()
            if isinstance(part.func, ast.Attribute) and part.func.attr not in PURE:
                found.calls |= {(name, part.func.attr) for name in _root(part.func)}
    if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Store):  # a loop's variable
        found.may_set |= stored
    else:
        found.sets |= stored


def _definition(found, node):
    for part in [*node.decorator_list, *getattr(node, "bases", []), getattr(node, "args", None)]:
        if part is not None:
            found.read(part)
    body, free = Uses(), _globals(node)
    _block(body, node.body)
    body.reads, body.changes = free, body.changes & free
    body.calls = {(name, method) for name, method in body.calls if name in free}
    found.functions[node.name] = body
    found.sets |= {node.name}
    if isinstance(node, ast.ClassDef):  # its instances need them, and are not followed
        found.mentions |= free
        found.reads |= free - found.sets


def _globals(node):
    """The page's names that a definition's code refers to."""
    names, tables = {MODEL} & _loaded(node), [symtable.symtable(ast.unparse(node), "cell", "exec")]
    while tables:
        children = tables.pop().get_children()
        names |= {symbol.get_name() for child in children for symbol in child.get_symbols() if symbol.is_global()}
        tables += children
    return names


COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def _loaded(node):
    """The names that code reads, without the own ones of a comprehension or a lambda."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Store) else {node.id}
    own = set()
    if isinstance(node, COMPREHENSIONS):
        own = set().union(*(_stored(part.target) for part in node.generators))
    elif isinstance(node, ast.Lambda):
        own = {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
    names = set().union(*map(_loaded, ast.iter_child_nodes(node))) - own
    if isinstance(node, COMPREHENSIONS):
        names |= _loaded(node.generators[0].iter)
    return names | ({MODEL} if getattr(node, "attr", None) == MODEL else set())


def _stored(node):
    """The names that code binds outside of comprehensions and lambdas; a walrus binds through them."""
    if isinstance(node, COMPREHENSIONS | ast.Lambda):
        return {part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)}
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store) else set()
    handler = {node.name} if isinstance(node, ast.ExceptHandler) and node.name else set()
    return handler.union(*map(_stored, ast.iter_child_nodes(node)))


def _root(node):
    """The name that `a.b[c]` begins with, if a name it is."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


class Page:
    """The cells of a page, in order: for each what it reads, sets for certain, and writes in any way."""

    def __init__(self, sources):
        found = [uses(source) for source in sources]
        self._modules = set().union(*(one.modules for one in found))
        self._stateful = set().union(*(one.stateful for one in found))
        self.reads, self.sets, self.may_set, self.changes, known = [], [], [], [], {}
        for one in found:
            known |= one.functions
            reads, changes = set(one.reads), self._changes(one)
            waiting, seen = [one.mentions], set()
            while waiting:  # what a function of the page reads and changes, its caller does
                for name in waiting.pop() & known.keys() - seen:
                    seen.add(name)
                    reads |= known[name].reads - one.sets
                    changes |= self._changes(known[name])
                    waiting.append(known[name].reads)
            changes -= one.sets - reads  # set here first: what was there before is left alone
            self.reads.append(reads | changes)
            self.sets.append(one.sets)
            self.may_set.append(one.may_set - one.sets)
            self.changes.append(changes)
            for name in one.sets - one.functions.keys():
                known.pop(name, None)

    def _changes(self, one):
        called = {name for name, how in one.calls if name not in self._modules or how.startswith(SETTINGS)}
        return one.changes | called | (one.reads | one.mentions) & self._stateful

    def writes(self, cell):
        """Every name that holds something else after this cell."""
        return self.sets[cell] | self.may_set[cell] | self.changes[cell]

    def plan(self, cell):
        """The cells above that this one needs, in order."""
        needed, cells = set(self.reads[cell]), []
        for above in range(cell - 1, -1, -1):
            if self.writes(above) & needed:
                cells.append(above)
                needed = (needed - (self.sets[above] - self.reads[above])) | self.reads[above]
        return cells[::-1]

    def with_model(self):
        """The cells that need the real model, or what one of them sets."""
        missing, cells = {MODEL}, set()
        for cell, reads in enumerate(self.reads):
            if reads & missing:
                cells.add(cell)
                missing |= self.writes(cell)
            else:
                missing -= self.sets[cell]
        return cells
