"""Containers, iterators, attributes and torch modes are read as in plain Python (O70-O77)."""

import collections
import itertools
import math
import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator
from tests.python.api.test_value_helpers import CALLS, Colour, Ordered, X, check_one_graph
from tests.python.helpers import assert_same, captures, check_parity, run_program

# ---- O70: dicts


class OtherKeys(dict):
    def keys(self):
        return ["z"]

    def items(self):
        return [("z", 0)]

    def __reduce__(self):
        return OtherKeys, (dict(dict.items(self)),)


class OtherIter(dict):
    def __iter__(self):
        return iter(["q"])

    def __getitem__(self, key):
        return 5

    def __reduce__(self):
        return OtherIter, ({key: dict.__getitem__(self, key) for key in dict.__iter__(self)},)


class OtherOrdered(collections.OrderedDict):
    def __getitem__(self, key):
        return 7


def test_views():
    def f(x):
        d = {"a": x, "b": 2}
        keys, values, items = d.keys(), d.values(), d.items()
        d["c"] = 3
        sets = sorted(keys & {"a"}), sorted(keys | {"q"}), "c" in keys, isinstance(keys, type({}.keys()))
        return x + len(keys), list(keys), list(values), list(items), sets, list(reversed(d))

    check_one_graph(f)


def moved():
    d = collections.OrderedDict(a=1, b=2, c=3)
    d.move_to_end("a")
    return d


def test_ordered_dicts():
    def given(x, d):
        return x + 1, list(d.items()), list(enumerate(d)), next(iter(d)), list(dict.keys(d)), [d[k] for k in d]

    def changed(x, d):
        d.move_to_end("b")
        return x + d["a"], list(d), d.popitem(last=False), d, list(reversed(d))

    check_one_graph(given, (X, moved()), (X, moved()))
    check_one_graph(changed, (X, moved()), (X, moved()))
    assert stator.compile(given)(X, moved())[1] == [("b", 2), ("c", 3), ("a", 1)]


@pytest.mark.parametrize("kind", [OtherKeys, OtherIter])
def test_dicts_with_methods_of_their_own(kind):
    def f(x, d):
        own = list(d), list(d.keys()), d.get("a"), len(d), [k for k in d], "a" in d, list(d.values()), list(d.items())
        real = list(dict.keys(d)), list(dict.items(d)), dict.__getitem__(d, "a"), list(dict.__iter__(d))
        merged = {**d}, dict(d), (lambda **k: k)(**d), {"x": 1} | d
        return x + d["a"], own, real, merged

    def ordered(x, d):
        made = collections.OrderedDict(d) if kind is OtherIter else None
        e = {"n": 0}
        e.update(d)
        return x + 1, made, e

    check_one_graph(f, (X, kind(a=1, b=2)), (X, kind(a=1, b=2)))
    check_one_graph(ordered, (X, kind(a=1, b=2)), (X, kind(a=1, b=2)))


def test_merged_dicts():
    def f(x, a, b, c):
        merged = a | b, b | a, a | c, c | a, b | c, c | b
        a |= b
        return x + 1, merged, [type(m) for m in merged], merged[2]["new"], merged[5]["new"]

    def given():
        return X, {"a": 1}, collections.OrderedDict(b=2), collections.defaultdict(list, c=[3])

    check_one_graph(f, given(), given())


def test_ordered_dicts_with_methods_of_their_own():
    given = OtherOrdered(a=1)
    compiled = stator.compile(lambda x: (x + 1, {**given}, dict(given), collections.OrderedDict(given)))
    for _ in range(2):
        assert_same(compiled(X), (X + 1, {**given}, dict(given), collections.OrderedDict(given)))
    assert captures() == 1


MODULES = {torch.nn.Linear(3, 3): 1, torch.nn.Linear(3, 3): 2}
FIRST = next(iter(MODULES))
KEY = torch.ones(1)
BY_TENSOR = {KEY: 4}


def test_keys_by_identity():
    def f(x):
        d = {x: 1}
        by_tensor = BY_TENSOR[KEY], KEY in BY_TENSOR, x in d, d[x], x in BY_TENSOR
        return FIRST(x) + MODULES[FIRST], FIRST in MODULES, [v for _, v in MODULES.items()], by_tensor

    check_one_graph(f)


# ---- O71: iterators


def test_iterators():
    def f(x):
        i, r, c = iter((1, 2, 3, 4)), iter(range(1, 10, 2)), itertools.count(5, 3)
        next(i), next(r), next(r), next(c)
        length = len(range(*slice(None, None, -2).indices(7)))
        try:
            next(iter([]))
        except StopIteration as stop:
            ended = stop.value
        return x + next(i), list(i), list(r), next(c), length, ended, next(iter([]), "end"), sum({1, 2, 3})

    check_one_graph(f)
    assert stator.compile(f)(X)[1:5] == ([3, 4], [5, 7, 9], 8, 4)


