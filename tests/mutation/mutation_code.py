"""A mutant in a process that has imported the product already: the code of functions, exchanged.

Every name that a function goes by leads to the one object (`from x import f`, methods, properties),
so `f.__code__` is exchanged and nothing is imported again. What runs at import (constants, class
bodies, defaults of parameters) cannot be planted so: `planted_functions` says None.
"""

import gc
import inspect
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType, FunctionType

Key = tuple[str, str, int]
Functions = dict[Key, list[FunctionType]]


def functions_in(folder: str) -> Functions:
    """All functions of modules below a folder that this process has made so far."""
    found: Functions = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(folder):
            found[_key(one.__code__)].append(one)
    return found


def changed_codes(old: str, new: str, filename: str) -> list[tuple[CodeType, CodeType]] | None:
    """Code of functions that differs, old and new; None when what runs at import differs."""
    codes = [compile(text, filename, "exec", dont_inherit=True) for text in (old, new)]
    pairs = list(_different(*codes))
    return None if any(_runs_at_import(code) for code, _ in pairs) else pairs


def plant(functions: Functions, codes: list[tuple[CodeType, CodeType]]) -> bool:
    """False when one cannot be exchanged: nobody made such a function, or its closure differs."""
    found = False
    for old, new in codes:
        for function in functions.get(_key(old), []):
            if len(function.__code__.co_freevars) != len(new.co_freevars):
                return False
            function.__code__ = new
            found = True
    return found


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _runs_at_import(code: CodeType) -> bool:
    return not code.co_flags & inspect.CO_OPTIMIZED


def _different(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Pairs whose own instructions differ, or those of a function inside them."""
    inner_old, inner_new = _inner(old), _inner(new)
    inner = [
        pair
        for one, other in zip(inner_old, inner_new, strict=False)
        for pair in _different(one, other)
    ]
    is_other = _alone(old) != _alone(new) or len(inner_old) != len(inner_new)
    if is_other or (inner and not _runs_at_import(old)):
        yield old, new
    yield from inner


def _inner(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _alone(code: CodeType) -> tuple[object, ...]:
    """All that its instructions are, but for line numbers and inner functions."""
    return (
        code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags,
        code.co_exceptiontable,
        tuple("code" if isinstance(one, CodeType) else repr(one) for one in code.co_consts),
    )  # fmt: skip
