"""Expressions over the variables of a `shapes_spec`, in a form that the extension and Python compute."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .errors import InvalidOption

# A number, or a tuple: the name of an operator of symbolic numbers and its operands. `("slot", name)` is a slot.
Expression = Any

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "pow": operator.pow,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": operator.not_,
}

# By the names of classes of sympy, and of torch's own functions for it.
_NAMES = {
    "Add": "add",
    "Mul": "mul",
    "Pow": "pow",
    "PowByNatural": "pow",
    "IntTrueDiv": "truediv",
    "FloorDiv": "floordiv",
    "CleanDiv": "floordiv",
    "Mod": "mod",
    "PythonMod": "mod",
    "Max": "max",
    "Min": "min",
    "StrictLessThan": "lt",
    "LessThan": "le",
    "Equality": "eq",
    "Unequality": "ne",
    "StrictGreaterThan": "gt",
    "GreaterThan": "ge",
    "And": "and",
    "Or": "or",
    "Not": "not",
}


def translated(expression: Any, names: Mapping[Any, str]) -> Expression:
    """A sympy expression over variables of a spec; `names`: the slot that binds each."""
    if expression.is_Symbol:
        return ("slot", names[expression])
    if expression.is_Integer:
        return int(expression)
    if expression.is_Boolean and not expression.args:
        return bool(expression)
    name = _NAMES.get(type(expression).__name__)
    if name is None:
        raise InvalidOption(
            f"shapes_spec has an expression that is not supported: {expression}",
            hint="use arithmetic with +, -, *, //, %, min and max, and comparisons",
        )
    operands = [translated(each, names) for each in expression.args]
    if len(operands) == 1:
        return (name, *operands)
    made = operands[0]
    for each in operands[1:]:
        made = (name, made, each)
    return made


def value(expression: Expression, slots: Mapping[str, int]) -> Any:
    if not isinstance(expression, tuple):
        return expression
    name, *operands = expression
    if name == "slot":
        return slots[operands[0]]
    return _OPERATORS[name](*(value(each, slots) for each in operands))


def slots_in(expression: Expression) -> Iterator[str]:
    if isinstance(expression, tuple):
        if expression[0] == "slot":
            yield expression[1]
        else:
            for each in expression[1:]:
                yield from slots_in(each)


_SIGNS = {"add": "+", "mul": "*", "pow": "**", "truediv": "/", "floordiv": "//", "mod": "%"}
_SIGNS |= {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "and": "and", "or": "or"}


def shown(expression: Expression, is_inner: bool = False) -> str:
    if not isinstance(expression, tuple):
        return str(expression)
    name, *operands = expression
    if name == "slot":
        return operands[0]
    if name not in _SIGNS:
        return f"{name}({', '.join(map(shown, operands))})"
    text = f" {_SIGNS[name]} ".join(shown(each, True) for each in operands)
    return f"({text})" if is_inner else text
