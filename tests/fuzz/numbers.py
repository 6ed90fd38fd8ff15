"""Random expressions over sizes, ints and floats, as programs: what stays symbolic must be what Python computes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.grammar import HEAD, SIZES, Inputs
from tests.fuzz.rows import PRELUDE

NUMBERS = ("m", "n", "w", "x.numel()", "len(xs)", "0", "1", "2", "3", "-1", "7", "0.5", "2.0")
ROWS = (
    "({} + {})",
    "({} - {})",
    "({} * {})",
    "({} // {})",
    "({} % {})",
    "({} / {})",
    "min({}, {})",
    "max({}, {})",
    "max({}, {}, {})",
    "abs({})",
    "(-{})",
    "int({})",
    "float({})",
    "bool({})",
    "round({})",
    "math.floor({})",
    "math.ceil({})",
    "math.trunc({})",
    "math.sqrt(abs({}))",
    "divmod({}, {})[0]",
    "divmod({}, {})[1]",
    "sum([{}, {}])",
    "math.prod([{}, {}])",
    "(int({}) & int({}))",
    "(int({}) | int({}))",
    "(int({}) ^ int({}))",
    "(~int({}))",
    "(int({}) << (int({}) & 3))",
    "(int({}) >> (int({}) & 3))",
    "(int({}) ** (int({}) & 3))",
    "math.gcd(int({}), int({}))",
    "math.isqrt(abs(int({})))",
    "int({}).bit_length()",
    "pow(int({}), int({}) & 7, 10)",
    "len(str({}))",
    "({} if {} else {})",
    "({} and {})",
    "({} or {})",
)
TRUTHS = ("({} < {})", "({} <= {})", "({} == {})", "({} != {})", "(not {})", "({} < {} <= {})", "({} > {})")
TEXTS = ('f"{{{}}}"', '"%s" % ({},)', '"{{}}".format({})', "str(({}, {}))", "hex(int({}))", "str({}).zfill(9)")
USES = ("x * {}", "x[: int({})]", "torch.arange(int({}) % 9)", "x + torch.tensor({})", "x.new_zeros(abs(int({})) % 7)")
INTS = (0, 1, 2, 3, 5, -1, -7, 64, 2**31, 2**62, 2**63 - 1, -(2**63), 2**64)


def expression(choose: Callable[[int], int], depth: int) -> str:
    if depth <= 0 or choose(5) == 0:
        return NUMBERS[choose(len(NUMBERS))]
    rows = TRUTHS if choose(6) == 0 else ROWS
    return filled(rows[choose(len(rows))], choose, depth - 1)


def filled(row: str, choose: Callable[[int], int], depth: int) -> str:
    return row.format(*(expression(choose, depth) for _ in range(row.count("{}"))))


def attempt(name: str, value: str) -> list[str]:
    return [
        "try:",
        f"    {name} = {value}",
        "except (ArithmeticError, ValueError, TypeError, RuntimeError, IndexError, MemoryError) as error:",
        f"    {name} = type(error).__name__",
    ]


def random_case_of_numbers(seed: int) -> tuple[str, list[list[Inputs]]]:
    """A program that computes with numbers, and calls with other sizes and ints, for each way to compile it."""
    choose = random.Random(seed).randrange
    body = ["m = x.size(0)"]
    names = []
    for rows in (("{}",), ("{}",), TEXTS, USES):
        names.append(f"v{len(names)}")
        value = filled(rows[choose(len(rows))], choose, 3)
        body += attempt(names[-1], value) if choose(2) else [f"{names[-1]} = {value}"]
    body.append(f"return x + 1, {', '.join(names)}")
    source = PRELUDE + "\n\n" + "\n    ".join([HEAD, *body]) + "\n"
    sizes = [5, 3, 8, 2 + choose(11), choose(3), 5]
    base = Inputs(0, 3, lengths=(1 + choose(2), 2))
    calls = [
        replace(base, seed=i, size=size, n=INTS[choose(len(INTS))] if i > 1 else 3 + i, w=choose(9) / 4 - 1)
        for i, size in enumerate(sizes)
    ]
    return source, [[replace(call, sizes=way) for call in calls] for way in SIZES]