def test_iterators_from_outside():
    def f(x, i, r, c):
        a, *b = i
        return x + a, b, list(r), next(c), next(c), next(i, "end"), next(r, None)

    compiled = stator.compile(f)
    for _ in range(3):

        def given():
            i, r, c = iter((1, 2, 3, 4)), iter(range(1, 10, 2)), itertools.count(5, 3)
            next(i), next(r), next(r), next(c)
            return i, r, c

        mine, plain = given(), given()
        assert_same(compiled(X, *mine), f(X, *plain))
        assert next(mine[2]) == next(plain[2]), "taken as in eager"
    assert captures() >= 1


def test_imports_inside():
    def f(x):
        from json import nothing_of_this_name

        return x + nothing_of_this_name

    def handled(x):
        y = x * 2
        try:
            from json import nothing_of_this_name  # noqa: F401
        except ImportError as error:
            return y + 1, str(error)

    check_parity(f, *CALLS, graphs=0)
    check_parity(handled, *CALLS)
    program = """
        import torch, stator
        def f(x):
            y = x + 1
            from xml.sax import expatreader
            return y * 2, expatreader.__name__
        for _ in range(2):
            print(stator.compile(f)(torch.ones(1))[1], stator.counters["captures"]["graphs"] > 0)
    """
    assert run_program(program) == "xml.sax.expatreader True\nxml.sax.expatreader True"


# ---- O72: strings in guards


class First:
    pass


class Second:
    pass


def test_texts_of_guards_tell_values_apart():
    def f(x, value):
        return x + 1 if value else x

    def guards_of(value):
        stator.reset()
        compiled = stator.compile(f)
        compiled(X, value)
        return " ".join(stator.cache_entries(compiled)[0]["guards"])

    for value in (1, "text", 2.5, torch.float16, Colour.RED):
        assert repr(value) in guards_of(value), value
    assert "First" in guards_of(First) and "Second" in guards_of(Second)
    assert "(3,)" in guards_of((3,)) or "3" in guards_of((3,))


# ---- O73, O74: membership and wrong calls

nan = float("nan")


def test_membership():
    def f(x):
        numbers = nan in [nan], nan in (nan,), nan in {"a": nan}.values(), [nan] == [nan], nan == nan, True in [1]
        others = 1 in {1: 2}, (1, 2) in {1: 2}.items(), 3 in [], "a" in "abc", 2 in range(3), [nan].index(nan)
        tensors = x in [x], x in (x,), x in {x}, x in {"a": x}.values(), [x].index(x), x.shape[0] in (2, 3)
        return x + 1, numbers, others, tensors, torch.float32 in (torch.float32,), int in [str, int]

    def by_identity(x, a, b):
        return x + 1, a in [b], float("nan") in [a], a in {b}, a in {b: 1}, [a] == [b], (a, 1) == (b, 1), [b].count(a)

    def by_equality(x, items):
        return x + 1, Ordered(2) in items, items.index(Ordered(2)), Ordered(5) in tuple(items)

    def of_values(x, y):
        return x in [y, x]

    check_one_graph(f)
    compiled = stator.compile(by_identity)
    for a, b in ((nan, nan), (nan, float("nan")), (nan, nan), (1.0, 1.0), (1.0, nan)):
        assert_same(compiled(X, a, b), by_identity(X, a, b))
    check_one_graph(by_equality, (X, [Ordered(1), Ordered(2)]), (X, [Ordered(1), Ordered(2)]))
    one = torch.ones(1)
    for other in (one, one.clone(), one + 1):
        assert stator.compile(of_values)(one, other) is of_values(one, other)
    check_parity(lambda x: (x + 1) in [x + 2, x], (X,), (X + 1,), graphs=None)


WRONG = (
    lambda: [].append(1, 2),
    lambda: len(),
    lambda: {}.get(),
    lambda: "a".upper(1),
    lambda: isinstance(1),
    lambda: max(),
    lambda: range(),
    lambda: set().add(),
    lambda: ().index(),
    lambda: next(),
    lambda: getattr(1),
    lambda: abs(1, 2),
    lambda: dict(1, 2),
    lambda: [].pop(1, 2),
    lambda: math.sqrt(),
    lambda: sorted(),
    lambda: enumerate(),
    lambda: (lambda a: a)(),
    lambda: [].insert(1),
    lambda: collections.deque().append(),
)


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_calls_raise_in_the_program(number):
    wrong = WRONG[number]

    def f(x):
        y = x * 2
        try:
            wrong()
        except TypeError as error:
            return y + 1, str(error)

    check_parity(f, *CALLS)


def test_what_torch_cannot_take_is_named():
    def f(x):
        return torch.add(x, object())

    with pytest.raises(stator.Unsupported, match="object"):
        stator.compile(f, fullgraph=True)(X)
    check_parity(f, *CALLS, graphs=0)


# ---- O75: attributes


class Reads:
    def __init__(self):
        self.a = 1

    def __getattribute__(self, name):
        return 42 if name == "q" else object.__getattribute__(self, name)


class Falls:
    def __init__(self):
        self.a = 1

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name + "!"


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def __getattr__(self, name):
        return 5 if name == "extra" else super().__getattr__(name)


