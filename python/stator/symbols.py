"""Symbolic numbers as `torch.fx.experimental.symbolic_shapes` sees them: sympy expressions, and the part of its
`ShapeEnv` that its functions and torch's decompositions use.

Nothing here is imported before Python code asks a symbolic number for its expression or environment. That code has
imported sympy.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Iterator
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.utils._sympy import functions
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.reference import PythonReferenceAnalysis
from torch.utils._sympy.value_ranges import ValueRanges

from ._C import _symbols

Node = _symbols.Node

_CLASSES = {int: torch.SymInt, float: torch.SymFloat, bool: torch.SymBool}
# The prefix of unbacked floats in torch; ints have the same prefixes in both.
_FLOAT = "zuf"


def as_number(node: Node) -> Any:
    """The number that a node stands for: plain if it is constant."""
    return node.constant if node.is_constant() else _CLASSES[node.pytype](node)


def as_node(env: _symbols.ShapeEnv, number: Any) -> Node:
    if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return number.node
    zero = env.zero()
    if isinstance(number, bool):
        return zero.wrap_bool(number)
    return zero.wrap_int(number) if isinstance(number, int) else zero.wrap_float(float(number))


# ---- nodes as sympy expressions


def _sum(operands: list[Any], numbers: list[int], addend: int) -> Any:
    return sympy.Add(addend, *(number * operand for number, operand in zip(numbers, operands, strict=True)))


def _product(operands: list[Any], powers: list[int]) -> Any:
    return sympy.Mul(*(operand**power for power, operand in zip(powers, operands, strict=True)))


def _true_division(is_int: bool, a: Any, b: Any) -> Any:
    return functions.IntTrueDiv(a, b) if is_int else functions.FloatTrueDiv(a, b)


_FUNCTIONS: dict[str, Any] = {
    "floordiv": functions.FloorDiv,
    "mod": functions.PythonMod,
    "min": functions.Min,
    "max": functions.Max,
    "lt": sympy.Lt,
    "le": sympy.Le,
    "eq": sympy.Eq,
    "ne": sympy.Ne,
    "gt": sympy.Gt,
    "ge": sympy.Ge,
    "and": sympy.And,
    "or": sympy.Or,
    "not": sympy.Not,
    "neg": lambda a: -a,
    "abs": sympy.Abs,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "bitand": functions.BitwiseFn_bitwise_and,
    "bitor": functions.BitwiseFn_bitwise_or,
    "bitxor": functions.BitwiseFn_bitwise_xor,
    "lshift": functions.LShift,
    "rshift": functions.RShift,
    "ite": lambda condition, a, b: sympy.Piecewise((a, condition), (b, True)),
    "round_digits": functions.RoundDecimal,
    "int": functions.TruncToInt,
    "trunc": functions.TruncToInt,
    "float": functions.ToFloat,
    "bool": lambda a: sympy.Ne(a, 0),
    "floor": functions.FloorToInt,
    "ceil": functions.CeilToInt,
    "round": functions.RoundToInt,
}


def _symbol(node: Node, name: str) -> sympy.Symbol:
    if node.pytype is bool:
        return sympy.Symbol(name)
    if node.pytype is float:
        return sympy.Symbol(_FLOAT + name[1:] if node.is_unbacked else name, real=True)
    # The assumptions that torch's symbols of sizes have; they are part of a symbol's identity.
    return sympy.Symbol(name, integer=True, **({"positive": True} if node.lowest > 0 else {}))


def _built(node: Node, operands: list[Any], parts: tuple[Any, ...]) -> Any:
    op, nodes, numbers, addend, value = parts
    if op == "symbol":
        return _symbol(node, value)
    if op == "constant":
        return sympy.sympify(value)
    if op == "add" and numbers:
        return _sum(operands, numbers, addend)
    if op == "mul" and numbers:
        return _product(operands, numbers)
    if op == "truediv":
        return _true_division(all(operand.pytype is int for operand in nodes), *operands)
    if op == "pow":
        make = functions.PowByNatural if node.pytype is int else functions.FloatPow
        return make(*operands)
    make = _FUNCTIONS.get(op) or getattr(functions, f"OpaqueUnaryFn_{op}", None) or sympy.Function(op)
    return make(*operands)


def expression_of(node: Node) -> Any:
    """The expression, with the equalities that are known by now."""
    environment = environment_of(node.env)
    made = environment.expressions
    root = node.env.simplify(node)
    pending = [root]
    while pending:
        last = pending[-1]
        if last.key in made:
            pending.pop()
            continue
        parts = last.parts()
        missing = [operand for operand in parts[1] if operand.key not in made]
        if missing:
            pending += missing
            continue
        made[last.key] = _built(last, [made[operand.key] for operand in parts[1]], parts)
    environment.nodes.setdefault(made[root.key], root)
    return made[root.key]


class _Arithmetic(PythonReferenceAnalysis):  # type: ignore[misc]
    """The operators of expressions on symbolic numbers: those that torch's own class leaves to sympy."""

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Any:
        return a / b

    @staticmethod
    def trunc_to_int(x: Any, dtype: torch.dtype) -> Any:
        return math.trunc(x)


