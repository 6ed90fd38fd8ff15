"""External iterators: arguments, and iterators of loops that a break leaves on the stack."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures, collect

x = torch.arange(3.0)


@torch.compiler.disable
def outside(*values):
    """A break."""


def rest(value):
    """The remaining items of an iterator, or the value itself."""
    return list(value) if hasattr(value, "__next__") or isinstance(value, type({}.values())) else value


def check(fn, make, graphs=None, calls=3):
    """`make()` returns new arguments for a call."""
    compiled = stator.compile(fn)
    for index in range(calls):
        mine, theirs = make(), make()
        results = []
        for runner, args in ((compiled, mine), (fn, theirs)):
            try:
                results.append(runner(*args))
            except Exception as error:
                results.append((type(error).__name__, str(error)))
        assert_same(results[0], results[1], f"call {index}")
        assert_same([rest(arg) for arg in mine], [rest(arg) for arg in theirs], f"call {index}: arguments")
    if graphs is not None:
        assert captures() == graphs
    return compiled


def over(a, items):
    for item in items:
        a = a + item
        outside(item)
        a = a * 2
    return a


def over_numbered(a, items):
    for index, item in enumerate(items):
        a = a + item
        outside(index)
        a = a * 2
    return a, index


def over_pairs(a, items, table):
    for item, (key, value) in zip(items, table.items(), strict=False):
        a = a + item
        outside(key)
        a = a * value
    return a, key


tensors = [torch.full((3,), float(i)) for i in range(5)]


@pytest.mark.parametrize(
    "items",
    [
        lambda: list(tensors),
        lambda: tuple(tensors),
        lambda: dict(enumerate(tensors)).values(),
        lambda: reversed(list(tensors)),
        lambda: reversed(tuple(tensors)),
        lambda: iter(list(tensors)),
    ],
    ids=["list", "tuple", "values", "reversed list", "reversed tuple", "iterator"],
)
def test_rounds_of_a_loop_share_a_graph(items):
    """Three entries for any number of iterations: to the first break, from break to break, and after the last one."""
    check(over, lambda: (x, items()), graphs=3)


def test_numbered_rounds_share_a_graph():
    check(over_numbered, lambda: (x, list(tensors)), graphs=3)


def test_pairs_share_a_graph():
    check(over_pairs, lambda: (x, list(tensors), {k: x + i for i, k in enumerate("abcd")}), graphs=3)


def test_the_number_of_rounds_may_differ():
    compiled = stator.compile(over)
    for count in (5, 2, 7, 1, 0, 6):
        items = [x + i for i in range(count)]
        assert_same(compiled(x, items), over(x, items))
    # The entry at the start reads the list and guards its length; the entries after a break do not.
    assert captures() == 5 + 2


def test_a_range_of_a_thousand():
    def fn(a):
        for step in range(1000):
            a = a * 0.5 + 1
            if a.sum() > 1e9:
                a = a - step
            a = a + 1
        return a, step

    check(fn, lambda: (x,), graphs=3, calls=2)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def forward(self, a):
        for index, layer in enumerate(self.layers):
            a = layer(a)
            outside(index)
        return a.sum()


def test_a_break_behind_each_layer_makes_a_graph_for_layers_alike():
    model = Layers()
    compiled = stator.compile(model)
    for _ in range(3):
        assert_same(compiled(x), model(x))
    assert captures() == 3
    model.layers[1] = nn.Linear(3, 3)
    assert_same(compiled(x), model(x))


def test_an_argument():
    def fn(a, it):
        return a * next(it) + next(it), next(it, None)

    check(fn, lambda: (x, iter([x, x + 1, 2, 3])), graphs=1)
    check(fn, lambda: (x, iter([x, x + 1])))
    check(fn, lambda: (x, iter([x])))
    check(fn, lambda: (x, iter(range(3, 9))))
    check(fn, lambda: (x, iter({"a": x, "b": x + 1}.values())))
    check(fn, lambda: (x, (y for y in [x, x + 1, x])))


def test_numbers_come_from_the_iterator_of_the_call():
    def fn(a, it):
        return a + 1, [next(it) for _ in range(3)]

    compiled = stator.compile(fn)
    for start in (0, 300, 300000, 2**40):
        assert_same(compiled(x, iter(range(start, start + 5))), fn(x, iter(range(start, start + 5))))
        assert_same(
            compiled(x, enumerate([5, 6, 7, 8], start))[1], fn(x, enumerate([5, 6, 7, 8], start))[1], f"from {start}"
        )


def test_one_iterator_twice():
    def paired(a, it):
        for first, second in zip(it, it, strict=False):
            a = a * first
            outside()
            a = a + second
        return a

    check(paired, lambda: (x, iter([1.0, 2.0, 3.0, 4.0, 5.0])))

    def both(a, first, second):
        return a * next(first) + next(second)

    compiled = stator.compile(both)
    assert_same(compiled(x, iter([2, 3]), iter([2, 3])), x * 2 + 2)
    same = iter([2, 3])
    assert_same(compiled(x, same, same), x * 2 + 3)


def test_advanced_directly_and_through_a_zip():
    def fn(a, it, other):
        for first, second in zip(it, other, strict=False):
            a = a * first + second
            outside()
            a = a + next(it, 100.0)
        return a, list(other)

    for count in range(6):
        check(fn, lambda: (x, iter([float(i) for i in range(count)]), iter([x] * 5)))  # noqa: B023


def test_a_zip_that_must_end_together():
    def fn(a, left, right):
        for first, second in zip(left, right, strict=True):
            a = a * first + second
            outside()
        return a

    check(fn, lambda: (x, [1, 2], [3, 4]))
    check(fn, lambda: (x, [1, 2, 3], [3, 4]))
    check(fn, lambda: (x, [1, 2], [3, 4, 5]))


def test_a_list_that_grows_meanwhile():
    def fn(a, items):
        for item in items:
            a = a + item
            outside()
            if len(items) < 6:
                items.append(item + 1)
        return a

    check(fn, lambda: (x, [1, 2]))

    def ahead(a, items, it):
        items.append(a * 5)
        return a + next(it)

    compiled = stator.compile(ahead)
    assert_same(compiled(x, [], iter([x, x])), x + x)
    items = []
    assert_same(compiled(x, items, iter(items)), x + x * 5)
    ended = iter([])
    list(ended)
    with pytest.raises(StopIteration):
        compiled(x, [], ended)
    items = []
    assert_same(compiled(x, items, iter(items)), x + x * 5)


def test_a_dict_that_changes_meanwhile():
    def fn(a, table):
        for key, value in table.items():
            a = a + value
            outside()
            table[key] = a
            if key == "b":
                table["c"] = a
        return a

    check(fn, lambda: (x, {"a": x}))
    check(fn, lambda: (x, {"a": x, "b": x, "z": x}))


def test_an_iterator_that_others_hold():
    def fn(a, it, seen):
        for item in it:
            a = a + item
            outside()
            seen.append(next(it, None))
        return a

    check(fn, lambda: (x, iter([1, 2, 3, 4, 5]), []))


def test_items_are_not_kept_alive():
    import weakref

    def fn(a, items):
        for item in items:
            a = a + item
            outside()
        return a

    compiled = stator.compile(fn)
    items = [torch.ones(3) for _ in range(4)]
    watched = [weakref.ref(item) for item in items]
    compiled(x, items)
    del items
    collect()
    assert all(ref() is None for ref in watched)


def test_iterators_of_other_kinds_go_on_for_real():
    def fn(a, items):
        for item in items:
            a = a + item
            outside()
        return a

    check(fn, lambda: (x, (y * 2 for y in tensors)))
    check(fn, lambda: (x, map(float, [1, 2, 3])))
    check(fn, lambda: (x, itertools.chain([x], [x + 1])))
    check(fn, lambda: (x, enumerate(float(y) for y in range(3)).__iter__() and [x]))


@pytest.mark.parametrize("size", range(4))
def test_every_cut(size):
    """With a break after each number of instructions."""

    def fn(a, items, table):
        seen = []
        for index, (item, key) in enumerate(zip(items, table, strict=False)):
            a = a * item + index
            seen.append(key)
        for value in reversed(items):
            a = a - value
        return a, seen, index

    args = (x, [x + i for i in range(4)], {"a": 1, "b": 2, "c": 3})
    expected = fn(*args)
    for cut in range(1 + size, 100, 4):
        stator.reset()
        with stator.config.patch(break_after=cut):
            compiled = stator.compile(fn)
            for _ in range(2):
                assert_same(compiled(*args), expected, f"cut {cut}")


def test_one_object_in_two_places():
    """A call changes one argument and reads another, until a call passes the same object for both."""

    class Thing:
        def __init__(self):
            self.value = 2

    def lists(a, first, second):
        first.append(1)
        return a * len(second)

    def dicts(a, first, second):
        first["k"] = a
        return a * len(second)

    def things(a, first, second):
        first.value = 5
        return a * second.value

    def cells(a, first, second):
        first()
        return a * second()

    def counter():
        count = 0

        def step():
            nonlocal count
            count += 1
            return count

        return step

    for fn, make in ((lists, list), (dicts, dict), (things, Thing), (cells, counter)):
        compiled = stator.compile(fn)
        for _ in range(2):
            assert_same(compiled(x, make(), make()), fn(x, make(), make()), fn.__name__)
            mine, theirs = make(), make()
            assert_same(compiled(x, mine, mine), fn(x, theirs, theirs), fn.__name__)


def test_the_shortest_of_a_zip_ends_the_loop_though_its_items_are_not_used():
    lengths = []

    def program(x, xs):
        rounds = 0
        for _, x in zip([1, 2], xs, strict=False):
            rounds += 1
            lengths.append(len(lengths))  # differs in each round
            x.sum().item()
        return x + rounds

    compiled = stator.compile(program)
    for _ in range(4):
        xs = [torch.rand(2) for _ in range(4)]
        assert torch.equal(compiled(torch.ones(2), xs), program(torch.ones(2), xs))


def test_guards_of_many_changed_objects_stay_few():
    class Thing:
        def __init__(self):
            self.value = 0

    def fn(a, things):
        for thing in things:
            thing.value = 1
        return a + 1

    compiled = stator.compile(fn)
    things = [Thing() for _ in range(200)]
    assert_same(compiled(x, things), x + 1)
    assert stator.counters()["captures"]["guards"] < 200 * 6
    twice = [things[0], *things[:-1]]
    assert_same(compiled(x, twice), x + 1)
    assert all(thing.value == 1 for thing in things)
