"""Dicts: methods, views, order, mutation of inputs, keys of many kinds."""

import collections
from types import MappingProxyType

import torch

from tests.python.parity.corpus.registry import call, f, program

cache = {}
NAMES = {"a": 1, "b": 2}


@program(({"x": f(2), "y": f(2)},), ({"x": f(3), "y": f(3)},))
def read_and_build(d):
    return {"sum": d["x"] + d["y"], **d, "n": len(d)}


@program(({"x": f(2)},), ({"x": f(2), "out": 1},))
def input_is_mutated(d):
    d["out"] = d["x"] * 2
    d["x"] = d["x"] + 1
    return d["out"]


@program(({"x": f(2), "y": 2},), ({"x": f(2), "y": 3},))
def input_pop_and_delete(d):
    y = d.pop("y")
    x = d["x"] * y
    del d["x"]
    return x, d.pop("none", "default"), len(d)


@program(({"a": f(2), "b": f(2)},), ({"b": f(2)},))
def get_with_default(d):
    a = d.get("a")
    b = d.get("b", 0)
    return b if a is None else a + b


@program((f(2), {"a": 1}), (f(2), {"b": 1}))
def setdefault(x, d):
    d.setdefault("a", []) if "a" not in d else None
    d.setdefault("k", x * 2)
    return d.setdefault("k", 5)


@program((f(2), {"a": 1}), (f(2), {"a": 2, "z": 3}))
def update_in_several_ways(x, d):
    d.update(a=5, c=6)
    d.update({"e": 7})
    d.update([("g", 8)])
    d |= {"h": 9}
    return x * sum(d.values()), d | {"i": 10}


@program((f(2), {"b": 1, "a": 2}), (f(2), {"c": 3}))
def views(x, d):
    keys, values, items = d.keys(), d.values(), d.items()
    d["new"] = 4
    return x * len(keys), list(keys), list(values), list(items), "new" in keys, ("new", 4) in items


@program((f(2), {"b": 1, "a": 2}), (f(2), {"c": 3, "a": 0}))
def key_view_set_operations(x, d):
    common = d.keys() & {"a", "z"}
    return x * len(common), sorted(d.keys() | {"q"}), sorted(d.keys() - {"a"}), d.keys() == {"a", "b"}


@program((f(2), {"b": 1, "a": 2}), (f(2), {"c": 3}))
def sorted_items(x, d):
    for key, value in sorted(d.items(), key=lambda kv: kv[1]):
        x = x * value + len(key)
    return x, sorted(d), min(d), max(d.values())


@program((f(2), {1: 2, (1, 2): 3, "s": 4, None: 5, 2.5: 7}), (f(2), {1: 1, (1, 2): 1, "s": 1, None: 1, 2.5: 1}))
def keys_of_many_kinds(x, d):
    return x * d[1] + d[1, 2] + d["s"] + d[None] + d[True] + d[2.5]


@program(f(2), f(2))
def tensor_as_key(x):
    d = {x: "first"}
    y = x + 1
    d[y] = "second"
    return d[x], d[y], len(d), y


@program((f(2), 1), (f(2), 1), (f(2), 2))
def module_level_cache(x, n):
    if n not in cache:
        cache[n] = n * 100
    return x + cache[n]


@program((f(2), "a"), (f(2), "b"), (f(2), "c"))
def lookup_in_global(x, key):
    return x * NAMES.get(key, 10)


@program((f(2), ["a", "b", "a"]), (f(2), ["c"]))
def counting_by_hand(x, words):
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return x * len(counts), counts


@program((f(2), [("a", 1), ("b", 2)]), (f(2), [("c", 3)]))
def constructors(x, pairs):
    a = dict(pairs)
    c = dict(a, z=1)
    d = dict(zip("xy", range(2)))
    e = dict.fromkeys(["p", "q"], 0)
    return x * len(c), a, c, d, e


@program((f(2), {"a": 1, "b": 2}), (f(2), {"b": 2, "a": 1}))
def equality_and_order(x, d):
    return x * (d == {"a": 1, "b": 2}), list(d) == ["a", "b"], d != {"a": 1}


@program((f(2), {"a": {"b": {"c": 2}}}), (f(2), {"a": {"b": {"c": 3}}}))
def nested(x, d):
    d["a"]["b"]["d"] = x * d["a"]["b"]["c"]
    return d["a"]["b"]["d"] + 1


@program((f(2), {"a": 1, "b": 2}), (f(2), {"a": 1}))
def popitem_and_clear(x, d):
    key, value = d.popitem()
    copy = d.copy()
    d.clear()
    return x * value, key, copy, not d


@program((f(2), {"a": 1, "b": 2}), (f(2), {"a": 1, "b": 5}))
def changed_while_iterated(x, d):
    try:
        for key in d:
            d[key + "2"] = 0
    except RuntimeError as error:
        return x, str(error), len(d)


