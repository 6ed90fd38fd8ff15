"""Dictionaries with weak keys or values: reads and writes in one graph, over calls in which keys come and go."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures


class Key:
    pass


class Equal:
    """Hashed and compared by its number."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        return isinstance(other, Equal) and self.number == other.number


x = torch.arange(3.0)

READS = """
a * d[k]
a * d.get(k, 2.0)
a + 1 if k in d else a - 1
a + len(d)
a * d.get(other, 5.0), other in d, d.get(object, 3) if False else None
a, [v for v in d.values()], len(list(d.items())), len(list(d.keys()))
a + d.setdefault(k, 7)
[a * d[key] for key in (k,)]
""".strip().splitlines()


@pytest.mark.parametrize("line", READS)
def test_reads(line):
    space = {"object": object}
    exec(f"def fn(a, d, k, other):\n    return {line}", space)
    fn = space["fn"]
    keys = [Key() for _ in range(4)]
    table = weakref.WeakKeyDictionary((key, torch.full((3,), 2.0 + i)) for i, key in enumerate(keys[:3]))
    # To iterate calls each reference, also that to an object which a variable holds.
    compiled = stator.compile(fn, fullgraph="values" not in line)
    for k in (0, 1, 2, 0):
        assert_same(compiled(x, table, keys[k], keys[3]), fn(x, table, keys[k], keys[3]), f"key {k}")
    # Another key is there, and one is gone.
    table[keys[3]] = torch.ones(3) * 9
    assert_same(compiled(x, table, keys[0], keys[3]), fn(x, table, keys[0], keys[3]), "one more")
    del table[keys[3]]
    assert_same(compiled(x, table, keys[1], keys[3]), fn(x, table, keys[1], keys[3]), "one less")
    del keys[1]
    gc.collect()
    assert len(table) == 2
    assert_same(compiled(x, table, keys[1], keys[2]), fn(x, table, keys[1], keys[2]), "one died")


def test_a_missing_key():
    def fn(a, d, k):
        try:
            return a * d[k]
        except KeyError as error:
            return a, len(error.args)

    table, there, gone = weakref.WeakKeyDictionary(), Key(), Key()
    table[there] = 3.0
    compiled = stator.compile(fn)
    for k in (there, gone, there, gone):
        assert_same(compiled(x, table, k), fn(x, table, k))


def test_a_cache_by_module():
    cache = weakref.WeakKeyDictionary()
    made = {"count": 0}

    def scale_of(module, a):
        if module not in cache:
            made["count"] += 1
            cache[module] = module.weight.abs().sum()
        return cache[module]

    def fn(module, a):
        return module(a) / scale_of(module, a)

    compiled = stator.compile(fn, fullgraph=True)
    modules = [nn.Linear(3, 3) for _ in range(3)]
    for turn in range(3):
        for index, module in enumerate(modules):
            assert_same(compiled(module, x + turn), module(x + turn) / module.weight.abs().sum(), f"{turn}, {index}")
    assert made["count"] == len(cache) == 3
    # The entries die with their keys, which the references with callbacks notice.
    del modules[1:], module
    gc.collect()
    assert len(cache) == 1


def test_writes():
    def fn(a, d, k, other):
        d[k] = a * 2
        d[other] = len(d)
        n = d.pop(other)
        d[other] = n + 1
        del d[other]
        return d[k] + n, len(d), other in d

    mine, theirs = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()
    keys = [Key(), Key(), Key()]
    compiled = stator.compile(fn, fullgraph=True)
    for turn in range(4):
        for k in keys[:2]:
            assert_same(compiled(x + turn, mine, k, keys[2]), fn(x + turn, theirs, k, keys[2]), f"turn {turn}")
            assert_same([mine[k] for k in mine], [theirs[k] for k in theirs])
    assert captures() <= 4
    del k, keys[0]
    gc.collect()
    assert len(mine) == len(theirs) == 1


def test_a_key_that_is_dropped_after_it_was_stored():
    holder = []

    def fn(a, d, holder):
        d[holder[0]] = a + 1
        holder.clear()
        return a * 2, len(d)

    compiled = stator.compile(fn)
    for _ in range(3):
        results = []
        for run in (compiled, fn):
            table = weakref.WeakKeyDictionary()
            holder.append(Key())
            results.append((run(x, table, holder), len(table)))
        assert_same(*results)


