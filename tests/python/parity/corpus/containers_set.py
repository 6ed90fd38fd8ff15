"""Sets and frozensets."""

from tests.python.parity.corpus.registry import f, program

seen = set()
ALLOWED = frozenset({"relu", "tanh"})


@program((f(2), {1, 2, 3}), (f(2), {2}))
def membership(x, s):
    return x + 1 if 3 in s else x - 1


@program((f(2), "relu"), (f(2), "gelu"))
def global_frozenset(x, name):
    return x.relu() if name in ALLOWED else x


@program((f(2), [1, 2, 2]), (f(2), [3, 3]))
def built_from_list(x, ns):
    s = set(ns)
    s.add(10)
    s.discard(1)
    s.discard(99)
    return x * len(s), sorted(s)


@program((f(2), {1, 2, 3}, {2, 3, 4}), (f(2), {1}, {1}))
def operators(x, a, c):
    return x * len(a & c), sorted(a | c), sorted(a - c), sorted(a ^ c), a <= c, a < (a | c), a == c, a.isdisjoint(c)


@program((f(2), {1, 2, 3}), (f(2), {5}))
def methods_taking_iterables(x, s):
    both = s.intersection(range(3))
    return x * len(s.union([7], (8,))), sorted(both), sorted(s.difference([1])), s.issubset(range(4)), s.issuperset([])


@program((f(2), {1, 2}), (f(2), {3}))
def input_is_mutated(x, s):
    s.add(100)
    s.remove(min(s))
    return x * len(s)


@program((f(2), {1, 2}), (f(2), {2, 3, 4}))
def in_place_operators(x, s):
    s |= {9}
    s &= {2, 9}
    s -= {9}
    s ^= {5}
    return x * sum(s)


@program((f(2), {1, 2}), (f(2), {2}))
def updates(x, s):
    s.update([5, 6], {7})
    s.intersection_update({2, 5, 6})
    s.difference_update([6])
    s.symmetric_difference_update({2, 8})
    return x * sum(s), sorted(s)


@program((f(2), 1), (f(2), 1), (f(2), 2))
def module_level_seen(x, n):
    if n in seen:
        return x
    seen.add(n)
    return x * 2


@program((f(2), frozenset({1, 2})), (f(2), frozenset({3})))
def frozen(x, s):
    t = s | {9}
    d = {s: "key", frozenset(): "empty"}
    return x * len(t), type(t).__name__, d[frozenset(s)], hash(s) == hash(frozenset(sorted(s)))


@program((f(2), {1, 2}), (f(2), {3}))
def remove_error(x, s):
    try:
        s.remove("missing")
    except KeyError as error:
        return x * len(s), error.args


@program((f(2), {4}), (f(2), {5}))
def pop_the_only_one(x, s):
    n = s.pop()
    return x * n, len(s), bool(s)


@program((f(2), {3, 1, 2}), (f(2), {9, 8}))
def loops_and_sums(x, s):
    total = 0
    for n in s:
        total += n
    return x * total, max(s), min(s), sum(n * n for n in s)


@program((f(2), ["b", "a", "b"]), (f(2), ["c", "d"]))
def unique_in_order(x, names):
    known = set()
    out = []
    for name in names:
        if name not in known:
            known.add(name)
            out.append(name)
    return x * len(out), out


@program((f(2), 6), (f(2), 9))
def comprehension_and_literals(x, n):
    s = {k % 3 for k in range(n)}
    t = {*s, 10, *[11, 12]}
    return x * len(t), sorted(t), s.copy() == s, s is not s.copy()


@program((f(2), {1, 2, 3}), (f(2), {1, 2}))
def clear_and_length(x, s):
    before = len(s)
    s.clear()
    return x * before, s, not s


@program(f(2), f(3))
def tensors_in_a_set(x):
    y = x + 1
    s = {x, y}
    s.add(x)
    return len(s), x in s, y * 2


@program((f(2), {1, 2}), (f(2), {1, 2, 3}))
def comparison_chain(x, s):
    if {1} < s <= {1, 2} < {1, 2, 3}:
        return x * 2
    return x


