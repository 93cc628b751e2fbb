"""What running a cell does to names, read from its code alone.

A cell *reads* names, *sets* names, and *changes* what a name holds: by a method that is not known to be pure, by
assigning to a part of it, by `out=`. The library changes nothing that it is given, but for `IN_PLACE`. So what is
passed to a call counts as changed only where it was made to change: a random generator, a cache, and what else is
`STATEFUL`. Two names may hold one thing, or parts of one: these are *links*. A name *carries* the functions that may be
called through it.
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
STATEFUL = {"default_rng", "Generator", "RandomState", "KVCache", "PagedKVCache", "Decoder", "Traffic"}
ITERATORS = {"iter", "zip", "map", "filter", "enumerate", "reversed", "open", "StringIO", "count", "cycle"}
IN_PLACE = dict.fromkeys(  # functions that change an argument, and which
    """
    setattr delattr next shuffle heapify heappush heappop heapreplace heappushpop insort copyto at fill_diagonal put
    place putmask clip_gradients
    """.split(),
    (0,),
) | {"adamw_step": (0, 2)}
PARTS = set(  # functions and methods whose result may hold what they were given
    """
    list tuple dict set zip enumerate reversed sorted iter map filter next max min getattr vars partial get items values
    setdefault pop popitem T reshape ravel view transpose swapaxes squeeze diagonal asarray atleast_1d atleast_2d
    broadcast_to expand_dims moveaxis split array_split
    """.split()
)
NUMBERS = {"shape", "size", "ndim", "dtype"}  # of an array: no part of it
ANYTHING = {"exec", "eval", "globals", "locals"}  # functions that may read and set any name
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
    stateful: set | bool = field(default_factory=set)  # names; of a function, whether it gives such a thing
    modules: set = field(default_factory=set)
    functions: dict = field(default_factory=dict)  # name -> the Uses of its body
    changed: list = field(default_factory=list)  # a function's parameters that it changes: (place or None, name)
    gives: bool = False  # a function: what it returns may hold a part of its arguments
    lends: set = field(default_factory=set)  # a function: the page's names of which what it returns may hold a part
    makes: bool = False  # calling it may give functions that live on: it holds some, or is a class
    links: list = field(default_factory=list)  # (names, names that they may share with, the function between or None)
    carries: list = field(default_factory=list)  # (names, names mentioned, names called, what its lambdas read)
    given: list = field(default_factory=list)  # (function, argument's place or keyword, the names it may be part of)
    turns: set = field(default_factory=set)  # the variables of its loops
    anything: bool = False  # it may read and set any name

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
        _block(found, _Local().visit(ast.parse(source)).body)
    except SyntaxError:
        return Uses()
    return found


class _Local(ast.NodeTransformer):
    """Takes `nonlocal` away, so that a nested function can be looked at alone; a mark is left."""

    MARK = "nonlocal"

    def visit_Nonlocal(self, node):
        return ast.copy_location(ast.Expr(ast.Constant(self.MARK)), node)


def _block(found, statements):
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _definition(found, node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = {(alias.asname or alias.name).partition(".")[0] for alias in node.names} - {"*"}
            found.anything |= any(alias.name in ("*", "__main__") for alias in node.names)
            if any("." in alias.name and not alias.asname for alias in node.names):  # adds to a package
                found.may_set |= names
            found.sets |= names
            found.modules |= names
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            _statement(found, node)
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            for name in names:
                body = [ast.copy_location(ast.Return(node.value.body), node)]
                function = ast.FunctionDef(name, node.value.args, body, [], type_params=[])
                _definition(found, ast.copy_location(function, node))
        else:
            _statement(found, node)


def _statement(found, node):
    bodies = [body for name in ("body", "orelse", "finalbody") if (body := getattr(node, name, None))]
    bodies += [part.body for name in ("handlers", "cases") for part in getattr(node, name, [])]
    inside = {id(child) for body in bodies for child in body}
    heads = [child for child in ast.iter_child_nodes(node) if id(child) not in inside] if bodies else [node]
    for head in heads:
        _simple(found, head)
    _connect(found, heads)
    certain = set(found.sets)
    for body in bodies:
        if isinstance(node, ast.For | ast.AsyncFor):
            found.sets |= _stored(node.target)  # known inside, but a loop may have no turn
            found.turns |= _stored(node.target)
        _block(found, body)
        if not isinstance(node, ast.With | ast.AsyncWith):
            found.may_set |= found.sets - certain
            found.sets = set(certain)


def _simple(found, node):
    """A statement that holds no others, or the head of one that does."""
    found.read(node)
    stored = _stored(node)
    value, targets = getattr(node, "value", None), getattr(node, "targets", [node])
    unpacked = any(isinstance(target, ast.Tuple | ast.List) for target in targets)  # which uses an iterator up
    if any(_called(part) in STATEFUL for part in _made(value)) or not unpacked and _is_iterator(value):
        found.stateful |= stored
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
            _call(found, part)
    is_target = isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Store)  # of a loop
    if is_target or isinstance(node, ast.ExceptHandler | ast.match_case):
        found.may_set |= stored
    else:
        found.sets |= stored


def _call(found, node):
    name = _called(node)
    found.anything |= name in ANYTHING
    if isinstance(node.func, ast.Attribute) and node.func.attr not in PURE:
        found.calls |= {(root, ast.unparse(node.func).partition(".")[2]) for root in _root(node.func)}
    for place in IN_PLACE.get(name, ()):
        found.changes |= set().union(*map(_shared, node.args[place : place + 1]))
    arguments = [*enumerate(node.args), *((keyword.arg, keyword.value) for keyword in node.keywords)]
    found.given += [(name, place, _shared(value)) for place, value in arguments]


def _called(node):
    """The last name of what a call calls; "" for what is no call."""
    func = getattr(node, "func", None)
    return getattr(func, "id", getattr(func, "attr", ""))


def _is_iterator(node):
    return isinstance(node, ast.GeneratorExp) or _called(node) in ITERATORS


def _made(node):
    """The expressions that may be a value, or be held in it."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict | ast.IfExp | ast.Starred | COMPREHENSIONS):
        return [part for child in ast.iter_child_nodes(node) for part in _made(child)]
    return [node]


