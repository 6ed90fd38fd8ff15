"""match: literals, captures, sequences, mappings, classes, guards, or-patterns."""

from collections import namedtuple
from dataclasses import dataclass
from enum import Enum

import torch

from tests.python.parity.corpus.registry import f, i, program


@dataclass
class Point:
    x: object
    y: object


class Op(Enum):
    ADD = 1
    MUL = 2


class Custom:
    __match_args__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


Pair = namedtuple("Pair", "a b")


@program((f(2), 1), (f(2), 2), (f(2), 9))
def literals(x, n):
    match n:
        case 1:
            return x + 1
        case 2 | 3:
            return x * n
        case _:
            return x


@program((f(2), "relu"), (f(2), "tanh"), (f(2), "other"))
def strings(x, name):
    match name:
        case "relu":
            y = torch.relu(x)
        case "tanh" | "Tanh":
            y = torch.tanh(x)
        case unknown:
            y = x * len(unknown)
    return y


@program((f(2), None), (f(2), True), (f(2), False), (f(2), 1))
def singletons(x, flag):
    match flag:
        case None:
            return x
        case True:
            return x + 1
        case False:
            return x - 1
    return x * 5


@program((f(2), [1]), (f(2), [1, 2]), (f(2), [1, 2, 3, 4]), (f(2), []))
def sequences(x, ns):
    match ns:
        case []:
            return x
        case [a]:
            return x * a
        case [a, c]:
            return x * a + c
        case [first, *rest]:
            return x * first + sum(rest), rest


@program((f(2), (1, (2, 3))), (f(2), (1, [4, 5, 6])))
def nested_sequences(x, t):
    match t:
        case (a, (c, d)):
            return x * a + c * d
        case (a, [c, *_, d]):
            return x * a - c - d


@program((f(2), {"op": "scale", "by": 3}), (f(2), {"op": "shift", "by": 2, "extra": 1}), (f(2), {}))
def mappings(x, d):
    match d:
        case {"op": "scale", "by": k}:
            return x * k
        case {"op": "shift", "by": k, **rest}:
            return x + k, rest
        case {}:
            return x


@program(Point(f(2), 0), Point(f(2), 3), Point(0, f(2)))
def class_patterns(p):
    match p:
        case Point(x=0, y=y):
            return y * 2
        case Point(x, 0):
            return x * 3
        case Point(x, y):
            return x * y


@program((f(2), 3), (f(2), -3), (f(2), 0))
def guards(x, n):
    match n:
        case k if k > 0:
            return x * k
        case k if k < 0:
            return x + k
        case 0:
            return -x


@program((f(2), 3), (f(2), 2.5), (f(2), "s"), (f(2), [1, 2]))
def builtin_types(x, value):
    match value:
        case int(n):
            return x * n
        case float() as a:
            return x + a
        case str():
            return x
        case list() | tuple():
            return x * len(value)


@program((f(2), Op.ADD), (f(2), Op.MUL))
def enum_values(x, op):
    match op:
        case Op.ADD:
            return x + x
        case Op.MUL:
            return x * x


@program((f(2), Custom(1, 2)), (f(2), Custom(3, Custom(4, 5))))
def match_args(x, tree):
    match tree:
        case Custom(a, Custom(c, d)):
            return x * a + c - d
        case Custom(a, c):
            return x * a + c


@program((f(2), Pair(1, 2)), (f(2), Pair(0, 5)))
def namedtuples(x, pair):
    match pair:
        case Pair(a=0, b=k):
            return x * k
        case (a, c):
            return x + a + c


@program((f(2), ("add", 2)), (f(2), ("seq", [("add", 1), ("mul", 3)])))
def small_interpreter(x, instruction):
    def run(t, step):
        match step:
            case ("add", n):
                return t + n
            case ("mul", n):
                return t * n
            case ("seq", steps):
                for s in steps:
                    t = run(t, s)
                return t

    return run(x, instruction)


@program((f(2, 3),), (f(4),), (f(1, 2, 3),))
def shapes(x):
    match x.shape:
        case (n,):
            return x * n
        case (n, m):
            return x * n + m
        case (_, *rest):
            return x.reshape(rest)


@program((f(2),), (i(2),))
def dtypes(x):
    match x.dtype:
        case torch.float32:
            return x * 0.5
        case torch.int64:
            return x * 2


@program((f(2), [1, 2, 3]), (f(2), [1, 5, 3]))
def or_of_sequences(x, ns):
    match ns:
        case [1, (2 | 4) as k, _] | [k, _, _]:
            return x * k


@program((f(2), 7), (f(2), [7]))
def no_case_matches(x, value):
    match value:
        case 1:
            x = x + 1
        case [1, 2]:
            x = x + 2
    return x * 2


@program((f(2), {"layer": {"size": 2}}), (f(2), {"layer": {"size": "big"}}))
def nested_mappings(x, config):
    match config:
        case {"layer": {"size": int(n)}}:
            return x * n
        case {"layer": {"size": str() as name}}:
            return x + len(name)


@program((f(2), "ab"), (f(2), ("a", "b")))
def strings_are_no_sequences(x, value):
    match value:
        case [a, c]:
            return x + 1, a + c
        case str(s):
            return x - 1, s


@program((f(2), 3, "a"), (f(2), 3, "b"))
def tuple_subject(x, n, s):
    match n, s:
        case 3, "a":
            return x * 3
        case k, ("b" | "c"):
            return x + k


@program(([f(2), f(2)],), ([f(2), f(2), f(2)],))
def tensors_in_sequences(xs):
    match xs:
        case [a, c]:
            return a + c
        case [a, *rest]:
            return a * len(rest)