@program((f(2), {"a": 1, "b": 2}), (f(2), {"a": 4}))
def deletes_while_iterating_a_copy(x, d):
    for key in list(d):
        if d[key] > 1:
            del d[key]
    return x * len(d), d


@program((f(2), {"scale": 3, "bias": 1}), (f(2), {"scale": 2}))
def unpacked_into_call(x, options):
    def apply(t, scale, bias=0, **rest):
        return t * scale + bias + len(rest)

    return apply(x, **options), apply(x, **{**options, "extra": 1})


@program((f(2), {"a": 1, "b": 2}), (f(2), {"a": 3, "b": 4}))
def reversed_and_length(x, d):
    return x * len(d), list(reversed(d)), list(reversed(d.items())), bool(d)


@program((f(2), {"relu": 1}), (f(2), {"tanh": 1}))
def functions_as_values(x, wanted):
    table = {"relu": torch.relu, "tanh": torch.tanh}
    for name in wanted:
        x = table[name](x)
    return x


@program((f(2), {"a": 1}), (f(2), {"a": 2}))
def missing_key_error(x, d):
    y = x * d["a"]
    return y + d["b"]


def failing_pairs(pairs):
    yield from pairs
    raise RuntimeError("no more")


@program((f(2), {"a": 1}), (f(2), {}))
def entries_before_an_error_stay(x, outside):
    own = {}
    for target in (outside, own):
        try:
            target.update(failing_pairs([("k", 2), ("a", 3)]))
        except RuntimeError:
            x = x * target["k"]
    for wrong in ([("p", 1), ("q",)], [("r", 1), ("s", 2, 3)]):
        try:
            own.update(wrong)
        except ValueError as error:
            own[str(error)] = 0
    return x, own, outside


class Settings:
    scale = 3
    shift = 1


view = MappingProxyType({"a": 2.0, "b": 3.0})
behind = {"k": 1}
shown = MappingProxyType(behind)


@program((f(2), view), (f(2), MappingProxyType({"a": 5.0})), (f(2), {"a": 7.0}))
def a_read_only_view(x, mapping):
    total = x * mapping["a"]
    for key, value in mapping.items():
        total = total + value * len(key)
    read_only = isinstance(mapping, MappingProxyType)
    try:
        mapping["new"] = 1
    except TypeError as error:
        return total, read_only, str(error), isinstance(mapping, dict), "b" in mapping, mapping.get("z", 4)
    return total, read_only, mapping


@program(f(2), f(3), call(f(2), before=lambda _: behind.update(k=10)), call(f(2), before=lambda _: behind.clear()))
def a_view_shows_what_changes(x):
    before = dict(shown)
    behind["n"] = behind.get("n", 0) + 1
    return x * shown["n"], before, len(shown), list(shown), shown == behind, {**shown}


@program((f(2), {"a": 1}), (f(2), {"b": 2}))
def a_view_is_made(x, d):
    mine = MappingProxyType(d)
    d["c"] = 3
    return x * mine["c"], mine, mine | {"z": 1}, list(reversed(mine)), mine.copy() == d


@program(f(2), f(3), call(f(2), before=lambda _: setattr(Settings, "scale", 9)))
def the_dict_of_a_class(x):
    found = {k: v for k, v in vars(Settings).items() if not k.startswith("__")}
    return x * Settings.__dict__["scale"], found, "shift" in Settings.__dict__, type(Settings.__dict__)


@program(f(2), f(3))
def a_class_is_written_and_looked_through(x):
    before = "late" in Settings.__dict__
    Settings.late = 5
    after = Settings.__dict__["late"]
    del Settings.late
    return x * after, before


@program((f(2), {"a": 1}), (f(2), {}))
def update_reads_what_it_has_added(x, d):
    d.update((f"n{len(d)}", len(d)) for _ in range(3))
    return x * len(d), d


@program((f(2), {"a": 1}), (f(2), {}))
def update_keeps_what_came_before_an_exception(x, d):
    def pairs():
        yield "k", len(d)
        raise KeyError("stop")

    try:
        d.update(pairs())
    except KeyError:
        return x + len(d), d


class Loud(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


@program((f(2), ["a", "b"]), (f(2), ["c"]))
def fromkeys_of_subclasses(x, names):
    counts = collections.defaultdict.fromkeys(names, 3)
    ordered = collections.OrderedDict.fromkeys(names, value=1)
    loud = Loud.fromkeys(names, 5)
    return x * counts[names[0]], counts, ordered, loud, type(loud), counts.default_factory


@program((f(2), {"a": 1}), (f(2), {"b": 2}))
def what_has_no_order(x, d):
    said = []
    for left, right in [(d, d), (d, 1), ([x], (x,)), (d.values(), d.values()), (len, len), ({1}, [1])]:
        try:
            said.append(left < right)
        except TypeError as error:
            said.append(str(error))
        said.append((left == right, left != right))
    return x + 1, said[2:], said[0]