def _connect(found, heads):
    """Note what the names that a statement stores may have in common with those it reads."""
    stored = set().union(*map(_stored, heads))
    for part in (part for head in heads for part in ast.walk(head)):
        if isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store):
            stored |= _root(part)
    sums = [head for head in heads if isinstance(head, ast.AugAssign)]  # new numbers, but for a list made longer
    if not stored or any(not isinstance(head.value, ast.List | ast.ListComp | ast.Tuple) for head in sums):
        return
    values = [getattr(head, name, None) for head in heads for name in ("value", "iter", "context_expr")]
    values = [value for value in values if isinstance(value, ast.expr)] or [h for h in heads if isinstance(h, ast.expr)]
    for value in values:
        found.links += [(stored, _shared(value), None)] if _shared(value) else []
        calls = [part for part in ast.walk(value) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)]
        for call in calls:
            shared = set().union(*map(_shared, [*call.args, *(keyword.value for keyword in call.keywords)]))
            found.links.append((stored, shared, call.func.id))
        called = {call.func.id for call in calls}
        lambdas = set().union(*(_loaded(part) for part in ast.walk(value) if isinstance(part, ast.Lambda)))
        found.carries.append((stored, _mentioned(value), called, lambdas))


def _mentioned(node):
    """The names in an expression, but for those that it calls."""
    if isinstance(node, ast.Call):
        inside = [] if isinstance(node.func, ast.Name) else [node.func]
        return set().union(*map(_mentioned, [*inside, *node.args, *node.keywords]))
    return {node.id} if isinstance(node, ast.Name) else set().union(*map(_mentioned, ast.iter_child_nodes(node)))


