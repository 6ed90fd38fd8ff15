"""What a program drops differs from call to call: an object that a weak reference leads to, or one whose finalization
the program sees. The first call drops an object of no such kind."""

from __future__ import annotations

import weakref

import pytest
import torch

import stator
from tests.python.helpers import captures

x = torch.ones(3)
ended = []


class Thing:
    pass


class Loud:
    def __del__(self):
        ended.append(1)


def holder(place, held):
    made = Thing()
    made.one, made.items, made.table, made.inner = None, [], {}, Thing()
    if place == "one":
        made.one = held
    elif place == "items":
        made.items.append(held)
    elif place == "table":
        made.table["k"] = held
    elif place == "inner":
        made.inner.part = held
    elif place == "variable":
        made.items.append(held)
    return made


def replaces_an_attribute(h):
    h.one = None


def deletes_an_attribute(h):
    del h.one


def clears_a_list(h):
    h.items.clear()


def pops_from_a_list(h):
    h.items.pop()


def replaces_an_element(h):
    h.items[0] = 1


def replaces_an_item(h):
    h.table["k"] = 1


def pops_an_item(h):
    h.table.pop("k")


def replaces_a_dict(h):
    h.table = None


def clears_all_attributes(h):
    vars(h).clear()


def replaces_what_an_attribute_holds(h):
    h.inner.part = None


def replaces_the_holder(h):
    h.inner = None


DROPS = [
    ("one", replaces_an_attribute),
    ("one", deletes_an_attribute),
    ("one", clears_all_attributes),
    ("items", clears_a_list),
    ("items", pops_from_a_list),
    ("items", replaces_an_element),
    ("table", replaces_an_item),
    ("table", pops_an_item),
    ("table", replaces_a_dict),
    ("inner", replaces_what_an_attribute_holds),
    ("inner", replaces_the_holder),
]


def follow(a, h, reference, drop):
    drop(h)
    return a + (1 if reference() is None else 2)


def count_keys(a, h, table, drop):
    drop(h)
    return a + len(table)


def drop_a_variable(a, h, reference, drop):
    kept = h.items.pop()
    stator.graph_break()
    del kept
    return a + (1 if reference() is None else 2)


def count_ends(a, h, table, drop):
    drop(h)
    return a + len(ended)


def results(run, program, place, drop):
    """One call after the other; in some of them what is dropped is what the program looks at."""
    ended.clear()
    found = []
    for is_seen in (False, True, False, True, False, False, True):
        other, dropped = Thing(), Loud() if is_seen and program is count_ends else Thing()
        wanted = dropped if is_seen else other
        seen = weakref.WeakKeyDictionary({wanted: 1}) if program is count_keys else weakref.ref(wanted)
        made = holder(place, dropped)
        del dropped, wanted
        found.append(run(x, made, seen, drop)[0].item())
    return found


@pytest.mark.parametrize("program", [follow, count_keys, count_ends])
@pytest.mark.parametrize(("place", "drop"), DROPS, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_dropped_differs(program, place, drop):
    expected = results(program, program, place, drop)
    assert results(stator.compile(program), program, place, drop) == expected
    assert len(set(expected)) > 1


def test_a_variable_that_is_dropped_differs():
    expected = results(drop_a_variable, drop_a_variable, "variable", None)
    assert results(stator.compile(drop_a_variable), drop_a_variable, "variable", None) == expected
    assert len(set(expected)) > 1


def compare(a, h):
    h.items.pop() is stator.graph_break()
    return a + len(ended)


def take_an_element(a, h):
    [h.items.pop(), stator.graph_break()][1]
    return a + len(ended)


def pass_it_on(a, h):
    (lambda *given: given[1])(h.items.pop(), stator.graph_break())
    return a + len(ended)


def leave_by_an_exception(a, h):
    try:
        h.items.pop() < stator.graph_break()
    except TypeError:
        pass
    return a + len(ended)


def keep_it(a, h):
    kept = (lambda *given: given)(h.items.pop(), stator.graph_break())
    return a + len(ended), kept


def ends(program):
    """The results of calls of which some drop an object with a finalizer; its class is that of the others."""
    ended.clear()
    found = []
    for is_seen in (False, True, False, True, False, False, True):
        dropped = Thing()
        if is_seen:
            weakref.finalize(dropped, ended.append, 1)
        made = holder("variable", dropped)
        del dropped
        found.append(program(x, made)[0].max().item())
    return found


@pytest.mark.parametrize("program", [compare, take_an_element, pass_it_on, leave_by_an_exception])
def test_a_value_without_a_name_differs(program):
    assert ends(stator.compile(program)) == ends(program) == [1, 2, 2, 3, 3, 3, 4]


def test_a_value_without_a_name_that_is_kept_needs_no_guard():
    assert ends(stator.compile(keep_it)) == ends(keep_it)
    first = captures()
    assert ends(stator.compile(keep_it)) == ends(keep_it) and captures() == first


def test_a_variable_that_is_not_always_bound_when_it_is_dropped():
    def program(a, is_bound):
        if is_bound:
            made = Loud()
        stator.graph_break()
        made = None
        return a + len(ended), made

    def run(fn):
        ended.clear()
        return [fn(x, is_bound)[0][0].item() for is_bound in (False, True, False, True, True)]

    assert run(stator.compile(program)) == run(program) == [1, 2, 2, 3, 4]


shown = None


def test_a_global_that_is_dropped_differs():
    def program(a, new):
        global shown
        shown = new
        return a + len(ended)

    def run(fn):
        global shown
        ended.clear()
        found = []
        for old in (Thing, Thing, Loud, Thing, Loud):
            shown = old()
            found.append(fn(x, None)[0].item())
        return found

    assert run(stator.compile(program)) == run(program) == [1, 1, 2, 2, 3]


def test_a_variable_of_a_closure_that_is_dropped_differs():
    def run(wrap):
        held = None

        def program(a):
            nonlocal held
            held = None
            return a + len(ended)

        ended.clear()
        fn, found = wrap(program), []
        for old in (Thing, Thing, Loud, Thing, Loud):
            held = old()
            found.append(fn(x)[0].item())
        return found

    assert run(stator.compile) == run(lambda fn: fn) == [1, 1, 2, 2, 3]


def test_dropping_the_same_kind_of_object_is_one_capture():
    def program(a, h, reference):
        h.one = Thing()
        h.items[0] = a
        return a + (1 if reference() is None else 2)

    compiled = stator.compile(program, fullgraph=True)
    kept = Thing()
    for _ in range(4):
        made = holder("items", torch.ones(2))
        made.one = Thing()
        assert torch.equal(compiled(x, made, weakref.ref(kept)), x + 2)
    assert captures() == 1
