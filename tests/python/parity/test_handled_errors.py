"""Errors that the program handles are captured in one graph, with the plain program's messages."""

import collections
import dataclasses
import functools
import operator

import pytest
import torch

import stator


class Bare:
    pass


class Wrong:
    """Each of its methods returns a wrong type."""

    def __hash__(self):
        return "text"

    def __str__(self):
        return 1

    def __repr__(self):
        return 2

    def __format__(self, spec):
        return 3


class Nothing:
    __iter__ = None


class Enters:
    def __enter__(self):
        return self


class First(type):
    pass


class Second(type):
    pass


class OfFirst(metaclass=First):
    pass


class OfSecond(metaclass=Second):
    pass


@dataclasses.dataclass
class Data:
    a: int = 1


Pair = collections.namedtuple("Pair", "p q")

NAMES = {
    "collections": collections,
    "functools": functools,
    "operator": operator,
    "torch": torch,
    **{cls.__name__: cls for cls in (Bare, Wrong, Nothing, Enters, OfFirst, OfSecond, Data, Pair)},
}

LANGUAGE = [
    "hash(Wrong())",
    "{Wrong(): 1}",
    "str(Wrong())",
    "repr(Wrong())",
    "f'{Wrong()}'",
    "f'{Bare():>3}'",
    "iter(Nothing())",
    "Bare() in 'text'",
    "[*3]",
    "{**3}",
    "a, b = 3",
    "a, b = Bare()",
    "a, *b = Bare()",
    "max(1, 2, default=3)",
    "min(1, 2, default=3)",
    "sum(['a'], '')",
    "sum([b'a'], b'')",
    "getattr(Bare(), 3)",
    "hasattr(Bare(), 3)",
    "setattr(Bare(), 3, 4)",
    "isinstance(1, [int])",
    "isinstance(1, 3)",
    "'a' + Bare()",
    "[1] + Bare()",
    "(x,) + Bare()",
    "Bare() * [x]",
    "[x] * Bare()",
    "[x] * 1.5",
    "None * [x]",
    "Bare()()",
    "3()",
    "None()",
    "Bare()[0]",
    "Bare()[0:1]",
    "Bare()[0] = 1",
    "del Bare()[0]",
    "with Bare(): pass",
    "with 3: pass",
    "with Enters(): pass",
    "Bare(1)",
    "object.__new__(Bare, 1)",
    "object.__init__(Bare(), 1)",
    "type(1, 2)",
    "super(Bare, Data()).x",
    "reversed(Bare())",
    "Data(1, 2)",
    "Data(z=1)",
    "Pair(1)",
    "raise",
    "list(map(3, [1]))",
    "[3].sort(key=3)",
    "functools.partial(3)",
    "collections.defaultdict(3)",
    "operator.attrgetter(3)",
    "operator.attrgetter('a', 3)",
    "operator.methodcaller(3)",
    "class Made(Bare, Bare): pass",
    "class Made(object, Bare): pass",
    "class Made(OfFirst, OfSecond): pass",
    "class Made(Bare, key=1): pass",
]

TORCH = [
    "x.view(9)",
    "x + torch.ones(9)",
    "x.add_(torch.ones(9))",
    "x[9]",
    "x[0, 0, 0]",
    "x.sum(dim=7)",
    "torch.add(x)",
    "torch.add(x, 'a')",
    "torch.stack([x, torch.ones(5)])",
    "torch.cat([x, 3])",
    "x.reshape('a')",
    "x.t(3)",
    "x + 'a'",
    "'a' + x",
    "x + None",
    "torch.ones(2, dtype=3)",
    "torch.nn.functional.softmax(x, dim=9)",
]


def program(statement):
    text = f"""
def program(x):
    before, error = x * 2, None
    try:
        {statement}
    except Exception as caught:
        error = type(caught).__name__, str(caught), caught.args
    return before + 1, error
"""
    scope = dict(NAMES)
    exec(compile(text, "program", "exec"), scope)
    return scope["program"]


@pytest.mark.parametrize("statement", LANGUAGE + TORCH)
def test_one_graph(statement):
    fn = program(statement)
    compiled = stator.compile(fn, fullgraph=True)
    for x in (torch.arange(4.0), torch.arange(4.0) + 1, torch.arange(3.0)):
        expected, error = fn(x.clone())
        given = x.clone()
        result, seen = compiled(given)
        assert error is not None
        assert seen == error
        assert torch.equal(result, expected)
        assert torch.equal(given, x)


def test_a_write_that_fails_in_the_middle_is_none():
    def fn(x, y):
        x = x + 1
        try:
            x.mul_(y).add_(torch.ones(7))
        except RuntimeError as error:
            return x, str(error)
        return x, None

    compiled = stator.compile(fn, fullgraph=True)
    for n in (1.0, 2.0):
        x, y = torch.full((3,), n), torch.full((3,), n + 1)
        assert repr(compiled(x, y)) == repr(fn(x, y))


def test_data_that_only_zeros_lack():
    """An error that torch raises only for zeros is not an error of the program."""

    def fn(x):
        try:
            return torch.linalg.inv(x), None
        except RuntimeError as error:
            return x, str(error)

    compiled = stator.compile(fn)
    for x in (torch.eye(3) * 2, torch.zeros(3, 3), torch.eye(3)):
        assert repr(compiled(x)) == repr(fn(x))
