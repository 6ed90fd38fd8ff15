"""Names, defaults and annotations that a traced function gives to the module that is made of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EMPTY = inspect.Parameter.empty


@dataclass
class Signature:
    names: list[str]
    defaults: list[Any]  # EMPTY for none
    returns: Any  # the annotation, or None


def signature_of(f: Callable[..., Any], count: int) -> Signature:
    """Of a call with `count` positional arguments. Callables without code of their own, and those that take any number
    of arguments, have `arg0`, `arg1`, ..."""
    bound = inspect.ismethod(f)
    function = inspect.unwrap(f.__func__ if inspect.ismethod(f) else f)
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARARGS:
        return Signature([f"arg{i}" for i in range(count)], [EMPTY] * count, None)
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])[1 if bound else 0 :]
    if len(names) != count:
        raise RuntimeError(
            f"the traced function takes {len(names)} arguments ({', '.join(names)}), but {count} were given: "
            "each parameter needs an argument, those with defaults too"
        )
    count = code.co_argcount
    given = function.__defaults__ or ()
    by_name = dict(zip(code.co_varnames[count - len(given) : count], given, strict=True))
    by_name.update(function.__kwdefaults__ or {})
    defaults = [by_name.get(name, EMPTY) for name in names]
    return Signature(names, defaults, getattr(function, "__annotations__", {}).get("return"))
