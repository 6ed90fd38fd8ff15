"""Objects that a plan rebuilds: fields of exceptions, keys with their own `__hash__`, mapping proxies."""

import collections
import inspect
import types

import pytest
import torch

import stator
from tests.python.helpers import captures
from tests.python.parity.programs import Programs, x

programs = Programs()


class Ending(StopIteration):
    pass


class Lost(OSError):
    pass


@pytest.mark.parametrize(
    ("kind", "args", "field"),
    [
        (StopIteration, (2,), "value"),
        (StopIteration, (), "value"),
        (Ending, ([1], 3), "value"),
        (SystemExit, (4,), "code"),
        (SystemExit, (4, 5), "code"),
        (ImportError, ("text",), "msg"),
        (Lost, ("text",), "errno"),
        (KeyError, ("k",), "args"),
    ],
)
def test_fields_of_exceptions(kind, args, field):
    def fn(a):
        made = kind(*args)
        made.note = "here"
        return a + 1, made

    compiled = stator.compile(fn)
    for _ in range(2):
        plain, made = fn(x)[1], compiled(x)[1]
        assert type(made) is kind and made.args == plain.args and made.note == "here"
        assert getattr(made, field) == getattr(plain, field)
    assert captures()


class Counted:
    """A key that counts how often it is hashed and compared."""

    def __init__(self, number):
        self.number, self.hashed, self.compared = number, 0, 0

    def __hash__(self):
        self.hashed += 1
        return 7

    def __eq__(self, other):
        self.compared += 1
        return isinstance(other, Counted) and self.number == other.number

    def counts(self):
        return self.number, self.hashed, self.compared


@pytest.mark.parametrize(
    "use",
    [
        lambda d, k: d.__setitem__(k, 1),
        lambda d, k: d.setdefault(k, 1),
        lambda d, k: (d.setdefault(k, 1), d.pop(k)),
        lambda d, k: (d.update({k: 1}), d.clear()),
        lambda d, k: (d.update({k: 1}), d.popitem()),
        lambda d, k: d.update(dict({k: 1})),
        lambda d, k: {k: 1} | {k: 2},
        lambda d, k: {k: 1}.copy(),
        lambda d, k: {k} | {1},
        lambda d, k: ({k}.copy(), {k} == {k}),
        lambda d, k: {k}.discard(k),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_keys_are_hashed_as_often_as_in_python(use, inside):
    def fn(a, outside):
        table = {} if inside else outside
        key = Counted(1)
        use(table, key)
        return a + 1, key, table

    compiled = stator.compile(fn)
    for _ in range(2):
        _, key, table = fn(x, {})
        _, compiled_key, compiled_table = compiled(x, {})
        assert compiled_key.counts() == key.counts()
        assert [k.counts() for k in compiled_table] == [k.counts() for k in table]


def test_proxy_of_a_mapping_that_changes():
    table = {"scale": 2.0, "shift": 1}
    window = types.MappingProxyType(table)

    def fn(a):
        return a * window["scale"] + window.get("shift", 0), len(window), list(window.items()), "more" in window, window

    compiled = stator.compile(fn)
    for change in ({}, {"scale": 3.0}, {"more": None}, {"shift": 5}):
        table.update(change)
        plain, made = fn(x), compiled(x)
        assert torch.equal(plain[0], made[0]) and plain[1:] == made[1:]
        assert made[-1] is window
    del table["shift"]
    assert torch.equal(compiled(x)[0], fn(x)[0])
    assert not stator.counters()["breaks"], stator.counters()["breaks"]


def test_proxy_of_a_mapping_that_the_program_changes():
    table = {"n": 1}
    window = types.MappingProxyType(table)

    def fn(a):
        table["n"] += 1
        try:
            window["n"] = 9
        except TypeError:
            return a + window["n"], dict(window), isinstance(window, dict), type(window)

    compiled = stator.compile(fn)
    for _ in range(3):
        before = table["n"]
        out, copy, is_dict, kind = compiled(x)
        assert torch.equal(out, x + before + 1) and copy == table == {"n": before + 1}
        assert not is_dict and kind is types.MappingProxyType


class Settings:
    low = 1
    high = 5


@programs((x,))
def fields_of_a_class(a):
    numbers = {k: v for k, v in vars(Settings).items() if not k.startswith("_")}
    return a + sum(numbers.values()), numbers, "low" in Settings.__dict__


def described(a, *, by: int = 3):
    return a * by


@programs((x,))
def parameters_of_a_function(a):
    found = inspect.signature(described).parameters
    return described(a), list(found), found["by"].default


class Disguised:
    @property
    def __class__(self):
        return dict


@programs((x,))
def object_with_a_class_of_its_own(a):
    odd = Disguised()
    return a + 1, odd.__class__, type(odd) is Disguised, isinstance(odd, dict), isinstance(odd, Disguised)


@programs((x, {"a": 1, "b": 2}), (x, {"a": 1}), (x, collections.OrderedDict(a=5, b=3)))
def keys_in_a_pattern(a, table):
    match table:
        case {"a": first, "b": second}:
            return a * first + second
        case {"a": first, **rest}:
            return a * first, rest


@programs((x,))
def copies_of_frozensets(a):
    elements = frozenset({1, 2})
    return a + 1, [
        elements.copy() is elements,
        frozenset(elements) is elements,
        elements.union() is elements,
        elements.intersection() is elements,
        elements.difference() is elements,
    ]


test_rebuilt = programs.tests()