class Halved:
    def __get__(self, instance, owner=None):
        return instance.__dict__.get("d", 0) if instance is not None else self

    def __set__(self, instance, value):
        instance.__dict__["d"] = value * 2

    def __delete__(self, instance):
        instance.__dict__["d"] = -1


class Described:
    d = Halved()


def test_attribute_protocol():
    layer = Layer()

    def hooks(x, a, b):
        return x + a.q + a.a, b.a, b.zzz, getattr(b, "_z", 3), hasattr(b, "k"), hasattr(a, "nope")

    def modules(x):
        return layer.inner(x) + layer.extra, hasattr(layer, "nope")

    def described(x, o):
        o.d = 4
        first = o.d
        o.__dict__["d"] = 100
        second = o.d
        del o.d
        object.__setattr__(o, "e", x + 1)
        setattr(o, "z", 1)  # noqa: B010
        delattr(o, "z")
        object.__setattr__(o, "y", 2)
        object.__delattr__(o, "y")
        return x + first, second, o.d, o.e, hasattr(o, "y")

    check_one_graph(hooks, (X, Reads(), Falls()), (X, Reads(), Falls()))
    check_one_graph(modules)
    check_one_graph(described, (X, Described()), (X, Described()))


local = threading.local()


def test_thread_local_objects():
    def f(x):
        local.v = x + 1
        local.n = 3
        made = local.v * local.n
        del local.n
        return made, hasattr(local, "n")

    check_parity(f, *CALLS)
    compiled = stator.compile(f)
    results = []
    thread = threading.Thread(target=lambda: results.append(compiled(X)))
    thread.start()
    thread.join()
    assert_same(results[0], f(X))


# ---- O76, O77: values and modes of torch


def test_checkpoints():
    computed = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            computed.append(1)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    def f(x):
        return checkpoint(lambda t: (t * 2).sin().cos(), x, use_reentrant=False).sum()

    def counted(x):
        return checkpoint(lambda t: Counted.apply(t).sin(), x, use_reentrant=False).sum()

    compiled = stator.compile(f)
    for _ in range(2):
        x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
        f(x).backward()
        compiled(y).backward()
        assert torch.equal(x.grad, y.grad)
    assert captures() == 1 and not stator.counters["breaks"]

    def computations(fn):
        computed.clear()
        fn(X.clone().requires_grad_()).backward()
        return len(computed)

    compiled = stator.compile(counted)
    computations(compiled)
    assert computations(compiled) == computations(counted) == 2


class Overriding:
    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*[a.tensor if isinstance(a, cls) else a for a in args], **(kwargs or {})) * 10


class Disabled:
    __torch_function__ = torch._C._disabled_torch_function_impl


def test_objects_with_torch_function():
    def f(x, t, d):
        told = torch.overrides.is_tensor_like(t), torch.overrides.has_torch_function((t,))
        others = torch.overrides.has_torch_function((x, d)), torch.overrides.has_torch_function([x, t])
        return x + 1, told, others, torch.add(t, 1), torch.nn.functional.relu(t)

    check_parity(f, (X, Overriding(X), Disabled()), (X, Overriding(X + 1), Disabled()))


def test_symbolic_types_and_random_state():
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(2)
        torch.set_rng_state(state)
        return x + 1, a, torch.rand(2), isinstance(3, torch.SymInt), isinstance(x.shape[0], int)

    check_parity(f, *CALLS)


def test_scripted_and_traced_models_are_called():
    scripted = torch.jit.script(torch.nn.Linear(3, 3))
    traced = torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), X)

    def f(x):
        y = x * 2
        return scripted(y) + traced(y)

    compiled = stator.compile(f)
    for x in (X, X + 1, X * 3):
        assert torch.equal(compiled(x), f(x))
    assert captures() >= 1


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func in (torch.add, torch.Tensor.add, torch.Tensor.__add__) else result


def test_function_modes():
    def f(x):
        return torch.add(x, 1) + x

    def inside(x):
        y = x * 3
        with Doubling():
            y = torch.add(y, 1)
        return y + 1

    compiled = stator.compile(f)
    assert torch.equal(compiled(X), f(X))
    for _ in range(2):
        with Doubling():
            expected, actual = f(X), compiled(X)
        assert torch.equal(actual, expected) and not torch.equal(actual, f(X))
        assert torch.equal(compiled(X), f(X))
    check_parity(inside, *CALLS)


def test_the_stack_of_modes_is_as_before_after_a_failure():
    def failing(gm, example_inputs):
        raise ValueError("boom")

    class Watching(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def stack():
        return [torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack())]

    compiled = stator.compile(lambda x: x + 1, backend=failing)
    with Watching(), Watching():
        before = stack()
        with pytest.raises(stator.BackendCompilerFailed):
            compiled(X)
        assert stack() == before and len(before) == 2
    with pytest.raises(stator.BackendCompilerFailed):
        compiled(X)
    assert stack() == []