@program((f(2), {(1, 2), (3, 4)}), (f(2), {(5, 6)}))
def tuples_in_a_set(x, s):
    return x * ((1, 2) in s), sorted(s)[0]


@program((f(2), {1, 2}), (f(2), {2, 1}), (f(2), {1}))
def equal_sets_hit(x, s):
    return x * (10 if s == {1, 2} else 20)


class Tagged(set):
    def __init__(self, items=(), tag=""):
        super().__init__(items)
        self.tag = tag

    def add(self, item):
        super().add((self.tag, item))


class Names(frozenset):
    def __contains__(self, item):
        return super().__contains__(item.lower())


def counted(items, seen):
    for item in items:
        seen.append(item)
        yield item


def failing(items):
    yield from items
    raise ValueError("no more")


@program((f(2), [1, 2, 3]), (f(2), [9, 4, 1]))
def questions_stop_early(x, items):
    seen = []
    s = {1, 2, 4}
    answers = [
        s.isdisjoint(counted(items, seen)),
        s.issuperset(counted(items, seen)),
        s.issubset(counted(items, seen)),
        s.isdisjoint([10, *items]),
    ]
    return x * len(seen), seen, answers


@program((f(2), {5}), (f(2), {1, 7}))
def elements_before_an_error_stay(x, outside):
    for s in (outside, set()):
        try:
            s.update([1, 2], failing([3, 4]), [5])
        except ValueError as error:
            x = x + len(s)
            s.add(str(error))
    return x, outside


@program((f(2), [1, 2]), (f(2), [3]))
def instances_of_a_subclass(x, items):
    s = Tagged(items, tag="t")
    s.add(7)
    s |= {10}
    s.discard(1)
    both = s | {20}
    return x * len(s), s, type(s), s.tag, type(both), len(both), ("t", 7) in s, s == {*items, 10, ("t", 7)} - {1}


@program((f(2), Tagged([1, 2], "a")), (f(2), Tagged([1, 2], "b")), (f(2), Tagged([1, 2, 3], "a")))
def an_outside_instance_of_a_subclass(x, s):
    s.add(5)
    s.update({9: 1}, [8])
    for item in sorted(k for k in s if isinstance(k, int)):
        x = x * item
    return x + len(s), s.tag


@program((f(2), ["a", "b"]), (f(2), ["c"]))
def a_frozen_subclass(x, names):
    s = Names(names)
    return x * len(s), "A" in s, "C" in s, s, type(s | {"d"}), type(s.copy()), s <= {"a", "b"}, s.isdisjoint({"c"})


@program((f(2), {1, 2}), (f(2), {3}))
def operators_as_methods(x, s):
    found = [
        set.__or__(s, {5}) == {5, *s},
        s.__and__([1]) is NotImplemented,
        frozenset(s).__xor__({1}),
        set.__le__(s, {1, 2, 3}),
        s.__rsub__({1, 9}),
        s.__eq__(3) is NotImplemented,
    ]
    s.__ior__({11})
    s.__isub__({1})
    return x * len(s), found, s


@program((f(2), {1, 2}), (f(2), {3}))
def a_set_is_looked_for_as_a_frozenset(x, s):
    sets = {frozenset(s), frozenset("ab")}
    found = s in sets, set("ba") in sets, {9} in sets
    sets.remove(set("ab"))
    sets.discard({9})
    return x * len(sets), found, sets == {frozenset(s)}


@program((f(2), {1, 2}), (f(2), {3}))
def update_reads_what_it_has_added(x, s):
    s.update(len(s) + 10 for _ in range(3))
    return x * len(s), s


@program((f(2), {1, 2}), (f(2), {3}))
def slots_by_name(x, s):
    d = dict.fromkeys(s, 0)
    keys = d.keys()
    answers = [
        keys.__contains__(1),
        list(keys.__iter__()),
        keys.__len__(),
        keys.__eq__(s),
        keys.__and__({1, 3}),
        s.__or__({5}),
        s.__or__([5]),
        s.__lt__({1, 2, 3}),
        s.__eq__(3),
        frozenset(s).__rsub__({1, 9}),
        d.items().__contains__((1, 0)),
    ]
    s.__init__([4, 4, 5])
    s.__ior__({6})
    return x * len(s), answers, s
