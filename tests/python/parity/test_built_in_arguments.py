"""Built-in functions and methods with arguments of types that they reject or treat specially."""

import collections

import pytest
import torch

import stator
from tests.python.helpers import assert_same


class Index:
    def __index__(self):
        return 2

    def __repr__(self):
        return "Index()"


class Indexed(int):
    def __index__(self):
        return 99


class Cut(float):
    def __trunc__(self):
        return 99


def outcome(expression):
    """A program that returns the value of the expression, or the exception it raises."""
    scope = {"collections": collections, "Index": Index, "Indexed": Indexed, "Cut": Cut}
    source = f"""
def run(x):
    d, s, i = {{"a": 1}}, {{1, 2}}, Index()
    try:
        r = {expression}
    except Exception as error:
        r = type(error).__name__, str(error)
    return x + 1, r, s
"""
    exec(source, scope)  # noqa: S102 (one program for each expression)
    return scope["run"]


EXPRESSIONS = [
    "int(Indexed(1)), float(Indexed(1)), complex(Indexed(1))",
    "int(Cut(1.5)), float(Cut(1.5)), int(i), float(i)",
    "s.update((5, 6))",
    "s.update((), (7,), [8])",
    "s.__or__((1,))",
    "'%s' % (d.values(),)",
    "'%s'.__mod__(d.values())",
    "'{}|{}'.format(d.keys(), d.items())",
    "'a'.find(d.values())",
    "'a'.startswith(iter(['a']))",
    "'a'.encode(d.keys())",
    "''.join(d.keys())",
    "', '.join(str(v) for v in d.values())",
    "int(iter([1]))",
    "abs(d.items())",
    "ord(d.keys())",
    "range(d.values())",
    "round(iter([1]))",
    "bytes(iter([1, 2]))",
    "list(enumerate(d, Index()))",
    "list(enumerate(d, 3))",
    "format(3, i)",
    "format(3, 4)",
    "isinstance(i, [])",
    "isinstance(i, (int, [Index]))",
    "isinstance(i, (Index, []))",
    "d.keys().__eq__(i)",
    "[1].__eq__(i)",
    "type(iter([1])).__name__",
    "{d.keys(): 1}",
    "i in 'abc'",
    "i in frozenset({1})",
    "collections.OrderedDict([1])",
    "divmod(s, range(2))",
    "divmod([1], 2)",
    "divmod(x, 2)",
    "[1].__add__(collections.UserList([2]))",
    "(1,).__mul__(collections.UserList([2]))",
    "[1][10**30]",
    "[1].pop(10**30)",
    "(1, 2)[-(10**30)]",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_outcome(expression):
    x = torch.ones(2)
    compiled = stator.compile(outcome(expression))
    for _ in range(2):
        assert_same(compiled(x), outcome(expression)(x))


def test_values_of_a_dict_as_a_key():
    def fn(x):
        values = {"a": 1}.values()
        found = {values: x}
        return found[values] + 1, len({values, values})

    x = torch.ones(2)
    assert_same(stator.compile(fn)(x), fn(x))


MAKERS = {
    "list": lambda: iter([1, 2]),
    "tuple": lambda: iter((1, 2)),
    "keys": lambda: iter({1: 2}),
    "values": lambda: iter({1: 2}.values()),
    "items": lambda: iter({1: 2}.items()),
}


@pytest.mark.parametrize("name", MAKERS)
def test_iterator_at_its_end_keeps_its_class(name):
    make = MAKERS[name]

    def fn(x):
        iterator = make()
        seen = list(iterator)
        return x + len(seen), iterator

    x = torch.ones(2)
    expected, wanted = fn(x)
    actual, given = stator.compile(fn)(x)
    assert_same(actual, expected)
    assert type(given) is type(wanted) and list(given) == []
