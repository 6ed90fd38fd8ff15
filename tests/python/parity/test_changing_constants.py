"""Objects that are guarded by identity, and whose attributes change all the same: enum members, operators, aliases."""

import enum
import functools
import types
import typing

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def doubled(self):
        return self.value * 2

    def scaled(self, t):
        return t * self.weight

    def shifted(self, t):
        return t + 1


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Bits(enum.IntFlag):
    A = 1
    B = 2
    C = 4


class Marks(enum.Flag):
    X = enum.auto()
    Y = enum.auto()


class Ordered(enum.Enum):
    SMALL = 1
    LARGE = 2

    def __lt__(self, other):
        return self._value_ < other._value_

    def __str__(self):
        return f"<{self._value_}>"

    def __hash__(self):
        return 7

    def __add__(self, other):
        return self._value_ + other


class Listed(enum.Enum):
    PARTS = [1, 2]


packet = torch.ops.aten.add
alias = typing.List[int]
native_alias = list[int]
variable = typing.TypeVar("variable")


class Boxed:
    size = 1

    def __class_getitem__(cls, item):
        return types.GenericAlias(cls, item)


boxed = Boxed[int]


@functools.lru_cache
def cached(n):
    return n + 1


@pytest.fixture(autouse=True)
def as_before():
    members = [member for cls in (Color, Level, Bits, Marks, Ordered, Listed) for member in cls]
    objects = [*members, packet, packet.Tensor, alias, variable, cached, torch.ops.aten.mul.Tensor]
    kept = [(o, dict(vars(o))) for o in objects if hasattr(o, "__dict__")]
    yield
    for o, attributes in kept:
        vars(o).clear()
        vars(o).update(attributes)
    Listed.PARTS.value[:] = [1, 2]
    Boxed.size = 1


def put(o, **values):
    """Through the dict: classes may refuse other ways."""
    vars(o).update(values)


