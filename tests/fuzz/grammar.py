"""Random programs as text. A program is a function `program(x, y, n, flag, xs, ns, d, obj)` over a fixed prelude.

Every variable has one kind: "vector" (a tensor of 3), "scalar" (a tensor without dimensions), "int", "bool", "str",
"tensors" (a list), "ints" (a list). Expressions and statements are rows of tables by kind, each with what it needs;
simple rows come first, since shrinking prefers them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

PRELUDE = """
import contextlib, functools, itertools, math, time
import torch

log = []
g_count = 0
g_table = {"a": 1, "b": 2}
g_tensor = torch.zeros(3)


class Obj:
    total = 0

    def __init__(self, n, t):
        self.n, self.t, self.items = n, t, []

    def step(self, k=1):
        self.n += k
        self.items.append(k)
        return self.t * self.n

    @property
    def twice(self):
        return self.n * 2

    def __add__(self, other):
        return Obj(self.n + 1, self.t + other)

    def __getitem__(self, k):
        return self.t * k

    def __len__(self):
        return len(self.items)

    def __call__(self, t):
        return t + self.n


class Scope:
    def __init__(self, name, suppress=False):
        self.name, self.suppress = name, suppress

    def __enter__(self):
        log.append(("enter", self.name))
        return 2

    def __exit__(self, kind, value, trace):
        log.append(("exit", self.name, kind.__name__ if kind else None))
        return self.suppress


@contextlib.contextmanager
def managed(name):
    log.append(name)
    try:
        yield 3
    finally:
        log.append("left")


def helper(t, k=1, *more, scale=2, **rest):
    log.append(k)
    return t * scale + k + len(more) + len(rest)


def noisy(t, k=0):
    u = t + k
    print("noisy", k)
    return u * 2


def checked(t, k):
    if k > 2:
        raise ValueError(f"too big: {k}")
    return t + k


def numbers(t, k):
    for j in range(k % 4):
        yield t + j