# ---- environments


class ShapeEnv:
    """The names that torch's own `ShapeEnv` has, over a native environment."""

    allow_scalar_outputs = True
    allow_dynamic_output_shape_ops = True
    prefer_deferred_runtime_asserts_over_guards = False
    tracked_fakes = None

    def __init__(self, native: _symbols.ShapeEnv):
        self.native = native
        self.expressions: dict[int, Any] = {}  # by the address of the native expression
        self.nodes: dict[Any, Node] = {}  # by expression
        self.pending_fresh_unbacked_symbols: list[Any] = []
        self.ignorable_fresh_unbacked_symbols: list[Any] = []
        self.unbacked_renamings: dict[Any, Any] = {}

    # ---- expressions

    def node_of(self, expr: Any) -> Node:
        """The node of an expression over symbols of this environment."""
        if isinstance(expr, Node):
            return expr
        if (known := self.nodes.get(expr)) is not None:
            return known
        symbols = {expression_of(node): node for node in self.native.symbols()}
        values = {symbol: as_number(symbols[symbol]) for symbol in getattr(expr, "free_symbols", ())}
        return as_node(self.native, sympy_interp(_Arithmetic, values, sympy.sympify(expr)))

    def simplify(self, expr: Any) -> Any:
        return expression_of(self.node_of(expr))

    replace = simplify

    def create_symintnode(self, sym: Any, *, hint: Any = None, source: Any = None) -> Any:
        return as_number(self.node_of(sym))

    create_symfloatnode = create_symboolnode = create_symintnode

    # ---- questions

    def evaluate_sym_node(self, node: Node, size_oblivious: bool = False, fallback_value: bool | None = None) -> Any:
        answer = self.native.oblivious(node) if size_oblivious else self._value(node)
        if answer is not None:
            return answer
        if fallback_value is not None:
            return fallback_value
        return node.guard_bool("", 0) if node.is_bool() else node.guard_int("", 0)

    def _value(self, node: Node) -> Any:
        return self.native.decide(node) if node.is_bool() else self.native.specialize(node)

    def evaluate_expr(self, orig_expr: Any, hint: Any = None, fx_node: Any = None, **options: Any) -> Any:
        return self.evaluate_sym_node(
            self.node_of(orig_expr), options.get("size_oblivious", False), options.get("fallback_value")
        )

    def _maybe_evaluate_static(self, expr: Any, **_: Any) -> Any:
        node = self.native.simplify(self.node_of(expr))
        value = self.native.known(node) if node.is_bool() else node.constant
        return None if value is None else sympy.sympify(value)

    def guard_or_defer_runtime_assert(self, orig_expr: Any, msg: str, fx_node: Any = None) -> bool:
        return self.native.assume(self.node_of(orig_expr))

    def bound_sympy(self, expr: Any, size_oblivious: bool = False) -> ValueRanges[Any]:
        node = self.node_of(expr)
        if node.is_bool():
            known = self.native.known(node)
            return ValueRanges.unknown_bool() if known is None else ValueRanges.wrap(known)
        if not node.is_int():
            return ValueRanges.unknown()
        low, high = self.native.range(node)
        return ValueRanges(-int_oo if low is None else low, int_oo if high is None else high)

    @property
    def var_to_range(self) -> dict[Any, ValueRanges[Any]]:
        nodes = [node for node in self.native.symbols() if node.is_int()]
        return {expression_of(node): self.bound_sympy(node) for node in nodes}

    @property
    def backed_var_to_val(self) -> dict[Any, Any]:
        return {
            expression_of(node): sympy.sympify(node.hint) for node in self.native.symbols() if node.hint is not None
        }

    # ---- hints

    def guarding_hint_or_throw(self, expr: Any) -> Any:
        hint = self.node_of(expr).hint
        if hint is None:
            from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

            raise GuardOnDataDependentSymNode(expr, f"{expr} depends on data")
        return hint

    def optimization_hint(self, expr: Any, fallback: int | None = None) -> Any:
        hint = self.node_of(expr).hint
        return fallback if hint is None and fallback is not None else self.guarding_hint_or_throw(expr)

    def size_hint(self, expr: Any, *, allow_none: bool = False) -> Any:
        hint = self.node_of(expr).hint
        return hint if hint is not None or allow_none else self.guarding_hint_or_throw(expr)

    def has_hint(self, expr: Any) -> bool:
        return self.node_of(expr).has_hint()

    # ---- symbols and facts

    def create_unbacked_symint(self, source: Any = None) -> torch.SymInt:
        return as_number(self.native.add_unbacked())

    def create_unbacked_symfloat(self) -> torch.SymFloat:
        return as_number(self.native.add_unbacked_float())

    def create_unbacked_symbool(self) -> torch.SymBool:
        return as_number(self.native.add_unbacked_bool())

    def is_unbacked_symint(self, symbol: Any) -> bool:
        node = self.node_of(symbol)
        return node.is_unbacked and node.is_int()

    def constrain_symbol_range(self, s: Any, compiler_min: int, compiler_max: int) -> None:
        number = as_number(self.node_of(s))
        bounds = ((number >= compiler_min, compiler_min != -int_oo), (number <= compiler_max, compiler_max != int_oo))
        for truth, is_bound in bounds:
            if is_bound and isinstance(truth, torch.SymBool):
                self.native.assume(truth.node)

    def _constrain_range_for_size(self, a: Any, min: int | None = None, max: int | None = None) -> None:
        self.constrain_symbol_range(a, 0 if min is None else min, int_oo if max is None else max)

    _constrain_range = constrain_symbol_range

    def _constrain_unify(self, a: Any, b: Any) -> None:
        truth = a == b
        if isinstance(truth, torch.SymBool):
            self.native.assume(truth.node)

    def freeze(self) -> None:
        self.native.freeze()

    @property
    def frozen(self) -> bool:
        return self.native.is_frozen

    @contextlib.contextmanager
    def ignore_fresh_unbacked_symbols(self) -> Iterator[None]:
        yield

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeEnv) and self.native == other.native

    __hash__ = object.__hash__


_environments: weakref.WeakValueDictionary[int, ShapeEnv] = weakref.WeakValueDictionary()


def environment_of(native: _symbols.ShapeEnv) -> ShapeEnv:
    """The same object as long as somebody holds it."""
    made = _environments.get(native.key)
    if made is None:
        made = _environments[native.key] = ShapeEnv(native)
    return made
