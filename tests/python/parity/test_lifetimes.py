"""An object dies when its last reference is dropped, also one in a temporary, an attribute, a cell or a container."""

import collections
import weakref

import pytest
import torch

import stator
from tests.python.helpers import collect

log: list = []
kept = None


class Loud:
    def __init__(self, name="one"):
        self.name = name

    def __del__(self):
        log.append(f"end of {self.name}")


class Plain:
    pass


class Slotted:
    __slots__ = ("thing",)


def holder(name="one"):
    made = Plain()
    made.thing = Loud(name)
    return made


def temporary_in_a_list(x):
    y = [Loud(), stator.graph_break(), x + 1][2]
    log.append("after")
    return y


def temporary_in_a_tuple(x):
    y = (Loud(), x + 1)[1]
    log.append("after")
    return y


def temporary_of_an_attribute(x):
    name = holder().thing.name
    log.append(name)
    return x + 1


def argument_of_an_inner_call(x):
    def inner(thing):
        # Dropped only by the return: the caller of a call that is not inlined keeps its arguments alive until then.
        y = x + 1
        log.append("inside")
        return y

    y = inner(Loud())
    log.append("after")
    return y


def result_of_an_inner_call(x):
    def inner():
        things = [Loud()]
        stator.graph_break()
        return x + 1, things

    y, things = inner()
    log.append("returned")
    things = None
    log.append("after")
    return y


def held_by_an_instance(x):
    thing = holder()
    y = x + 1
    stator.graph_break()
    thing = holder("two")
    log.append("rebound")
    del thing
    log.append("deleted")
    return y * 2


def held_by_attributes(x):
    thing, slotted = holder(), Slotted()
    slotted.thing = Loud("slot")
    stator.graph_break()
    y = x + 1
    del thing.thing
    log.append("one")
    slotted.thing = None
    log.append("two")
    return y


def held_by_nested_lists(x):
    things = [[Loud()], [Loud("two")]]
    stator.graph_break()
    y = x + 1
    things.pop()
    log.append("one")
    things = None
    log.append("two")
    return y


def held_by_sets_and_deques(x):
    some, others = {Loud("element"), 1}, collections.deque([Loud("left"), Loud("right")])
    stator.graph_break()
    y = x + 1
    some.clear()
    log.append("one")
    others.popleft()
    log.append("two")
    others.clear()
    log.append("three")
    return y


def held_by_a_default(x):
    def function(thing=Loud()):
        return thing

    stator.graph_break()
    y = x + 1
    del function
    log.append("after")
    return y


def held_by_a_cell(x):
    thing = Loud()

    def function():
        return thing

    stator.graph_break()
    y = x + 1
    del function
    log.append("one")
    thing = None
    log.append("two")
    return y


def held_by_a_global(x):
    global kept
    kept = Loud()
    stator.graph_break()
    y = x + 1
    kept = None
    log.append("after")
    return y


def held_by_a_loop(x):
    for thing in [Loud("one"), Loud("two")]:
        x = x + 1
        stator.graph_break()
        log.append(thing.name)
    log.append("after")
    return x


def held_by_a_tensor(x):
    t = torch.ones(2)
    t.thing = Loud()
    stator.graph_break()
    x = x + t
    t = None
    log.append("after")
    return x


def held_by_two(x):
    first = Loud()
    second = [first]
    stator.graph_break()
    y = x + 1
    first = None
    log.append("one")
    second = None
    log.append("two")
    return y


def watched_by_a_callback(x):
    thing = Plain()
    watch = weakref.ref(thing, lambda gone: log.append("gone"))
    y = x + 1
    del thing
    log.append("after")
    return y if watch() is None else x


def watched_by_a_finalizer(x):
    thing = Plain()
    weakref.finalize(thing, log.append, "gone")
    y = x + 1
    thing = None
    log.append("after")
    return y


def watched_by_a_dictionary(x):
    thing = Plain()
    watching = weakref.WeakValueDictionary(thing=thing)
    y = x + 1
    thing = None
    return y + len(watching)


PROGRAMS = [
    watched_by_a_callback,
    watched_by_a_finalizer,
    watched_by_a_dictionary,
    temporary_in_a_list,
    temporary_in_a_tuple,
    temporary_of_an_attribute,
    argument_of_an_inner_call,
    result_of_an_inner_call,
    held_by_an_instance,
    held_by_attributes,
    held_by_nested_lists,
    held_by_sets_and_deques,
    held_by_a_default,
    held_by_a_cell,
    held_by_a_global,
    held_by_a_loop,
    held_by_a_tensor,
    held_by_two,
]


def run(function):
    log.clear()
    result = function(torch.ones(2))
    log.append("returned to the caller")
    return result.tolist(), list(log)


@pytest.mark.parametrize("cut", [0, 1, 3, 7])
@pytest.mark.parametrize("program", PROGRAMS)
def test_ends_where_the_program_drops_it(program, cut):
    expected = run(program)
    with stator.config.patch(break_after=cut):
        compiled = stator.compile(program)
        for _ in range(3):
            assert run(compiled) == expected


def by_key(mapping, key):
    return mapping[key] + 1


def over_items(mapping, key):
    return sum(value + 1 for value in mapping.values())


def by_element(elements, key):
    return key.thing + len(elements) if key in elements else None


def test_entries_own_no_key_and_no_element():
    def key():
        made = Plain()
        made.thing = torch.ones(2)
        return made

    compiled = [stator.compile(f) for f in (by_key, over_items, by_element)]
    held = []
    for make in (dict, collections.OrderedDict):
        for thing in (key(), torch.ones(2)):
            for function in compiled[:2]:
                for _ in range(2):
                    assert function(make([(thing, torch.ones(2))]), thing).tolist() == [2, 2]
            held.append(weakref.ref(thing))
    for make in (set, frozenset):
        thing = key()
        for _ in range(2):
            assert compiled[2](make([thing]), thing).tolist() == [2, 2]
        held.append(weakref.ref(thing))
    del thing
    collect()
    assert [reference() for reference in held] == [None] * 6


def test_entries_own_no_optimizer():
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    step = stator.compile(lambda which: which.step())
    for _ in range(3):
        layer(torch.ones(2)).sum().backward()
        step(optimizer)
    held = [weakref.ref(thing) for thing in (layer, layer.weight, optimizer)]
    del layer, optimizer
    collect()
    assert [reference() for reference in held] == [None] * 3


def test_an_ordered_dict_with_objects_as_keys_is_captured_once():
    key = Plain()
    mapping = collections.OrderedDict([(key, torch.ones(2))])
    compiled = stator.compile(over_items)
    for _ in range(3):
        compiled(mapping, key)
    assert len(stator.cache_entries(over_items)) == 1