"""

ARGUMENTS = {
    "vector": ["x", "y"],
    "scalar": [],
    "int": ["n"],
    "bool": ["flag"],
    "str": [],
    "tensors": ["xs"],
    "ints": ["ns"],
}
CONSTANTS = {
    "vector": ["torch.ones(3)"],
    "scalar": ["x.sum()", "y[0]"],
    "int": ["0", "1", "2", "3", "-1"],
    "bool": ["(n > 1)", "flag"],
    "str": ["'a'", "''", "'bc'"],
    "tensors": ["[]"],
    "ints": ["[]", "[3, 1, 2]"],
}

# kind -> rows: text with {vector}, {int}, ... to be filled by expressions of that kind.
EXPRESSIONS = {
    "vector": [
        "{vector} + {vector}",
        "{vector} * {int}",
        "{vector} - {scalar}",
        "torch.sin({vector})",
        "{vector}.relu()",
        "{vector}.clone()",
        "(-{vector})",
        "{vector}.flip(0)",
        "torch.where({vector} > 0, {vector}, {vector})",
        "({vector} if {bool} else {vector})",
        "helper({vector}, {int})",
        "helper({vector}, scale={int})",
        "helper({vector}, {int}, 1, 2, extra={int})",
        "noisy({vector}, {int})",
        "checked({vector}, {int})",
        "obj.t",
        "obj.step({int})",
        "obj({vector})",
        "obj[{int}]",
        "(obj + {vector}).t",
        "g_tensor",
        "{vector}[:]",
        "{vector}.view(3)",
        "torch.stack([{scalar}, {scalar}, {scalar}])",
        "torch.cat([{vector}[:1], {vector}[1:]])",
        "(lambda t, k={int}: t + k)({vector})",
        "sum([{vector} * k for k in range(1, 3)])",
        "sum((t for t in {tensors}), {vector})",
        "list(numbers({vector}, 2))[-1]",
        "functools.reduce(lambda a, b: a + b, {tensors}, {vector})",
        "{tensors}[0]",
        "{tensors}[{int}]",
        "{{'k': {vector}}}['k']",
        "{vector}.detach()",
        "{vector}.to(torch.float64).float()",
        "torch.add({vector}, {vector}, alpha={int})",
        "max([{vector}, {vector}], key=lambda t: t.shape[0])",
    ],
    "scalar": [
        "{vector}.sum()",
        "{vector}[0]",
        "{vector}.max()",
        "{scalar} + {int}",
        "{scalar} * {scalar}",
        "torch.tensor(float({int}))",
        "{vector}.mean()",
        "torch.dot({vector}, {vector})",
        "{vector}[{int} % 3]",
        "g_tensor.sum()",
    ],
    "int": [
        "{int} + {int}",
        "{int} * 2",
        "{int} - {int}",
        "{int} % 5",
        "({int} if {bool} else {int})",
        "len({ints})",
        "len({tensors})",
        "abs({int})",
        "max({int}, {int})",
        "min([{int}, {int}, 4])",
        "sum({ints})",
        "{vector}.shape[0]",
        "{vector}.dim()",
        "int({bool})",
        "obj.n",
        "obj.twice",
        "len(obj)",
        "g_count",
        "d['a']",
        "d.get('zz', {int})",
        "g_table['b']",
        "len({str})",
        "{int} // {int}",
        "{ints}[0]",
        "{ints}[{int} % 3]",
        "(lambda k: k * 2)({int})",
        "({int} or {int})",
        "({int} and {int})",
        "int({scalar} > 0)",
        "sum(k for k in {ints} if k > 0)",
        "len(d)",
        "math.gcd({int}, 6)",
        "divmod({int}, 3)[1]",
        "next(iter({ints}), {int})",
        "({int} & 3) | 4",
        "hash({str}) % 1 + {int}",
    ],
    "bool": [
        "{int} > {int}",
        "{int} == {int}",
        "not {bool}",
        "({bool} and {bool})",
        "({bool} or {bool})",
        "{int} in {ints}",
        "'a' in d",
        "{str} == {str}",
        "isinstance({int}, int)",
        "0 <= {int} < 3",
        "bool({ints})",
        "any(k > 1 for k in {ints})",
        "all(k > 0 for k in {ints})",
        "hasattr(obj, 'extra')",
        "{vector} is {vector}",
        "{ints} == {ints}",
        "bool({scalar} > 0)",
        "({vector} > 0).all().item()",
        "{str}.startswith('a')",
        "obj.t is not None",
        "torch.is_grad_enabled()",
        "{vector}.requires_grad",
    ],
    "str": [
        'f"{{{int}}}"',
        'f"{{{int}:>4}}-{{{str}!r}}"[:9]',
        "({str} + {str})[:9]",
        "({str} * 2)[:9]",
        "str({int})",
        "{str}.upper()",
        "','.join([{str}, {str}])[:9]",
        "('%s=%d' % ({str}, {int}))[:9]",
        "{str}.replace('a', 'b')",
        "str({ints})[:9]",
        "str({vector}.shape)",
        'f"{{{bool}}}"',
        "repr({str}[:4])",
        "'{{}}'.format({int})",
        "type({vector}).__name__",
        'f"{{{scalar}.item():.2f}}"',
    ],
    "tensors": [
        "[{vector}]",
        "[{vector}, {vector}]",
        "[t * 2 for t in {tensors}]",
        "list(numbers({vector}, {int}))",
        "{tensors}[-4:] + [{vector}]",
        "list(map(torch.sin, {tensors}))",
        "[{vector} + k for k in {ints}]",
        "{tensors}[::-1]",
        "list({tensors})",
        "list(itertools.chain({tensors}, [{vector}]))",
        "[noisy(t) for t in {tensors}]",
        "[a + b for a, b in zip({tensors}, {tensors})]",
    ],
    "ints": [
        "[{int}, {int}]",
        "list(range({int} % 5))",
        "sorted({ints})",
        "[k + 1 for k in {ints}]",
        "[k for k in {ints} if k > {int}]",
        "{ints}[1:]",
        "{ints} + [{int}]",
        "list(reversed({ints}))",
        "[j * k for j in range(2) for k in {ints}[:3]]",
        "[i for i, _ in enumerate({ints})]",
        "list(d.values())",
        "sorted({ints}, key=lambda k: -k)",
        "list(itertools.accumulate({ints}))",
        "[*{ints}, {int}]",
        "list(dict.fromkeys({ints}))",
        "sorted(set({ints}))",
    ],
}

# Statements of one line: text, with kinds as above; {=vector} is a variable that is assigned, {@vector} a known one.
SIMPLE = [
    "{=vector} = {vector}",
    "{=int} = {int}",
    "{=ints} = {ints}",
    "{=tensors} = {tensors}",
    "{=scalar} = {scalar}",
    "{=str} = {str}",
    "{=bool} = {bool}",
    "{=vector} += {vector}",
    "{=int} += {int}",
    "{=vector} *= {int}",
    "{=ints} += {ints}[:2]",
    "{=tensors} += {tensors}[:2]",
    "{=str} += {str}[:2]",
    "log.append({int})",
    "log.append({str})",
    "print({int})",
    "print({str}, {int})",
    "{@ints}.append({int})",
    "{@tensors}.append({vector})",
    "{@ints}.insert(0, {int})",
    "{@ints}.sort()",
    "{@ints}.reverse()",
    "{@ints}.extend({ints}[:2])",
    "{@ints}.clear()",
    "{@ints}.pop()",
    "{@tensors}.pop(0)",
    "{@ints}[0] = {int}",
    "{@ints}[:2] = {ints}[:3]",
    "del {@ints}[-1]",
    "d['a'] = {int}",
    "d['new'] = {vector}",
    "d.update(b={int})",
    "d.pop('b', None)",
    "d.setdefault('c', {int})",
    "del d['a']",
    "g_table['b'] = {int}",
    "obj.n = {int}",
    "obj.n += {int}",
    "obj.t = {vector}",
    "obj.extra = {str}",
    "obj.items.append({int})",
    "Obj.total += {int}",
    "setattr(obj, 'extra', {int})",
    "g_count = {int}",
    "g_count += {int}",
    "g_tensor = {vector}",
    "g_tensor.add_({vector})",
    "{@vector}.add_({vector})",
    "{@vector}.mul_({int})",
    "{@vector}[0] = {int}",
    "{@vector}[1:] = {scalar}",
    "assert {bool}, {str}",
    "{=int} = int({scalar})",
    "{=int} = {vector}.tolist().count(0.0)",
    "time.sleep(0)",
    "noisy({vector}, {int})",
    "helper({vector}, *{ints})",
    "a0, a1 = {int}, {int}; log.append(a0 - a1)",
    "a2, *a3 = [{int}, {int}, {int}]; log.append((a2, a3))",
    "raise ValueError({str})",
    "raise KeyError({int}) from None",
    "checked({vector}, {int})",
    "{@ints}.remove({int})",
    "log.append(list(d))",
]

TENSOR_ROWS = [row for row in SIMPLE if "vector" in row]

HEADS = {
    "if": "if {bool}:",
    "if_tensor": "if {scalar} > 0:",
    "for_range": "for {=int} in range({int} % 4):",
    "for_list": "for {=int} in {ints}[:3]:",
    "for_tensors": "for {=vector} in {tensors}[:3]:",
    "for_enumerate": "for {=int}, {=vector} in enumerate({tensors}[:3]):",
    "for_zip": "for {=int}, {=vector} in zip([1, 2], {tensors}):",
    "for_rows": "for {=scalar} in {vector}:",
    "for_dict": "for {=str}, k_ in list(d.items())[:3]:",
    "for_generator": "for {=vector} in numbers({vector}, {int}):",
    "with_scope": "with Scope({str}):",
    "with_suppress": "with Scope({str}, True):",
    "with_value": "with managed({str}) as {=int}:",
    "with_two": "with Scope('p') as {=int}, managed('q'):",
    "with_no_grad": "with torch.no_grad():",
    "with_contextlib": "with contextlib.suppress(ZeroDivisionError, ValueError):",
}
# Rows that end a capture or leave the program; a calm program has none of them.
LOUD = {
    "noisy({vector}, {int})",
    "noisy(t)",
    "[noisy(t) for t in {tensors}]",
    "checked({vector}, {int})",
    "{int} // {int}",
    "{ints}[0]",
    "{ints}[{int} % 3]",
    "{tensors}[0]",
    "{tensors}[{int}]",
    "int({scalar} > 0)",
    "bool({scalar} > 0)",
    "({vector} > 0).all().item()",
    'f"{{{scalar}.item():.2f}}"',
    "print({int})",
    "print({str}, {int})",
    "{@ints}.pop()",
    "{@tensors}.pop(0)",
    "{@ints}[0] = {int}",
    "{@ints}.remove({int})",
    "del {@ints}[-1]",
    "del d['a']",
    "d['a']",
    "assert {bool}, {str}",
    "{=int} = int({scalar})",
    "{=int} = {vector}.tolist().count(0.0)",
    "time.sleep(0)",
    "raise ValueError({str})",
    "raise KeyError({int}) from None",
    "if_tensor",
}
LOOPS = {name for name in HEADS if name.startswith("for")}
HANDLERS = ["ValueError", "(IndexError, KeyError)", "ZeroDivisionError", "Exception", "(TypeError, AssertionError)"]


@dataclass
class Names:
    """What may be named at a place of the program."""

    names: dict[str, list[str]]
    functions: list[str] = field(default_factory=list)
    in_loop: bool = False
    depth: int = 0

    def inner(self, **changes: Any) -> Names:
        fields = {"in_loop": self.in_loop, "depth": self.depth + 1} | changes
        return Names({kind: list(names) for kind, names in self.names.items()}, list(self.functions), **fields)


class Writer:
    """Writes one program; `choose(n)` gives a number below n."""

    def __init__(self, choose: Callable[[int], int], avoid: frozenset[str] = frozenset()):
        self.choose = choose
        self.avoid = avoid
        self.count = 0
        self.budget = 30
        if choose(2):
            self.avoid |= LOUD

    def allowed(self, rows: Iterable[str]) -> list[str]:
        return [row for row in rows if row not in self.avoid]

    def pick(self, rows: list) -> Any:
        return rows[self.choose(len(rows))]

    def chance(self, one_in: int) -> bool:
        return self.choose(one_in) == one_in - 1

    def fill(self, text: str, scope: Names, depth: int) -> str:
        """Puts expressions into the holes of a row; only names into those of a formatted string."""
        if text.startswith("{=") and " = " not in text and not scope.names[text[2 : text.index("}")]]:
            text = text.replace("+=", "=").replace("*=", "=")
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
                name = self.target(hole[1:], scope, fresh_allowed="+=" not in text and "*=" not in text)
                targets.append((hole[1:], name))
                out += name
            elif hole.startswith("@"):
                out += self.pick(scope.names[hole[1:]])
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
        simple = scope.names[kind] + CONSTANTS[kind]
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
        """A nested function of a vector that gives one, with what it changes outside of itself."""
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
        head = "def program(x, y, n, flag, xs, ns, d, obj):"
        return PRELUDE + "\n\n" + "\n".join([head, *self.indented(body)]) + "\n"


@dataclass(frozen=True)
class Inputs:
    """Small facts from which the arguments of one call are made anew for each run."""

    seed: int
    n: int
    flag: bool
    grad: bool
    lengths: tuple[int, int]
    alias: bool


def inputs_by(choose: Callable[[int], int]) -> list[Inputs]:
    """Arguments of several calls: the same again, then changed a little."""
    n, flag, grad, alias = choose(6) - 1, bool(choose(2)), choose(5) == 4, choose(6) == 5
    lengths = (choose(3), choose(4))
    calls = [Inputs(seed, n, flag, grad, lengths, alias) for seed in range(2)]
    calls.append(Inputs(2, choose(6) - 1, bool(choose(2)), grad, lengths, alias))
    calls.append(Inputs(3, n, not flag, choose(5) == 4, (1, 2), False))
    return calls


@st.composite
def cases(draw: Callable, avoid: frozenset[str] = frozenset()) -> tuple[str, list[Inputs]]:
    """A random program's text and the arguments of its calls. `avoid`: rows of the tables that are left out."""

    def choose(n: int) -> int:
        return draw(st.integers(0, n - 1))

    return Writer(choose, avoid).program(), inputs_by(choose)


def random_case(seed: int, avoid: frozenset[str] = frozenset()) -> tuple[str, list[Inputs]]:
    """The like, from a seed alone: quicker and more varied, but nothing that can be shrunk."""
    choose = random.Random(seed).randrange
    return Writer(choose, avoid).program(), inputs_by(choose)
