"""Subclasses of built-in containers: methods that call each other, attributes of instances."""

import collections
import functools

import torch

import stator
from tests.python.parity.programs import Programs, x

programs = Programs()


class Pair(tuple):
    pass


class Named(collections.namedtuple("Named", "a b")):
    def total(self):
        return self.a + self.b


@programs((x,))
def tuples_beside_constants(a):
    pair, named = Pair((1, 2)), Named(1, 2)
    return a + named.total(), [
        pair == (1, 2),
        (1, 2) == pair,
        pair != (1, 2),
        pair == named,
        (1, 2) in [pair],
        [pair].index((1, 2)),
        {(1, 2): 5}.get(pair),
        {pair: 3}.get((1, 2)),
        named in {(1, 2)},
        pair < (1, 3),
        (1, 1) < pair,
        (0, *pair),
        pair + (3,),
    ]


class Doubling(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


class Fixed(collections.OrderedDict):
    def __getitem__(self, key):
        return 100


class Raised(collections.Counter):
    def __setitem__(self, key, value):
        super().__setitem__(key, value + 10)


@programs((x,), breaks="unknown_call")
def methods_that_ask_others(a):
    made = Doubling(one=1)
    made.update(two=2)
    made.setdefault("three", 3)
    made |= {"four": 4}
    made["five"] = 5
    return a + 1, dict(made), Fixed(one=1).setdefault("one", 2), dict(Raised("aab"))


class Kept(collections.defaultdict):
    pass


@programs((x, collections.defaultdict(int, a=1)))
def copy_of_a_default_dict(a, given):
    copied = given.copy()
    return a + copied["missing"], copied.default_factory, dict(given)


@programs((x, Kept(int, a=1)), breaks="unknown_call")
def copy_of_a_default_dict_of_a_class(a, given):
    made = Kept(list)
    return a + 1, type(given.copy()), type(made.copy()), made.copy().default_factory


class Slotted:
    __slots__ = ("__dict__", "place")

    def __init__(self, **attributes):
        vars(self).update(attributes)


@programs((x, Slotted(other=1)))
def slot_beside_the_dict(a, given):
    attributes = vars(given)
    attributes["written"] = 2
    given.place = 3
    return a + given.place, dict(attributes), given.written


@programs((x,), breaks="unknown_attribute")
def slot_of_one_that_is_made(a):
    made = Slotted()
    attributes = made.__dict__
    made.place = 1
    made.other = 2
    return a + made.place, attributes


def test_attributes_of_a_partial_between_calls():
    held = functools.partial(max, 1)

    def fn(a):
        return a + 1, functools.partial(held, 2).func is held

    compiled = stator.compile(fn)
    a = torch.ones(1)
    assert compiled(a)[1] is fn(a)[1] is False
    held.tag = 1
    assert compiled(a)[1] is fn(a)[1] is True


test_subclasses = programs.tests()
