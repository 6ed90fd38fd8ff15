"""Random programs as text. A program is a function of the arguments in `HEAD` over a fixed prelude.

Every variable has one kind: "vector" (a tensor of one dimension), "scalar" (a tensor of none), "int", "tensors" (a
list), and so on; the tables in `rows` list the expressions of each kind.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.rows import (
    ARGUMENTS,
    CONSTANTS,
    EXPRESSIONS,
    HANDLERS,
    HEADS,
    LOOPS,
    LOUD,
    PRELUDE,
    SIMPLE,
    TENSOR_ROWS,
)

HEAD = "def program(x, y, n, flag, xs, ns, d, obj, objs, layers, w):"


@dataclass
class Names:
    """The variables that are in scope."""

    names: dict[str, list[str]]
    functions: list[str] = field(default_factory=list)
    in_loop: bool = False
    depth: int = 0

    def inner(self, **changes: Any) -> Names:
        fields = {"in_loop": self.in_loop, "depth": self.depth + 1} | changes
        return Names({kind: list(names) for kind, names in self.names.items()}, list(self.functions), **fields)


class Writer:
    """Generates one program; `choose(n)` returns a number below n."""

    def __init__(self, choose: Callable[[int], int]):
        self.choose = choose
        self.count = 0
        self.budget = 30
        self.avoid = LOUD if choose(2) else frozenset()

    def allowed(self, rows: Iterable[str]) -> list[str]:
        return [row for row in rows if row not in self.avoid]

    def pick(self, rows: list) -> Any:
        return rows[self.choose(len(rows))]

    def chance(self, one_in: int) -> bool:
        return self.choose(one_in) == one_in - 1

    def fill(self, text: str, scope: Names, depth: int) -> str:
        """Fills the holes of a row with expressions; those of a formatted string only with names."""
        if text.startswith("{=") and " = " not in text and not scope.names[text[2 : text.index("}")]]:
            text = re.sub(r" [+*|]= ", " = ", text)
        out, rest = "", text
        targets = []
        depth = 1 if 'f"' in text else depth
        while "{" in rest:
            before, _, rest = rest.partition("{")
            out += before.replace("}}", "}")
            if rest.startswith("{"):
                out, rest = out + "{", rest[1:]
                continue
            hole, _, rest = rest.partition("}")
            if hole.startswith("="):
                name = self.target(hole[1:], scope, fresh_allowed=" = " in text or " in " in text or " as " in text)
                targets.append((hole[1:], name))
                out += name
            elif hole.startswith("@"):
                out += self.pick(scope.names[hole[1:]] or [f"({self.pick(CONSTANTS[hole[1:]])})"])
            else:
                out += self.expression(hole, scope, depth - 1)
        for kind, name in targets:
            if name not in scope.names[kind]:
                scope.names[kind].append(name)
        return out + rest.replace("}}", "}")

    def target(self, kind: str, scope: Names, fresh_allowed: bool) -> str:
        known = scope.names[kind]
        if known and (not fresh_allowed or self.chance(2)):
            return self.pick(known)
        self.count += 1
        return f"{kind[0]}{self.count}"

    def expression(self, kind: str, scope: Names, depth: int) -> str:
        simple = scope.names[kind] + self.allowed(CONSTANTS[kind])
        if depth <= 0 or not self.chance(2):
            return self.pick(simple)
        if kind == "vector" and scope.functions and self.chance(4):
            return f"{self.pick(scope.functions)}({self.expression('vector', scope, depth - 1)})"
        text = self.fill(self.pick(self.allowed(EXPRESSIONS[kind])), scope, depth)
        return f"({text})" if " " in text else text

    # ---- statements: lists of lines, indented by their block

    def block(self, scope: Names, least: int = 1, most: int = 4) -> list[str]:
        lines: list[str] = []
        for _ in range(least + self.choose(most - least + 1)):
            if self.budget <= 0:
                break
            self.budget -= 1
            lines += self.statement(scope)
        return lines or ["pass"]

    def statement(self, scope: Names) -> list[str]:
        if scope.depth >= 3 or self.choose(10) < 6:
            rows = TENSOR_ROWS if self.chance(3) else SIMPLE
            return [self.fill(self.pick(self.allowed(rows)), scope, 3)]
        kinds = [self.compound, self.compound, self.compound, self.attempt, self.function, self.while_loop]
        return self.pick([*kinds, self.leave, self.match])(scope)

    def compound(self, scope: Names) -> list[str]:
        name = self.pick(self.allowed(HEADS))
        inside = scope.inner(in_loop=scope.in_loop or name in LOOPS)
        head = self.fill(HEADS[name], inside, 3)
        lines = [head, *self.indented(self.block(inside))]
        if name.startswith("if") or name in LOOPS:
            if self.chance(3):
                lines += ["else:", *self.indented(self.block(scope.inner()))]
        return lines

    def while_loop(self, scope: Names) -> list[str]:
        self.count += 1
        counter = f"w{self.count}"
        inside = scope.inner(in_loop=True)
        test = f"{counter} < {self.pick(['2', '3', '1'])}"
        if self.chance(3):
            test += " and " + self.expression("bool", scope, 2)
        body = self.indented([f"{counter} += 1", *self.block(inside)])
        return [f"{counter} = 0", f"while {test}:", *body]

    def attempt(self, scope: Names) -> list[str]:
        lines = ["try:", *self.indented(self.block(scope.inner()))]
        handlers = self.choose(3)
        for _ in range(handlers):
            kind = self.pick(HANDLERS)
            body = self.block(scope.inner(), most=2)
            lines += [f"except {kind} as error:", *self.indented([f"log.append(({kind!r}, str(error)))", *body])]
            if self.chance(5):
                lines += self.indented(["raise"])
        if handlers and self.chance(4):
            lines += ["else:", *self.indented(self.block(scope.inner(), most=2))]
        if not handlers or self.chance(3):
            lines += ["finally:", *self.indented(self.block(scope.inner(in_loop=False), most=2))]
        return lines

    def function(self, scope: Names) -> list[str]:
        """A nested function from vector to vector, with its writes to outer variables."""
        self.count += 1
        name = f"f{self.count}"
        inside = scope.inner(in_loop=False)
        outer = scope.names["int"]
        declared = []
        if outer and self.chance(2):
            changed = self.pick(outer)
            declared = [f"nonlocal {changed}", f"{changed} += 1"]
        body = [f"log.append('{name}')", *declared]
        inside.names["vector"] = ["t"]
        rows = self.allowed(["{vector}", "t * {int}", "helper(t, {int})", "noisy(t)"])
        result = self.fill(self.pick(rows), inside, 3)
        scope.functions.append(name)
        style = self.choose(4)
        if style == 3:
            return [f"def {name}_(t):", *self.indented([*body, f"yield {result}", "yield t"])] + [
                f"def {name}(t):",
                *self.indented([f"return sum({name}_(t), t)"]),
            ]
        return [f"def {name}(t):", *self.indented([*body, f"return {result}"])]

    def leave(self, scope: Names) -> list[str]:
        if scope.in_loop and self.chance(2):
            return [f"if {self.expression('bool', scope, 2)}:", *self.indented([self.pick(["break", "continue"])])]
        value = self.fill("return {vector}, {int}", scope, 2)
        return [f"if {self.expression('bool', scope, 2)}:", *self.indented([value])]

    def match(self, scope: Names) -> list[str]:
        lines = [f"match {self.expression('int', scope, 2)} % 3:"]
        for pattern in ("case 0:", "case 1 | 2 if flag:", "case other_:"):
            lines += self.indented([pattern, *self.indented(self.block(scope.inner(), most=2))])
        return lines

    @staticmethod
    def indented(lines: list[str]) -> list[str]:
        return ["    " + line for line in lines]

    def program(self) -> str:
        scope = Names({kind: list(names) for kind, names in ARGUMENTS.items()})
        body = ["global g_count, g_tensor", *self.block(scope, 4, 12)]
        results = [self.expression(kind, scope, 2) for kind in ("vector", "int", "tensors", "str")]
        body.append(f"return {', '.join(results)}, xs, ns")
        return PRELUDE + "\n\n" + "\n".join([HEAD, *self.indented(body)]) + "\n"


@dataclass(frozen=True)
class Inputs:
    """A small description of one call, from which each run makes new arguments."""

    seed: int
    n: int
    flag: bool = True
    grad: bool = False
    lengths: tuple[int, int] = (1, 2)
    alias: bool = False
    form: str = "plain"  # kind of the tensors: plain, double, strided, long
    number: str = "int"  # type of n: int, float, bool
    world: int = 0  # which global of the module is changed before the call
    family: str = "apart"  # how the instances in `objs` and `layers` are related
    kept: bool = False  # whether calls get the same instances
    w: float = 0.5
    size: int = 3  # of the vectors, and of a global one
    sizes: str = "automatic"  # how the program is compiled; of the first call, see `SIZES`


FORMS = ("plain", "double", "strided", "long")
NUMBERS = ("int", "float", "bool")
# What is said of sizes: nothing, `dynamic=False`, `dynamic=True`, and marks on some of the tensors.
SIZES = ("automatic", "static", "symbolic", "marked")
FAMILIES = ("apart", "same", "tied", "patched", "shadowed", "other class", "other dtype", "tied to an argument")


def inputs_by(choose: Callable[[int], int]) -> list[Inputs]:
    """Arguments of several calls: the same twice, with small changes, with other types, and the first ones again."""
    flag, grad, alias = bool(choose(2)), choose(5) == 4, choose(6) == 5
    first = Inputs(0, choose(6) - 1, flag, grad, (choose(3), choose(4)), alias)
    first = replace(first, family=FAMILIES[choose(len(FAMILIES))], kept=bool(choose(2)))
    other = replace(first, seed=2, n=choose(6) - 1, flag=bool(choose(2)), world=choose(4), w=choose(8) / 8)
    other = replace(other, family=FAMILIES[choose(len(FAMILIES))])
    form, number = FORMS[choose(4)], NUMBERS[choose(2 * len(NUMBERS)) % len(NUMBERS)]
    changed = replace(other, seed=3, flag=not flag, form=form, number=number, grad=choose(5) == 4, lengths=(1, 2))
    changed = replace(changed, family=FAMILIES[choose(len(FAMILIES))], w=-0.3)
    return [first, replace(first, seed=1, w=0.4), other, changed, replace(first, seed=4, w=0.3)]


def sizes_by(choose: Callable[[int], int]) -> list[list[Inputs]]:
    """Arguments of calls that differ in sizes above all, for each way to compile the program."""
    sizes = [5, 3, 8, 2 + choose(11), choose(3), 5]
    if choose(2):
        sizes[:2] = sizes[1::-1]
    base = Inputs(0, choose(6) - 1, bool(choose(2)), choose(5) == 4, (choose(3), choose(4)), choose(6) == 5)
    base = replace(base, form=FORMS[choose(2) * choose(3)], kept=bool(choose(2)))
    calls = [replace(base, seed=i, size=size) for i, size in enumerate(sizes)]
    calls[3] = replace(calls[3], n=choose(6) - 1, flag=bool(choose(2)), w=0.3)
    return [[replace(call, sizes=way) for call in calls] for way in SIZES]


@st.composite
def cases(draw: Callable) -> tuple[str, list[Inputs]]:
    """The source of a random program and the arguments of its calls."""

    def choose(n: int) -> int:
        return draw(st.integers(0, n - 1))

    return Writer(choose).program(), inputs_by(choose)


def random_case(seed: int) -> tuple[str, list[Inputs]]:
    """As above, from a seed alone: faster and more varied, but hypothesis cannot shrink it."""
    choose = random.Random(seed).randrange
    return Writer(choose).program(), inputs_by(choose)


def random_case_of_sizes(seed: int) -> tuple[str, list[list[Inputs]]]:
    """A program, and calls with at least four sizes, for each way to compile it."""
    choose = random.Random(seed).randrange
    return Writer(choose).program(), sizes_by(choose)
