"""deque, OrderedDict, defaultdict, Counter, ChainMap, namedtuple, UserDict."""

import collections
import heapq
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from typing import NamedTuple

import torch

from tests.python.parity.corpus.registry import call, f, program

Point = namedtuple("Point", "x y")
recent = deque(maxlen=2)


class Output(NamedTuple):
    value: torch.Tensor
    extra: int = 0

    def total(self):
        return self.value.sum() + self.extra


@program((f(2), f(2)), (f(3), f(3)))
def namedtuple_made(x, y):
    p = Point(x + y, y=x - y)
    return p, p.x * 2, p[1], p._fields, isinstance(p, tuple)


@program(Point(f(2), f(2)), Point(f(3), f(3)))
def namedtuple_taken(p):
    a, c = p
    return p._replace(x=a + c), p._asdict()["y"] * 2, Point._make([a, c]).x


@program((f(2), 1), (f(2), 2))
def typed_namedtuple(x, n):
    out = Output(x * n)
    return out, out.total(), Output(x, extra=n).total(), out._replace(extra=5)


@program((f(2), 3), (f(2), 4))
def deque_as_queue(x, n):
    q = deque()
    for k in range(n):
        q.append(x * k)
        q.appendleft(k)
    first = q.popleft()
    return q.pop(), first, len(q), list(q)[0]


@program(f(2), f(2), f(2))
def bounded_global_deque(x):
    recent.append(x)
    return sum(recent)


@program((f(2), deque([1, 2, 3])), (f(2), deque([4, 5])))
def deque_input(x, q):
    q.rotate(1)
    q.extend([7, 8])
    q.extendleft([0])
    return x * q[0] + q[-1], q.maxlen, 7 in q, q.count(7), q.index(8)


@program((f(2), ["a", "b", "a"]), (f(2), ["c"]))
def defaultdict_of_lists(x, names):
    groups = defaultdict(list)
    for k, name in enumerate(names):
        groups[name].append(x * k)
    return groups, sorted(groups), len(groups["none"])


@program((f(2), [1, 2, 1]), (f(2), [5]))
def defaultdict_of_ints(x, ns):
    counts = defaultdict(int)
    for n in ns:
        counts[n] += 1
    return x * counts[1], dict(counts), counts.get("none")


@program((f(2), defaultdict(lambda: 3, {"a": 1})), (f(2), defaultdict(lambda: 4)))
def defaultdict_input(x, d):
    return x * d["a"] + d["b"]


@program((f(2), "abca"), (f(2), "zz"))
def counter(x, text):
    c = Counter(text)
    c.update("a")
    return x * c["a"], c.most_common(1), c["none"], sum(c.values())


@program((f(2), [1, 2]), (f(2), [3]))
def counter_arithmetic(x, ns):
    a, c = Counter(ns), Counter([1, 1, 3])
    return x * sum((a + c).values()), sorted((a - c).items()), sorted((a | c).items()), sorted(c.elements())


@program(({"b": f(2), "a": f(2)},), ({"z": f(2)},))
def ordered_dict(d):
    od = OrderedDict(d)
    od["new"] = 1
    od.move_to_end("new", last=False)
    last = od.popitem()
    return od, last[0], list(od)


@program(call(OrderedDict(a=f(2), b=f(2))), call(OrderedDict(b=f(2), a=f(2))))
def ordered_dict_input(od):
    out = None
    for key, value in od.items():
        out = value if out is None else out * 2 + value
    return out, list(od), od == OrderedDict(a=1, b=2) if False else None


@program((f(2), {"a": 1}), (f(2), {"a": 3, "b": 5}))
def chain_map(x, d):
    chain = ChainMap(d, {"a": 10, "b": 20})
    child = chain.new_child({"c": 4})
    return x * chain["a"] + chain["b"], child["c"], sorted(child), "z" in chain, chain.get("z", 0)


@program((f(2), {"a": 1}), (f(2), {"a": 2}))
def user_dict(x, d):
    class Config(UserDict):
        def __missing__(self, key):
            return len(key)

    config = Config(d)
    config["b"] = 5
    return x * config["a"] + config["b"] + config["missing"], dict(config)


@program((f(2), {"a": 1}), (f(2), {"a": 2}))
def dict_subclass(x, d):
    class Attr(dict):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__

    a = Attr(d)
    a.b = x * a.a
    return a["b"], a.a, sorted(a), isinstance(a, dict)