def test_keys_that_compare_in_their_own_way():
    def fn(a, d, k):
        return a * d[k]

    keys = [Equal(1), Equal(2)]
    table = weakref.WeakKeyDictionary({keys[0]: 2.0, keys[1]: 3.0})
    compiled = stator.compile(fn)
    for k in (keys[0], keys[1], Equal(2), Equal(1)):
        assert_same(compiled(x, table, k), fn(x, table, k))


def test_tensors_as_keys():
    def fn(a, d, k):
        return a * d[k], k in d

    keys = [torch.ones(2), torch.ones(2), nn.Parameter(torch.ones(2))]
    table = torch.utils.weak.WeakTensorKeyDictionary()
    for index, key in enumerate(keys):
        table[key] = float(index + 2)
    compiled = stator.compile(fn)
    for key in keys:
        assert_same(compiled(x, table, key), fn(x, table, key))
    # A plain one compares the tensors.
    table = weakref.WeakKeyDictionary()
    table[keys[0]] = 2.0
    for run in (fn, compiled, fn, compiled):
        with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
            run(x, table, keys[0])


def test_weak_values():
    class Holder:
        def __init__(self, number):
            self.tensor = torch.full((3,), number)

    def fn(a, d, name):
        found = d.get(name)
        return a if found is None else a * found.tensor + d[name].tensor + (name in d)

    table, held = weakref.WeakValueDictionary(), [Holder(2.0), Holder(3.0)]
    table["a"], table["b"] = held
    compiled = stator.compile(fn)
    for name in ("a", "b", "c", "a"):
        assert_same(compiled(x, table, name), fn(x, table, name), name)
    held.pop()
    gc.collect()
    for name in ("b", "a"):
        assert_same(compiled(x, table, name), fn(x, table, name), name)
    assert captures() > 0


def weak_value_reads():
    def get(t, d):
        return d.get("k")(t)

    def item(t, d):
        return d["k"](t)

    def contains(t, d):
        return t + ("k" in d)

    def items(t, d):
        for _, value in d.items():
            t = value(t)
        return t

    def values(t, d):
        return sum(value(t) for value in d.values())

    def keys(t, d):
        return t + len(list(d.keys()))

    return [get, item, contains, items, values, keys]


@pytest.mark.parametrize("fn", weak_value_reads(), ids=lambda fn: fn.__name__)
def test_one_capture_reads_weak_values(fn):
    class Scale:
        def __init__(self, number):
            self.number = number

        def __call__(self, t):
            return t * self.number

    held = Scale(2.0)
    table = weakref.WeakValueDictionary(k=held)
    compiled = stator.compile(fn)
    for _ in range(12):
        assert_same(compiled(x, table), fn(x, table))
    # The dict's set of iterations in progress is made on the first one.
    assert captures() <= 2
    made = captures()
    held = table["k"] = Scale(2.0)  # replaced by one of equal structure
    gc.collect()
    for _ in range(3):
        assert_same(compiled(x, table), fn(x, table))
    assert captures() <= made + 1
    held = table["k"] = Scale(3.0)
    for _ in range(3):
        assert_same(compiled(x, table), fn(x, table))
    del held
    gc.collect()
    assert "k" not in table
    if fn.__name__ in ("contains", "items", "values", "keys"):
        assert_same(compiled(x, table), fn(x, table))
    else:
        error = KeyError if fn.__name__ == "item" else TypeError
        for run in (fn, compiled, compiled):
            with pytest.raises(error):
                run(x, table)


def test_a_weak_reference_of_a_subclass_whose_object_dies():
    class Kept(weakref.ref):
        pass

    class Holder:
        number = 2.0

    def fn(t, reference):
        found = reference()
        return t + 1 if found is None else t * found.number

    held = Holder()
    reference = Kept(held)
    compiled = stator.compile(fn)
    for _ in range(4):
        assert_same(compiled(x, reference), x * 2)
    assert captures() == 1
    held.number = 3.0
    assert_same(compiled(x, reference), x * 3)
    del held
    gc.collect()
    for _ in range(4):
        assert_same(compiled(x, reference), x + 1)
    assert captures() <= 3
