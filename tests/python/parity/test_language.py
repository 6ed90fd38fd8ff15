"""Small programs over the language: each equals plain Python, and is captured in one graph."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import operator
from typing import NamedTuple

import pytest
import torch

import stator
from tests.python.helpers import check_parity

x = torch.arange(6.0).reshape(2, 3)
y = torch.ones(2, 3) * 3
SCALE = 3.0
TABLE = {"a": 1, "b": 2.5}
programs = {}


def program(*calls):
    def add(fn):
        programs[fn.__name__] = (fn, list(calls))
        return fn

    return add


@program((x, y))
def arithmetic(a, b):
    return a + b * 2 - a / (b + 1) // 1 % 3, -a, a**2, a @ b.T, 2 - a, 1 / (a + 1)


@program((x, (1, 2)), (x, ()))
def tuples_that_are_literals_beside_others(a, given):
    kept = ()
    for n in given:
        kept = kept + (a + n,)
        kept = (n,) + kept
    return given + kept, kept + given, kept


@program((x, 1), (x, 2), (x, -1))
def branches(a, n):
    if n > 1:
        return a + n
    elif n < 0:
        return a - n
    return a * n


@program((x,))
def loops(a):
    total = a
    for i in range(4):
        if i == 2:
            continue
        total = total + i
    n = 0
    while n < 3:
        n += 1
        total = total * n
        if n == 2:
            break
    else:
        total = total - 100
    return total


@program((x, y))
def closures(a, b):
    k = 2

    def inner(t, by=3):
        return t * k + by

    return inner(a), inner(b, by=4), (lambda t: t - k)(a)


@program((x,))
def nonlocal_counter(a):
    n = 0

    def step(t):
        nonlocal n
        n += 1
        return t + n

    return step(step(a)), n


@program((x, y))
def calling_convention(a, b):
    def f(p, /, q, r=1, *rest, s, t=5, **more):
        return p + q * r + s * t + sum(rest) + sum(more.values())

    return f(a, b, s=2), f(a, q=b, s=3, t=1, z=4), f(a, b, 2, 3, 4, s=1), f(*[a, b], **{"s": 7})


@program((x,))
def comprehensions(a):
    xs = [a + i for i in range(3) if i != 1]
    d = {i: a * i for i in range(2)}
    s = {i % 2 for i in range(5)}
    g = tuple(t.sum() for t in xs)
    return xs, d, sorted(s), g, [[i * j for i in range(2)] for j in range(2)]


@program(([x, y],), ((x, y),))
def unpacking(pair):
    a, b = pair
    first, *rest = [a, b, a + b]
    (p, q), r = (a, b), 3
    return first + rest[0], len(rest), p - q, r


@program(({"a": x, "b": y},))
def dictionaries(d):
    out = dict(d)
    out["c"] = d["a"] + d["b"]
    out.update(e=d["a"] * 2)
    popped = out.pop("b")
    keys = list(out.keys())
    return out, popped, keys, "a" in d, d.get("zz"), len(d), {**d, "n": 1}, list(d.items())[0][0]


@program((x,))
def lists(a):
    xs = [a]
    xs.append(a + 1)
    xs.extend([a + 2, a + 3])
    xs.insert(0, a - 1)
    last = xs.pop()
    xs.reverse()
    xs[0] = a * 10
    del xs[1]
    return xs, last, xs[-1], xs[::2], len(xs), xs + [a], [1, 2] * 2, xs.index(xs[1]) if False else 0


@program((x, 7, "name"), (x, 8, "other"))
def strings(a, n, s):
    text = f"{s}-{n:03d}-{n!r}" + " %s" % s + "{}".format(n)
    return a + len(text), text.upper(), s.startswith("n"), ",".join([s, s])


@program((x,))
def globals_and_builtins(a):
    return a * SCALE + TABLE["a"], max(1, 2, 3), min([3, 4]), abs(-2), round(2.7), sum([1, 2]), any([0, 1]), all([])


@program((x,))
def iteration_tools(a):
    out = []
    for i, (p, q) in enumerate(zip([1, 2], [a, a + 1]), start=5):
        out.append(q * p + i)
    return (
        out,
        list(map(lambda t: t + 1, out)),
        list(filter(None, [0, 1, 2])),
        list(reversed([1, 2, 3])),
        next(iter([4])),
    )


@program((x,))
def library(a):
    part = functools.partial(torch.add, a, alpha=2)
    total = functools.reduce(operator.add, [a, a, a])
    return part(a), total, math.sqrt(16.0), operator.mul(a, 2), math.pi


@program((x, x))
def identity(a, b):
    return a is b, a is not None, (a + 1 if a is b else a - 1)


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: int = 3

    def total(self):
        return self.left * self.right

    @property
    def double(self):
        return self.left * 2

    @staticmethod
    def make(t):
        return Pair(t, 5)

    @classmethod
    def unit(cls, t):
        return cls(t, 1)


@program((x,), (y,))
def dataclass_made(a):
    p = Pair(a)
    p.right = 4
    return p, p.total(), p.double, Pair.make(a).total(), Pair.unit(a).right, dataclasses.replace(p, right=9).right


@program((Pair(x, 2),), (Pair(y, 4),))
def dataclass_read(p):
    return p.left + p.right, p.total(), p.double


class Base:
    factor = 2

    def __init__(self, t):
        self.t = t

    def run(self, k):
        return self.t * self.factor + k

    def __call__(self, k):
        return self.run(k)

    def __getitem__(self, i):
        return self.t[i]

    def __len__(self):
        return 2

    def __add__(self, other):
        return type(self)(self.t + other.t)


class Derived(Base):
    factor = 3

    def __init__(self, t):
        super().__init__(t + 1)
        self.extra = 1

    def run(self, k):
        return super().run(k) + self.extra


@program((x,), (y,))
def user_classes(a):
    d = Derived(a)
    return (
        d(2),
        d[0],
        len(d),
        (d + Base(a)).t,
        isinstance(d, Base),
        type(d).__name__,
        getattr(d, "none", 7),
        hasattr(d, "t"),
    )


class Point(NamedTuple):
    u: torch.Tensor
    v: int = 2


@program((x,), (y,))
def named_tuples(a):
    p = Point(a)
    u, v = p
    return p, u + v, p.u * p.v, p._replace(v=5)


@program((x,))
def torch_return_types(a):
    values, indices = a.max(dim=1)
    s = torch.sort(a, descending=True)
    return values, indices, s.values, a.min(1), s


@program((x,), (x.double(),), (x.to(torch.int64),))
def metadata(a):
    if a.dtype == torch.float32:
        a = a + 0.5
    return a.shape, a.size(0), a.dim(), a.dtype, a.device, a.numel(), a.T, a.is_contiguous(), a.ndim, a.shape[-1] * 2


@program((x, y))
def in_place(a, b):
    a += 1
    b.mul_(2)
    c = a.view(-1)
    c[0] = 9
    b[0, 1:] = a[1, :2]
    return a, c


@program((x,))
def slicing(a):
    return a[0], a[:, 1], a[..., -1], a[:, None], a[[0, 1]], a[torch.tensor([1, 0])], a[1:, ::2], a[-1, -1]


@program((x,))
def constants(a):
    t = torch.tensor([1.0, 2.0, 3.0])
    t += a[0]
    return t, torch.zeros(2), torch.arange(3), torch.full((2,), 7), torch.ones_like(a), torch.eye(2)


@program((x.clone().requires_grad_(),))
def grad_modes(a):
    with torch.no_grad():
        b = a * 2
        with torch.enable_grad():
            c = a * 3
    d = a + b
    return b, c, d.detach()


@program((x, y))
def autocast(a, b):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        c = a @ b.T
        with torch.autocast("cpu", enabled=False):
            d = a @ b.T
    return c, d


@program((x,))
def random_ops(a):
    return torch.rand(2), torch.nn.functional.dropout(a, 0.5), a + torch.randn_like(a), torch.randperm(4)


@program((x,))
def handled_errors(a):
    try:
        value = {"k": 1}["missing"]
    except KeyError:
        value = 2
    finally:
        a = a + 1
    try:
        int("no number")
    except (TypeError, ValueError) as error:
        value += len(str(error)) > 0
    return a * value


@program((x,))
def generators(a):
    def produce(n):
        for i in range(n):
            yield a + i

    def chained():
        yield from produce(2)
        yield a

    return list(produce(2)), [t.sum() for t in chained()], sum(i for i in range(4))


@program((x, None), (x, y))
def optional(a, b=None):
    b = a if b is None else b
    return a + b


@program(([x, y], {"k": [x]}))
def mutated_arguments(xs, d):
    xs.append(xs[0] + 1)
    d["new"] = xs[1] * 2
    d["k"].append(3)
    return len(xs)


@program((x,))
def assertions(a):
    assert a.shape[0] == 2, "rows"
    return a + 1


@program((x, 3.5), (x, float("nan")), (x, -0.0))
def float_arguments(a, f):
    return a * f, f != f


@program((x, slice(0, 1)), (x, (1, 2)))
def other_arguments(a, key):
    return a[key] if isinstance(key, tuple) else a[key] * 2


@program((x, "scale + 1", 2), (x, " [scale, SCALE][-1]", 3))
def eval_of_text(a, text, scale):
    def inner():
        return scale + eval("scale * 2")

    return a * eval(text), inner(), eval("(lambda k: k * 2)(scale)")


@program((x, "Pair"), (x, "Two"))
def named_tuple_made_inside(a, title):
    made = collections.namedtuple(title, ["left", "right"], defaults=[1])
    pair = made(a)
    return pair.left * pair.right, len(pair), made._fields, pair._asdict(), type(pair).__name__, made.__module__


@program((x,))
def addresses(a):
    seen = {id(torch): "torch", id(TABLE.__class__): "dict"}
    return a + 1, seen[id(torch)], id(dict) in seen


@pytest.mark.parametrize("name", programs)
def test_program(name):
    fn, calls = programs[name]
    check_parity(fn, *calls, *calls)
    assert not stator.counters()["breaks"]
    assert stator.counters()["cache"]["hits"] >= len(calls)


def test_named_tuple_class_that_is_seen():
    """Each call has its own."""

    def fn(a):
        made = collections.namedtuple("Made", "b")
        return made(a * 2)

    compiled = stator.compile(fn)
    first, second = compiled(x), compiled(x)
    assert torch.equal(first.b, x * 2) and type(first) is not type(second)


def test_eval_that_raises():
    check_parity(lambda a, text: (a + 1, eval(text)), (x, "1 +"), (x, "nowhere"), (x, "1 / 0"))
