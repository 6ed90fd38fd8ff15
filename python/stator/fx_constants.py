"""Numbers of a graph that torch's compilers must get as constants.

They simplify arithmetic on floats as if it were exact, although each step rounds in Python: `(s + 1e16) - 1e16`
becomes `s`, `s * 0.0` becomes 0, and `s < s + 1` is true. One sum or product of a symbol and a number is exact. Their
control flow operators take ints and no floats.
"""

from __future__ import annotations

import math
from typing import Any

from . import _C
from .fx_numbers import CHOOSE, ITEM, NUMBER, SIZE

CONTROL = frozenset({"stator::cond", "stator::while_loop", "stator::map", "stator::scan"})

# Operations that torch's symbols merge with a sum or product among the operands.
_MERGED = frozenset({"add", "sub", "mul", "neg"})
# Operations that torch's symbols compute from the difference or order of the operands.
_COMPARED = frozenset({"lt", "le", "eq", "ne", "gt", "ge", "min", "max", "mod", "floordiv"})


def is_rounded_otherwise(
    op: str, operands: list[Any], computed: dict[int, str], origins: dict[int, frozenset[int]]
) -> bool:
    """Whether torch's symbols may give another result for an operation on floats. `computed`: the operations that made
    values; `origins`: the numbers from outside that each value depends on."""
    if op not in _MERGED and op not in _COMPARED:
        return False
    values = [operand for operand in operands if isinstance(operand, _C.Value)]
    if any(computed.get(value) in _MERGED for value in values):
        return True
    if len(values) == 2 and origins[values[0]] & origins[values[1]]:
        return True
    numbers = [operand for operand in operands if not isinstance(operand, _C.Value)]
    return op in _MERGED and any(number == 0 or not math.isfinite(number) for number in numbers)


def values_in(operands: Any) -> list[int]:
    if isinstance(operands, list):
        return [value for operand in operands for value in values_in(operand)]
    return [operands] if isinstance(operands, _C.Value) else []


def constant_numbers(graph: _C.Graph) -> set[int]:
    """The values of numbers from outside that torch's compilers must get as constants, not as symbols."""
    types = graph.types()
    if not any(kind == "float" for kind in types):
        return set()
    computed: dict[int, str] = {}
    origins: dict[int, frozenset[int]] = {value: frozenset({value}) for value in graph.inputs}
    found: set[int] = set()
    for name, _overload, args, _kwargs, results, *_ in graph.nodes():
        if name in (ITEM, SIZE):
            origins[results[0]] = frozenset({results[0]})
        if name in CONTROL:
            given = values_in(list(args))
            found = found.union(*(origins.get(value, ()) for value in given if types[value] in ("float", "bool")))
        if name not in (NUMBER, CHOOSE):
            continue
        operands = list(args[1:] if name == NUMBER else args)
        values = [operand for operand in operands if isinstance(operand, _C.Value)]
        result = results[0]
        computed[result] = args[0] if name == NUMBER else CHOOSE
        origins[result] = frozenset().union(*(origins.get(value, frozenset()) for value in values))
        is_float = types[result] == "float" or any(types[value] == "float" for value in values)
        is_float = is_float or any(isinstance(operand, float) for operand in operands)
        if is_float and name == NUMBER and is_rounded_otherwise(args[0], operands, computed, origins):
            found |= origins[result]
    return found