@program((f(2), [1, 2, 3]), (f(2), [4]))
def list_subclass(x, ns):
    class Stack(list):
        def push(self, item):
            self.append(item)
            return self

        @property
        def top(self):
            return self[-1]

    s = Stack(ns)
    return x * s.push(7).top, len(s), list(s)


@program((f(2), {"a": 1, "b": 2}), (f(2), {"c": 1}))
def abc_isinstance(x, d):
    from collections.abc import Iterable, Mapping, Sequence

    return x * isinstance(d, Mapping), isinstance([], Sequence), isinstance((k for k in d), Iterable), callable(d)


@program((f(2), "a"), (f(2), "b"))
def namedtuple_defaults_and_nesting(x, name):
    Pair = namedtuple("Pair", ["left", "right"], defaults=[1])
    pair = Pair(Point(x, name))
    return pair.left.x * pair.right, pair.left.y, pair == (pair.left, 1) if False else len(pair)


@program((f(2), 2), (f(2), 3))
def torch_size_is_a_tuple(x, n):
    s = x.shape + (n,)
    return x * s[0], isinstance(s, tuple), s, x.shape.numel(), torch.Size([n, 2]).numel(), tuple(x.shape) == (2,)


@program((f(2), collections.deque([f(2)], maxlen=3)), (f(2), collections.deque([f(2), f(2)], maxlen=2)))
def window_of_tensors(x, window):
    window.append(x)
    return torch.stack(list(window)).mean(0)


def told(items):
    yield from items
    raise KeyError("told")


@program((f(2), deque([1], maxlen=3)), (f(2), deque([7])))
def deque_items_before_an_error_stay(x, outside):
    for target in (outside, deque([0])):
        for extend in (target.extend, target.extendleft):
            try:
                extend(told([2, 3]))
            except KeyError:
                x = x * len(target)
        target.extend(target)
    return x, outside


@program((f(2), [3, 1, 2]), (f(2), [True, 1.0, 1]))
def equal_items_of_a_heap(x, items):
    heapq.heapify(items)
    heapq.heappush(items, 1)
    return x, items, [type(k) for k in items], heapq.heappop(items)


@program((f(2), deque([1, 2, 3], maxlen=3)), (f(2), deque([4, 5, 6], maxlen=3)))
def a_deque_changes_while_it_is_iterated(x, d):
    seen = []
    for k, item in enumerate(d):
        seen.append(item)
        if k + 1 < len(d):
            d[k + 1] = item * 10
    try:
        for item in d:
            seen.append(item)
            d.append(0)
    except RuntimeError as error:
        seen.append(str(error))
    return x * seen[1], seen, d


class Plain(dict):
    pass


class Stack(list):
    pass


@program((f(2), {"a": 1}), (f(2), {}))
def texts_of_containers(x, d):
    shown = [
        str(OrderedDict(d, z=2)),
        f"{defaultdict(list, d)!r:>30}",
        repr(Plain(d)),
        str(Stack(d)),
        f"{Stack([1, 'b'])}",
        repr([OrderedDict(), Plain()]),
    ]
    return x * len(shown), shown


class Duo(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


class Vector(Duo):
    def __new__(cls, a, b):
        return super().__new__(cls, a, b)

    def __add__(self, other):
        return Vector(self.a + other.a, self.b + other.b)

    def __len__(self):
        return 7


class Slim(Duo):
    __slots__ = ()

    def __mul__(self, by):
        return Slim(self.a * by, self.b * by)

    def __contains__(self, item):
        return item == "everything"


@program((Vector(f(2), f(3)), Slim(f(2), f(2))), (Vector(f(3), f(2)), Slim(f(1), f(2))))
def named_tuples_with_operators(v, s):
    w = v + v
    w.note = "new"
    twice = s * 2
    return w, w.note, len(w), w[0], w._fields, tuple(w), twice, twice.a, "everything" in twice, 1 in twice, w._asdict()


@program((Vector(f(2), f(3)),), (Vector(f(3), f(2)),))
def named_tuple_with_attributes(v):
    v.seen = v.a.sum()
    moved = v._replace(a=v.b)
    first, second = v
    return moved, type(moved), hasattr(moved, "seen"), v.seen, first + 1, Duo.a is Vector.a


@program((f(2), deque([1], 4)), (f(2), deque([2, 3], 3)))
def deque_extend_reads_what_it_has_added(x, d):
    d.extendleft(map(lambda n: n + d[0], range(3)))
    d.extend(n + d[-1] for n in [1, 2])
    d += [len(d)]
    d.extend(d)
    return x * d[0], d
