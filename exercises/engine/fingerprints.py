"""Fingerprints of code, by which a copy of a function is recognized after it was renamed."""

import dis
import hashlib
import types


def nested(code):
    """A code object and all that are written inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)


def fingerprint(code):
    """What stays the same when a function is copied, moved or renamed, or its variables are.

    The names that it looks up, its constants, its arithmetic. Not all its instructions: those for a call depend on how
    the name came into the module. Nor None, which takes the place of a docstring that was left out.
    """
    constants = [c for c in code.co_consts if not isinstance(c, types.CodeType | str | None)]
    arithmetic = bytes(what for how, what in zip(code.co_code[::2], code.co_code[1::2]) if how == _BINARY_OP)
    return code.co_names, code.co_argcount, code.co_nlocals, repr(constants), arithmetic


def digest(code):
    """The fingerprint as a short text, to be sent and compared."""
    return hashlib.sha256(repr(fingerprint(code)).encode()).hexdigest()[:32]


_BINARY_OP = dis.opmap["BINARY_OP"]
