"""Sets and frozensets: order, elements of any hashable type, every operator and method, external sets."""

import pytest
import torch

from tests.python.parity.programs import Programs, x, y

programs = Programs()


@programs((x, {8, 0}), (x, {0, 8}), (x, {1, 2, 3}))
def outside_order(a, s):
    return a + sum(i * v for i, v in enumerate(s)), list(s), sorted(s), len(s), 8 in s


@programs((x,))
def operators(a):
    s, t = {1, 2, 3}, {3, 4}
    return a + len(s | t), s & t, s - t, s ^ t, s | t, s <= {1, 2, 3, 4}, s < s, s >= {1}, s == {3, 2, 1}, s != t


@programs((x,))
def augmented(a):
    s = {1, 2}
    s |= {3}
    s &= {2, 3, 4}
    s -= {2}
    s ^= {3, 5}
    return a + len(s), s


@programs((x,))
def methods(a):
    s = {1, 2}
    s.add(3)
    s.discard(9)
    s.remove(1)
    s.update([7, 8], {9: 0})
    popped = {5}.pop()
    t = s.copy()
    t.clear()
    return (
        a + len(s),
        s,
        t,
        popped,
        s.union([1], (2,)),
        s.intersection({2, 3}),
        s.difference([2]),
        s.symmetric_difference({2, 100}),
        {2} <= s,
        s.issubset(range(10)),
        s.issuperset([2]),
        s.isdisjoint({55}),
    )


@programs((x,))
def mutating_methods(a):
    s = set("abc")
    s.difference_update("a")
    s.intersection_update("bcd")
    s.symmetric_difference_update({"b", "z"})
    return a + len(s), sorted(s)


@programs((x,))
def frozen(a):
    f = frozenset([1, 2])
    d = {f: a + 1, frozenset(): a}
    return d[frozenset({2, 1})], f | {3}, type(f | {3}).__name__, hash(f) == hash(frozenset([2, 1])), f


class Key:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return hash(("key", self.n))

    def __eq__(self, other):
        return isinstance(other, Key) and self.n == other.n


class Plain:
    pass


@programs((x,))
def objects_with_hash(a):
    s = {Key(1), Key(1), Key(2)}
    d = {Key(3): a + 1}
    d[Key(3)] = a + 2
    return a + len(s), Key(2) in s, Key(5) in s, d[Key(3)], len(d)


@programs((x, y))
def objects_by_identity(a, b):
    p, q = Plain(), Plain()
    s = {p, q, p}
    seen = {a, b}
    d = {a: 1, b: 2, p: 3}
    s.discard(q)
    return a + len(s), p in s, q in s, a in seen, (a + 1) in seen, d[a] + d[b] + d[p], len(seen)


@programs((x, x), (x, y))
def tensors_as_keys(a, b):
    return a + len({a, b}), {a: 1, b: 2}[a]


@programs((x,))
def mixed_elements(a):
    s = {1, "one", (1, 2), None, 2.5, Plain}
    return a + len(s), 1.0 in s, True in s, (1, 2) in s, Plain in s, {1, 1.0, True}


@programs((x,))
def tuples_with_objects(a):
    p = Plain()
    d = {(p, 1): a, (p, 2): a + 1}
    return d[(p, 2)], (p, 1) in d, (p, 3) in d


@programs((x,))
def unhashable(a):
    out = []
    for make in (lambda: {[]}, lambda: {1: 2}[{}], lambda: hash(set()), lambda: set().remove(4), lambda: set().pop()):
        try:
            make()
        except (TypeError, KeyError) as error:
            out.append((type(error).__name__, str(error)))
    return a + 1, out


@programs((x,))
def changed_while_iterated(a):
    s, d, out = {1, 2}, {1: 1}, []
    try:
        for i in s:
            s.add(i + 10)
    except RuntimeError as error:
        out.append(str(error))
    try:
        for k in d:
            d[k + 1] = 0
    except RuntimeError as error:
        out.append(str(error))
    return a + len(out), out


@programs((x, {1, 2}, {5}))
def outside_changed(a, s, t):
    s.add(3)
    s.discard(1)
    t.clear()
    t.update([8, 0])
    return a + len(s), 3 in s, 1 in s, len(t)


@programs((x,))
def comprehension(a):
    return {i % 3 for i in range(7)}, {t.shape for t in (a, a + 1)}, {*range(3), *"ab"} == {0, 1, 2, "a", "b"}, a * 2


test_sets = programs.tests()


def test_order_of_an_external_set_that_changed():
    def fn(a, s):
        s.add(16)
        return a + 1

    import stator

    compiled = stator.compile(fn)
    for elements in ([8, 0], [0, 8], [0, 8, 24]):
        mine, theirs = set(elements), set(elements)
        fn(x, theirs)
        assert torch.equal(compiled(x, mine), x + 1)
        assert list(mine) == list(theirs)


@pytest.mark.parametrize("size", [3, 40])
def test_order_of_a_returned_set(size):
    def fn(a):
        s = set(range(size * 8, 0, -8))
        for i in range(8, size * 8, 16):
            s.discard(i)
        s.add(3)
        return a + 1, s

    import stator

    assert list(stator.compile(fn)(x)[1]) == list(fn(x)[1])
