"""Expressions over symbolic sizes as text: `NumberText` evaluates a text on torch's symbols, `truth_text` makes a text
of an expression of torch's (sympy's).

The text is what the extension writes and parses: Python's operators, `min`, `max`, `math.*`, and names of symbols.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from typing import Any

import torch

from .fx_numbers import FUNCTIONS, chosen, greater, lesser

_BINARY: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CALLS: dict[str, Any] = {"min": lesser, "max": greater, "round": round}


class NumberText:
    """Evaluates texts; `symbols.number` gives the value of a name."""

    def __init__(self, symbols: Any) -> None:
        self.symbols = symbols

    def value(self, text: str) -> Any:
        return self.visit(ast.parse(text, mode="eval").body, {})

    def visit(self, node: ast.expr, named: dict[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return named[node.id] if node.id in named else self.symbols.number(node.id)
        if isinstance(node, ast.BinOp):
            return self.apply(_BINARY[type(node.op)], self.visit(node.left, named), self.visit(node.right, named))
        if isinstance(node, ast.Compare):
            operands = (self.visit(part, named) for part in (node.left, node.comparators[0]))
            return self.apply(_BINARY[type(node.ops[0])], *operands)
        if isinstance(node, ast.BoolOp):
            joined = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return self.reduced(joined, [self.visit(part, named) for part in node.values])
        if isinstance(node, ast.UnaryOp):
            operand = self.visit(node.operand, named)
            return self.apply(torch.sym_not if isinstance(node.op, ast.Not) else operator.neg, operand)
        if isinstance(node, ast.IfExp):
            return self.apply(chosen, *(self.visit(part, named) for part in (node.test, node.body, node.orelse)))
        if isinstance(node, ast.NamedExpr):
            named[node.target.id] = self.visit(node.value, named)
            return named[node.target.id]
        if isinstance(node, ast.Subscript):  # [name := ..., ..., expression][-1]
            assert isinstance(node.value, ast.List)
            return [self.visit(part, named) for part in node.value.elts][-1]
        assert isinstance(node, ast.Call)
        return self.call(node.func, [self.visit(arg, named) for arg in node.args])

    def call(self, function: ast.expr, args: list[Any]) -> Any:
        name = function.attr if isinstance(function, ast.Attribute) else function.id  # type: ignore[attr-defined]
        if name in ("min", "max"):
            return self.reduced(_CALLS[name], args)
        if name == "float" and isinstance(args[0], str):
            return float(args[0])
        called = FUNCTIONS.get(name) or _CALLS.get(name) or getattr(math, name)
        return self.apply(called, *args)

    def apply(self, function: Any, *operands: Any) -> Any:
        return function(*operands)

    def reduced(self, function: Any, operands: list[Any]) -> Any:
        return functools.reduce(functools.partial(self.apply, function), operands)


# The text of an operation of sympy or of torch.utils._sympy.functions, by the name of its class.
_FORMS = {
    "FloorDiv": "({} // {})",
    "CleanDiv": "({} // {})",
    "Mod": "({} % {})",
    "PythonMod": "({} % {})",
    "ModularIndexing": "({} // {} % {})",
    "IntTrueDiv": "({} / {})",
    "PowByNatural": "({} ** {})",
    "Identity": "{}",
    "ToFloat": "float({})",
    "FloorToInt": "math.floor({})",
    "CeilToInt": "math.ceil({})",
    "TruncToInt": "math.trunc({})",
    "Not": "(not {})",
    "Equality": "({} == {})",
    "Unequality": "({} != {})",
    "StrictLessThan": "({} < {})",
    "LessThan": "({} <= {})",
    "StrictGreaterThan": "({} > {})",
    "GreaterThan": "({} >= {})",
}
_JOINED = {"Add": " + ", "Mul": "*", "And": " and ", "Or": " or "}


def truth_text(truth: Any, names: dict[Any, str]) -> str | None:
    """The text of one of sympy's expressions; None if it has no such form."""
    try:
        return _text(truth, names)
    except _NoText:
        return None


class _NoText(Exception):
    pass


def _text(expr: Any, names: dict[Any, str]) -> str:
    if expr.is_Symbol:
        return names[expr]
    if expr.is_Integer:
        return f"({expr})" if expr < 0 else str(expr)
    kind = type(expr).__name__
    if kind in ("BooleanTrue", "BooleanFalse"):
        return "True" if expr else "False"
    parts = [_text(arg, names) for arg in expr.args] if expr.args else None
    if parts is None:
        raise _NoText
    if kind in _JOINED:
        return "(" + _JOINED[kind].join(parts) + ")"
    if kind in ("Max", "Min"):
        return f"{kind.lower()}({', '.join(parts)})"
    if kind == "Pow" and expr.exp.is_Integer and expr.exp > 0:
        return f"({parts[0]} ** {parts[1]})"
    form = _FORMS.get(kind)
    if form is None or form.count("{}") != len(parts):
        raise _NoText
    return form.format(*parts)
