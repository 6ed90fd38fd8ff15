"""Symbolic numbers as Python sees them: arithmetic of torch.SymInt, and the functions of torch's symbolic_shapes."""

from __future__ import annotations

import math
import operator

import pytest
import torch
from torch._prims_common import is_expandable_to

import stator
from stator._C import _symbols
from tests.python.helpers import run_program


@pytest.fixture
def shapes():
    import torch.fx.experimental.symbolic_shapes as module

    return module


class Numbers:
    """Two sizes with hints 5 and 7, and a number that depends on data."""

    def __init__(self):
        self.env = _symbols.ShapeEnv.make()
        self.a = torch.SymInt(self.env.add_backed(5, "x.size(0)"))
        self.b = torch.SymInt(self.env.add_backed(7, "y.size(0)"))
        self.u = torch.SymInt(self.env.add_unbacked())


@pytest.fixture
def numbers():
    return Numbers()


USES = [
    lambda a, b: a + b,
    lambda a, b: 3 * a - b // 2,
    lambda a, b: a % 3 + b**2,
    lambda a, b: abs(a - b),
    lambda a, b: -a,
    lambda a, b: +a,
    lambda a, b: a << 2,
    lambda a, b: b >> 1,
    lambda a, b: a & b,
    lambda a, b: a | 8,
    lambda a, b: a ^ b,
    lambda a, b: a / b,
    lambda a, b: round(a / 2),
    lambda a, b: round(a / 3, 2),
    lambda a, b: math.floor(a / b),
    lambda a, b: math.ceil(b / a),
    lambda a, b: math.trunc(a / 2),
    lambda a, b: (a / 2).is_integer(),
    lambda a, b: torch.sym_max(a, b),
    lambda a, b: torch.sym_min(a, b),
    lambda a, b: torch.sym_not(a == b),
    lambda a, b: torch.sym_float(a),
    lambda a, b: torch.sym_int(a / 2),
    lambda a, b: torch.sym_ite(a > b, a, b),
    lambda a, b: torch.sym_sum([a, b, 1, a]),
    lambda a, b: torch._sym_sqrt(a),
    lambda a, b: torch._sym_cos(b),
    lambda a, b: (a == 5) & (b > 6),
    lambda a, b: (a == 5) | (b > 8),
]


@pytest.mark.parametrize("use", USES)
def test_arithmetic(numbers, use):
    """The result is symbolic, asks nothing, and has the value of plain numbers as its hint."""
    made = use(numbers.a, numbers.b)
    expected = use(5, 7)
    assert isinstance(made, (torch.SymInt, torch.SymFloat, torch.SymBool))
    assert made.node.hint == expected
    assert made.node.pytype is type(expected)
    assert numbers.env.guards() == []
    # An expression of sympy, and back.
    again = made.node.shape_env.node_of(made.node.expr)
    assert again.hint == pytest.approx(expected)


def test_a_sum_of_many_terms(numbers):
    terms = [torch.SymInt(numbers.env.add_backed(100 + i, f"x{i}")) for i in range(2000)]
    assert torch.sym_sum(terms).node.hint == sum(range(100, 2100))


def test_questions(numbers, shapes):
    a, b, u, env = numbers.a, numbers.b, numbers.u, numbers.env
    assert shapes.statically_known_true(a >= 2) and not shapes.statically_known_true(a >= 3)
    assert shapes.statically_known_false(a < 0) and not shapes.statically_known_false(u < 0)
    assert not shapes.guard_or_false(u == 3) and shapes.guard_or_true(u == 3)
    assert env.guards() == []
    assert not shapes.guard_or_true(a == b) and shapes.guard_or_false(a != b)
    assert env.guards() == ["s0 != s1"]
    assert shapes.guard_size_oblivious(a != 1) and shapes.guard_int(b) == 7
    assert env.guards() == ["s0 != s1", "s1 == 7"]
    with pytest.raises(RuntimeError, match="depends on data: u0 >= 4"):
        bool(u > 3)


def test_a_question_outside_of_a_capture_does_not_reach_the_next_one(numbers):
    with pytest.raises(RuntimeError):
        int(numbers.u)
    x = torch.ones(3)
    assert torch.equal(stator.compile(lambda x: x + 1, fullgraph=True)(x), x + 1)


def test_other_functions(numbers, shapes):
    a, b, u = numbers.a, numbers.b, numbers.u
    assert {str(symbol) for symbol in shapes.free_symbols([a + b, u])} == {"s0", "s1", "u0"}
    assert {str(symbol) for symbol in shapes.free_unbacked_symbols(a * u)} == {"u0"}
    assert shapes.has_free_symbols(a) and shapes.has_free_unbacked_symbols(u)
    assert not shapes.has_free_unbacked_symbols(a)
    assert shapes.guarding_hint_or_throw(a) == 5 and shapes.optimization_hint(a * b) == 35
    assert shapes.optimization_hint(u, 9) == 9
    with pytest.raises(shapes.GuardOnDataDependentSymNode):
        shapes.guarding_hint_or_throw(u)
    assert not shapes.is_concrete_int(a) and shapes.has_static_value(a - a + 3) and not shapes.has_static_value(a)
    assert shapes.sym_eq((a, b), (a, b)) and not bool(shapes.sym_eq((a,), (b,)))
    assert is_expandable_to((1, a), (b, a)) and not is_expandable_to((a,), (b,))
    shapes._constrain_range_for_size(u, 2, 10)
    assert shapes.statically_known_true(u <= 10) and shapes.statically_known_true(u >= 2)


def test_environments(numbers):
    env = numbers.a.node.shape_env
    assert env is numbers.b.node.shape_env
    assert env == numbers.u.node.shape_env
    assert env != Numbers().a.node.shape_env or Numbers().env == numbers.env
    one, other = Numbers(), Numbers()
    assert one.env == other.env
    assert bool(one.a > 3)
    assert one.env != other.env
    assert bool(other.a > 3)
    assert one.env == other.env
    one.env.freeze()
    with pytest.raises(RuntimeError):
        bool(one.a == 5)


@pytest.mark.parametrize("compare", [operator.eq, operator.lt, operator.ge])
def test_comparisons_with_floats(numbers, compare):
    assert compare(numbers.a, 4.5).node.hint is compare(5, 4.5)


def test_arithmetic_does_not_import_sympy():
    program = """
import sys, math, torch, stator
import stator
from stator._C import _symbols
env = _symbols.ShapeEnv.make()
a = torch.SymInt(env.add_backed(5, "x"))
torch.empty(3).view(3)
str(a + 1), abs(a), a.node.hint, a.node.pytype
assert "sympy" not in sys.modules, "imported"
"""
    run_program(program)
