"""Numbers that depend on data in `torch.fx` graphs: Python numbers, made by functions that torch's compilers know."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from . import _C

ITEM, SIZE, NUMBER = "stator::item", "stator::size", "stator::number"
CHOOSE = "stator::choose"


def _is_symbolic(number: Any) -> bool:
    return isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool))


def lesser(a: Any, b: Any) -> Any:
    if _is_symbolic(a) or _is_symbolic(b):
        return torch.sym_min(a, b)
    return b if b < a else a


def greater(a: Any, b: Any) -> Any:
    if _is_symbolic(a) or _is_symbolic(b):
        return torch.sym_max(a, b)
    return b if b > a else a


def truth(number: Any) -> Any:
    return number if isinstance(number, (bool, torch.SymBool)) else number != 0


def chosen(condition: Any, a: Any, b: Any) -> Any:
    if _is_symbolic(condition):
        return torch.sym_ite(condition, a, b)
    return a if condition else b


# What `stator::number` computes, by its first argument.
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")
_COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")
_MATH = ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
_BINARY: dict[str, Callable[..., Any]] = {name: getattr(operator, name) for name in _OPERATORS + _COMPARISONS} | {
    "min": lesser,
    "max": greater,
    "and": operator.and_,
    "or": operator.or_,
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
    "gcd": math.gcd,
}
_UNARY: dict[str, Callable[..., Any]] = {
    name: getattr(torch, "_sym_" + name, getattr(math, name)) for name in _MATH
} | {
    "bit_count": int.bit_count,
    "bit_length": int.bit_length,
    "isqrt": math.isqrt,
    "not": torch.sym_not,
    "neg": operator.neg,
    "abs": operator.abs,
    "int": torch.sym_int,
    "float": torch.sym_float,
    "bool": truth,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
}
FUNCTIONS = _BINARY | _UNARY
UNARY = frozenset(_UNARY)


def number_tensor(number: torch.Tensor | float) -> torch.Tensor:
    """The number as a tensor, for an operator that takes only tensors."""
    return number if isinstance(number, torch.Tensor) else _C.number_tensor(number)
