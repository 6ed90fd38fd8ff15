"""Random expressions over sizes: value, range, text and facts of a symbolic number agree with plain Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import hypothesis
import torch
from hypothesis import strategies

from stator._C import _symbols

SETTINGS = hypothesis.settings(
    max_examples=300,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)

# Sizes are at least 2; divisors are sizes or constants other than 0.
NUMBERS = strategies.sampled_from(["a", "b", "c"]) | strategies.integers(-4, 9)
BINARY: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "max": max,
    "min": min,
}
DIVIDING = {"//": operator.floordiv, "%": operator.mod}
DIVISORS = strategies.sampled_from(["a", "b", "c", 2, 3, 4, 8, -3])
COMPARISONS = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt}
SYMBOLIC = {"max": torch.sym_max, "min": torch.sym_min}


def trees(parts):
    return (
        strategies.tuples(strategies.sampled_from(sorted(BINARY)), parts, parts)
        | strategies.tuples(strategies.sampled_from(sorted(DIVIDING)), parts, DIVISORS)
        | strategies.tuples(strategies.sampled_from(["neg", "abs"]), parts)
    )


TREES = strategies.recursive(NUMBERS, trees, max_leaves=8)
SIZES = strategies.tuples(*[strategies.integers(2, 40)] * 3)


def evaluated(tree, values, functions):
    if not isinstance(tree, tuple):
        return values[tree] if isinstance(tree, str) else tree
    name, *parts = tree
    operands = [evaluated(part, values, functions) for part in parts]
    return functions[name](*operands)


PLAIN = {**BINARY, **DIVIDING, "neg": operator.neg, "abs": abs}
WITH_SYMBOLS = PLAIN | SYMBOLIC


def symbols(hints):
    env = _symbols.ShapeEnv.make()
    sizes = [torch.SymInt(env.add_backed(hint, f"x.size({i})", shared=False)) for i, hint in enumerate(hints)]
    return env, dict(zip("abc", sizes, strict=True))


def text_value(node, values):
    """The value of a number's text, which is Python, at other sizes."""
    names = {f"s{i}": value for i, value in enumerate(values)}
    return eval(str(node), {"math": math, "min": min, "max": max, "abs": abs, "__builtins__": {}}, names)


@SETTINGS
@hypothesis.given(TREES, SIZES, strategies.lists(SIZES, min_size=3, max_size=3))
def test_values_ranges_and_texts(tree, hints, others):
    env, sizes = symbols(hints)
    number = evaluated(tree, sizes, WITH_SYMBOLS)
    expected = evaluated(tree, dict(zip("abc", hints, strict=True)), PLAIN)
    if not isinstance(number, torch.SymInt):
        assert number == expected
        return
    assert number.node.hint == expected
    low, high = env.range(number.node)
    simple = env.simplify(number.node)
    for values in [hints, *others]:
        exact = evaluated(tree, dict(zip("abc", values, strict=True)), PLAIN)
        assert (low is None or low <= exact) and (high is None or exact <= high)
        assert text_value(number.node, values) == text_value(simple, values) == exact
    assert not env.guards()


@SETTINGS
@hypothesis.given(
    TREES, TREES, strategies.sampled_from(sorted(COMPARISONS)), SIZES, strategies.lists(SIZES, min_size=5)
)
def test_questions(left, right, name, hints, others):
    """What is known holds for all sizes; a guard holds exactly where the answer is that of the hints."""
    env, sizes = symbols(hints)
    compare = COMPARISONS[name]

    def asked(values, functions):
        return compare(evaluated(left, values, functions), evaluated(right, values, functions))

    truth = asked(sizes, WITH_SYMBOLS)
    expected = asked(dict(zip("abc", hints, strict=True)), PLAIN)
    known = truth if isinstance(truth, bool) else env.known(truth.node)
    assert bool(truth) == expected
    for values in others:
        exact = asked(dict(zip("abc", values, strict=True)), PLAIN)
        assert known is None or known == exact
        names = {f"s{i}": value for i, value in enumerate(values)}
        names |= {"min": min, "max": max, "abs": abs}
        assert all(eval(guard, {"__builtins__": {}}, names) for guard in env.guards()) == (exact == expected)