def _shared(node):
    """The names of which an expression's value may be a part, or hold one."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, ast.Subscript | ast.Starred):
        return _shared(node.value)
    if isinstance(node, ast.Attribute):
        return set() if node.attr in NUMBERS else _shared(node.value)
    if isinstance(node, ast.BinOp | ast.Compare | ast.UnaryOp | ast.JoinedStr | ast.Lambda):
        return set()
    if isinstance(node, ast.Call):
        if _called(node) not in PARTS:
            return set()
        inside = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return set().union(*map(_shared, [*inside, *node.args, *(keyword.value for keyword in node.keywords)]))
    return set().union(*map(_shared, ast.iter_child_nodes(node)))


def _definition(found, node):
    for part in [*node.decorator_list, *getattr(node, "bases", []), getattr(node, "args", None)]:
        if part is not None:
            found.read(part)
    body, free = Uses(), _globals(node)
    _block(body, node.body)
    body.makes = isinstance(node, ast.ClassDef) or bool(body.functions)
    body.makes |= any(isinstance(part, ast.Lambda) for part in ast.walk(node))
    for inner in body.functions.values():  # whoever calls the outer one may call these
        body.changes |= inner.changes
        body.calls |= inner.calls
    declared = {name for part in ast.walk(node) if isinstance(part, ast.Global) for name in part.names}
    body.changes |= declared & (body.sets | body.may_set)
    body.reads, touched = free | declared, body.changes
    body.changes, body.calls, calls = touched & body.reads, set(), body.calls
    body.calls = {(name, method) for name, method in calls if name in body.reads}
    touched = touched | {name for name, _ in calls}
    body.changed = _changed_parameters(node, body, touched)
    defaults = _shared(node.args) if hasattr(node, "args") else set().union(*(others for _, others, _ in body.links))
    found.links.append(({node.name}, defaults, None))  # they live on in the function, or class
    if defaults and (body.changed or isinstance(node, ast.ClassDef)):
        body.changes |= {node.name}
        body.reads = body.reads | {node.name}
    body.gives = _given_back(node, body)
    body.lends = {name for name in body.reads if _holds({name}, node, body)}
    lives_on = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))
    lives_on |= any(getattr(part, "value", None) == _Local.MARK for part in ast.walk(node))
    values = _returned(node)
    made = any(_called(part) in STATEFUL for value in values for part in _made(value))
    body.stateful = lives_on or made or any(map(_is_iterator, values))
    found.functions[node.name] = body
    found.sets |= {node.name}
    if isinstance(node, ast.ClassDef):
        found.carries.append(({node.name}, set().union(*map(_loaded, node.bases)), set(), set()))
        found.mentions |= free
        found.reads |= free - found.sets


def _returned(node):
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Return | ast.Yield) and part.value]


def _given_back(node, body):
    if isinstance(node, ast.ClassDef):
        return True
    return body.makes or _holds({part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}, node, body)


def _holds(held, node, body):
    """Whether what a definition returns may hold a part of what these names hold."""
    for names, others, _ in body.links:
        held = held | names if others & held else held
    return any(_shared(value) & held for value in _returned(node))


def _changed_parameters(node, body, touched):
    """The parameters of a function that it changes, itself or through names that it links to them."""
    if isinstance(node, ast.ClassDef):
        return []
    touched = set(touched)
    for names, others, _ in reversed(body.links):
        touched |= others if names & touched else set()
    places = [*node.args.posonlyargs, *node.args.args]
    found = [(at, part.arg) for at, part in enumerate(places)]
    found += [(None, part.arg) for part in node.args.kwonlyargs]
    every = [part.arg for part in (node.args.vararg, node.args.kwarg) if part]
    if touched & set(every):  # which of them, is not known
        found = [(at, name) for at in range(20) for name in every]
        touched |= set(every)
    return [(at, name) for at, name in found if name in touched]


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
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return set()
    named = isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name
    rest = isinstance(node, ast.MatchMapping) and node.rest
    return {name for name in (named, rest) if name}.union(*map(_stored, ast.iter_child_nodes(node)))


def _root(node):
    """The name that `a.b[c]` begins with, if a name it is."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