# name: the program, and the changes between its calls
CASES = {
    "value": (lambda t: t + Color.RED.value, [lambda: put(Color.RED, _value_=5), lambda: put(Color.RED, _value_=1)]),
    "_value_": (lambda t: t + Color.RED._value_, [lambda: put(Color.RED, _value_=7)]),
    "name": (lambda t: (Color.RED.name, t + 1), [lambda: put(Color.RED, _name_="green")]),
    "_name_": (lambda t: (Color.RED._name_, t + 1), [lambda: put(Color.RED, _name_="green")]),
    "property": (lambda t: t + Color.RED.doubled, [lambda: put(Color.RED, _value_=9)]),
    "attribute": (
        lambda t: t + getattr(Color.RED, "weight", 0),
        [lambda: put(Color.RED, weight=3), lambda: put(Color.RED, weight=4), lambda: vars(Color.RED).pop("weight")],
    ),
    "method": (
        lambda t: Color.RED.scaled(t) if hasattr(Color.RED, "weight") else t,
        [lambda: put(Color.RED, weight=3), lambda: put(Color.RED, weight=torch.full((2,), 4.0))],
    ),
    "own method": (
        lambda t: Color.RED.shifted(t),
        [lambda: put(Color.RED, shifted=lambda t: t * 100), lambda: put(Color.RED, shifted=lambda t: t * 200)],
    ),
    "tensor attribute": (
        lambda t: t + getattr(Color.BLUE, "bias", 0),
        [lambda: put(Color.BLUE, bias=torch.ones(2)), lambda: put(Color.BLUE, bias=torch.zeros(2))],
    ),
    "int value": (lambda t: t + Level.LOW.value, [lambda: put(Level.LOW, _value_=50)]),
    "int sum": (lambda t: t + (Level.LOW + Level.HIGH), [lambda: put(Level.LOW, _value_=50)]),
    "flags united": (lambda t: t + (Bits.A | Bits.B).value, [lambda: put(Bits.A, _value_=4)]),
    "flags common": (lambda t: t + bool(Marks.X & Marks.Y), [lambda: put(Marks.X, _value_=2)]),
    "flags inverted": (lambda t: t + len(list(~Marks.X)), [lambda: put(Marks.Y, weight=1)]),
    "flag within": (lambda t: t + (Bits.A in (Bits.A | Bits.C)), [lambda: put(Bits.A, _value_=2)]),
    "text": (lambda t: (str(Color.RED), t + 1), [lambda: put(Color.RED, _name_="green")]),
    "repr": (lambda t: (repr(Color.RED), t + 1), [lambda: put(Color.RED, _value_=8)]),
    "formatted": (lambda t: (f"{Color.RED} {Level.LOW}", t + 1), [lambda: put(Color.RED, _name_="green")]),
    "own text": (lambda t: (str(Ordered.SMALL), f"{Ordered.SMALL}", t + 1), [lambda: put(Ordered.SMALL, _value_=8)]),
    "own order": (lambda t: t + (Ordered.SMALL < Ordered.LARGE), [lambda: put(Ordered.SMALL, _value_=3)]),
    "own sum": (lambda t: t + (Ordered.SMALL + 1), [lambda: put(Ordered.SMALL, _value_=3)]),
    "sorted": (
        lambda t: ([m.name for m in sorted([Ordered.LARGE, Ordered.SMALL])], t + 1),
        [lambda: put(Ordered.SMALL, _value_=3)],
    ),
    "list value": (lambda t: t + sum(Listed.PARTS.value), [lambda: Listed.PARTS.value.append(5)]),
    "packet": (
        lambda t: t + getattr(packet, "note", 0),
        [lambda: put(packet, note=3), lambda: put(packet, note=4), lambda: vars(packet).pop("note")],
    ),
    "packet name": (lambda t: (packet.__name__, t + 1), [lambda: put(packet, __name__="plus")]),
    "packet text": (lambda t: (str(packet), t + 1), [lambda: put(packet, _qualified_op_name="aten::plus")]),
    "overload": (
        lambda t: t + getattr(packet.Tensor, "note", 0),
        [lambda: put(packet.Tensor, note=3), lambda: put(packet.Tensor, note=4)],
    ),
    "overload called": (
        lambda t: torch.ops.aten.mul.Tensor(t, t) + getattr(torch.ops.aten.mul.Tensor, "note", 0),
        [lambda: put(torch.ops.aten.mul.Tensor, note=2)],
    ),
    "overload exchanged": (
        lambda t: packet.Tensor(t, t),
        [lambda: put(packet, Tensor=torch.ops.aten.mul.Tensor), lambda: put(packet, Tensor=torch.ops.aten.sub.Tensor)],
    ),
    "alias arguments": (
        lambda t: t + len(alias.__args__),
        [lambda: put(alias, __args__=(int, str)), lambda: put(alias, __args__=())],
    ),
    "alias attribute": (lambda t: (alias._name, t + 1), [lambda: put(alias, _name="Row")]),
    "alias equality": (
        lambda t: t + (alias == typing.List[int]),
        [lambda: put(alias, __origin__=tuple)],
    ),
    "alias of a class": (lambda t: t + boxed.size, [lambda: setattr(Boxed, "size", 4)]),
    "native alias": (lambda t: t + len(native_alias.__args__), []),
    "type variable": (
        lambda t: (variable.__name__, t + 1),
        [lambda: put(variable, __name__="other")] if hasattr(variable, "__dict__") else [],
    ),
    "cached function": (
        lambda t: t + getattr(cached, "note", 0) + cached(1),
        [lambda: put(cached, note=2), lambda: put(cached, note=3)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_attributes_that_change(name):
    program, changes = CASES[name]
    t = torch.ones(2)
    compiled = stator.compile(program)

    def both():
        for _ in range(2):
            assert_same(compiled(t), program(t))

    both()
    for change in changes:
        change()
        both()
    assert captures() > 0, stator.counters()


@pytest.mark.parametrize("member", [Color.RED, Level.LOW, Bits.A | Bits.C, Marks.X])
def test_members_as_arguments(member):
    def f(m, t):
        return t + m.value, m.name, str(m), m is member, {m: 1}[m]

    compiled = stator.compile(f)
    t = torch.ones(2)
    before = dict(vars(member))
    try:
        for change in ({}, {"_value_": 8}, {"_name_": "other"}, {"_value_": 3}):
            vars(member).update(change)
            for _ in range(2):
                assert_same(compiled(member, t), f(member, t))
    finally:
        vars(member).clear()
        vars(member).update(before)
    assert captures() > 0


def test_stable_members_are_captured_once():
    def f(m, t):
        return t + m.value * Level.HIGH + (Bits.A | Bits.B).value, str(m), {m: 1}[m], ~Marks.X

    compiled = stator.compile(f, fullgraph=True)
    for _ in range(4):
        assert_same(compiled(Color.RED, torch.ones(2)), f(Color.RED, torch.ones(2)))
    assert captures() == 1, stator.counters()
