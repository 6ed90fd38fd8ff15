"""Types and values of all kinds behave in a capture as in eager (O59-O77)."""

import collections
import dataclasses
import enum
import functools
import types
import typing
from typing import Any, Generic, List, NamedTuple, Optional, ParamSpec, TypeVar, Union  # noqa: UP035

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend
from torch.utils import _pytree as pytree

import stator
from tests.python.helpers import assert_same, captures, check_parity, run_program

X = torch.arange(6.0).reshape(2, 3)
CALLS = ((X,), (X * 2,), (X + 1,))


def check_one_graph(fn, *calls):
    """Equal to the plain function over several calls, and captured in one graph."""
    stator.reset()
    check_parity(fn, *(calls or CALLS))
    assert not stator.counters["breaks"], stator.explain(fn)(*(calls or CALLS)[0])


# ---- O59, O60: types


def test_exact_types():
    def f(x):
        facts = [type(True) is int, type(1) in (int, float), type(1) in {int}, type(1) in [int], isinstance(True, int)]
        return x + sum(facts), facts, type(x) is torch.Tensor, type(x.shape) is tuple

    check_one_graph(f)


T = TypeVar("T")
P = ParamSpec("P")


class Box(Generic[T]):
    pass


def test_typing_objects_are_constants():
    def asked(x):
        same = [List[int] == List[int], Union[int, str] == Union[str, int], (int | str) == (str | int)]  # noqa: UP006, UP007
        parts = typing.get_origin(List[int]) is list, typing.get_args(Union[int, str])  # noqa: UP006, UP007
        named = T.__name__, P.__name__, Optional[int] == Union[int, None], list[int] == list[int]  # noqa: UP007, UP045
        return x + sum(same), same, parts, named, isinstance(1, int | str), issubclass(Box, Generic)

    def given_back(x):
        return x + 1, List[int], Union[int, str], T, P, Generic, Any, int | str, list[int], Box[int]  # noqa: UP006, UP007

    check_one_graph(asked)
    check_one_graph(given_back)


# ---- O61, O102: NumPy


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_numpy_ints(kind):
    def f(x, n):
        told = isinstance(n, np.integer), isinstance(n, np.floating), isinstance(n, int), type(n).__name__
        return x * n, told, n + 1

    number = getattr(np, kind)
    check_parity(f, (X, number(2)), (X, number(3)), (X, 3))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "bool_", "longdouble"])
def test_numpy_floats_and_others(kind):
    def f(x, n):
        return x + 1, isinstance(n, np.integer), isinstance(n, np.floating), isinstance(n, float), type(n).__name__

    number = getattr(np, kind)
    check_parity(f, (X, number(1)), (X, number(0)), (X, 1.0))


class SubArray(np.ndarray):
    pass


def test_numpy_arrays():
    def kinds(a):
        return torch.ones(2) + len(a), type(a) is np.ndarray, isinstance(a, np.ndarray)

    def computed(a):
        return np.sqrt(a) + np.abs(a)

    check_parity(kinds, (np.arange(4.0),), (np.arange(4.0).view(SubArray),))
    check_one_graph(computed, (np.arange(4.0),), (np.ones(3),))
    assert type(stator.compile(computed)(np.arange(4.0))) is np.ndarray


def test_numpy_bridge():
    def f(a):
        return np.sum(a, 0) + a.T.shape[0], a.sum(), np.linalg.norm(a), a @ a.T, a.dtype, a.reshape(-1)[1:]

    check_one_graph(f, (np.arange(6.0).reshape(2, 3),), (np.ones((2, 3)),))
    assert torch.equal(
        torch.from_numpy(stator.compile(lambda t: t.detach().numpy().sum(0))(torch.ones(3, 2, requires_grad=True))),
        torch.full((2,), 3.0),
    )


def test_numbers_of_numpy_random_are_its_own():
    def f(x):
        y = x * 2
        drawn = np.random.RandomState(3).rand(3)
        return y + torch.from_numpy(drawn).float()

    check_parity(f, *CALLS)


def test_import_without_numpy():
    program = """
        import sys
        sys.modules["numpy"] = None
        import warnings
        warnings.simplefilter("ignore")
        import torch, stator
        f = stator.compile(lambda x: x.sin() + 1)
        x = torch.ones(3)
        f(x)
        print(torch.equal(f(x), x.sin() + 1), stator.counters["captures"]["graphs"])
    """
    assert run_program(program) == "True 1"


# ---- O62, O63, O64: callables and descriptors

calls_of_body = []


@functools.lru_cache
def doubled(n):
    calls_of_body.append(n)
    return n * 2


@functools.cache
def quiet(n, m=2):
    return n * m


@functools.lru_cache
def cached_tensor(t):
    return t.sin()


bound_add = (5).__add__
bound_upper = "abc".upper


def test_callables():
    def f(x):
        plus = lambda y: y + 1  # noqa: E731
        kinds = isinstance(plus, types.FunctionType), isinstance(len, types.BuiltinFunctionType), callable(3)
        operators = torch.add(x, 1), torch.ops.aten.add(x, 2), torch.ops.aten.add.Tensor(x, 3)
        bound = bound_add(2), bound_upper(), list.__add__([1], [2]), str.upper("a")
        return plus(x) + len("ab"), kinds, operators, bound, functools.partial(torch.add, alpha=2)(x, x)

    check_one_graph(f)


def test_cached_functions():
    check_one_graph(lambda x: x * quiet(3) + quiet(4, 5))
    check_parity(lambda x: x + doubled(len(x.shape)), *CALLS)
    assert calls_of_body.count(2) <= 3, "the cache is used"

    def f(x):
        return cached_tensor(x) + 1

    compiled = stator.compile(f)
    for _ in range(3):
        assert torch.equal(compiled(X), f(X))
    assert compiled.__wrapped__ is f and cached_tensor(X) is cached_tensor(X)


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a, self.b = 3, 4


class Circle:
    def __init__(self, r):
        self.r = r

    @property
    def area(self):
        return self.r * self.r

    @area.setter
    def area(self, value):
        self.r = value / 2

    def scaled(self, by):
        return self.r * by


def test_descriptors_by_name():
    def read(x, o, c):
        tensor = torch.Tensor.shape.__get__(x), torch.Tensor.requires_grad.__get__(x), torch.Tensor.T.__get__(x)
        slots = Slots.a.__get__(o), Slots.b.__get__(o, Slots) + x, type(o).__slots__, Slots.a.__get__(None, Slots)
        methods = torch.Tensor.add.__get__(x)(1), str.upper.__get__("a")(), Circle.scaled.__get__(c)(3)
        properties = Circle.area.__get__(c), Circle.area.fget(c), list.__len__([1, 2]), "ab".__len__()
        return tensor, slots, methods, properties

    def write(x, o, c):
        Slots.a.__set__(o, x + 9)
        Slots.b.__delete__(o)
        Circle.area.__set__(c, 8)
        try:
            Slots.b.__get__(o)
        except AttributeError as error:
            return x + c.r, o.a, hasattr(o, "b"), str(error)

    def wrong(x):
        try:
            Slots.a.__get__(x)
        except TypeError as error:
            return x + 1, str(error)

    check_one_graph(read, (X, Slots(), Circle(2)), (X + 1, Slots(), Circle(3)))
    check_one_graph(write, (X, Slots(), Circle(2)), (X + 1, Slots(), Circle(2)))
    check_parity(wrong, *CALLS)


def test_compiled_functions_are_inlined(K):
    inner = stator.compile(lambda x: x + 1, backend=K)
    other = stator.compile(lambda x: x + 100, backend=K)
    namespace = types.SimpleNamespace(g=inner)
    outer = stator.compile(lambda x: namespace.g(x) * 2, backend=K)
    for _ in range(2):
        assert torch.equal(outer(X), (X + 1) * 2)
    assert K.count == 1
    namespace.g = other
    assert torch.equal(outer(X), (X + 100) * 2) and K.count == 2


# ---- O65, O66: tensors, comparisons, hashes

KINDS = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Long", "Int", "Short", "Bool")


@pytest.mark.parametrize("kind", KINDS)
def test_legacy_tensor_types(kind):
    def f(x):
        y = x + 1
        told = [isinstance(y, getattr(torch, name + "Tensor")) for name in KINDS]
        return y, told, y.type(), isinstance(3, torch.FloatTensor), y.type(torch.float64), isinstance(x, torch.Tensor)

    x = X.to(getattr(torch, kind + "Tensor").dtype)
    check_one_graph(f, (x,), (x.clone(),))
    assert stator.compile(f)(x)[1].count(True) == 1


class Tagged(torch.Tensor):
    pass


def test_what_counts_as_a_tensor():
    def f(x, q):
        return x + q, isinstance(q, torch.nn.Parameter), isinstance(x, torch.nn.Parameter), torch.is_tensor(q), type(q)

    parameter = torch.nn.Parameter(torch.ones(3))
    check_one_graph(f, (X, parameter), (X + 1, parameter))
    tagged = torch.ones(3).as_subclass(Tagged)
    compiled = stator.compile(f)
    for _ in range(2):
        assert_same(compiled(X, tagged), f(X, tagged))


class Ordered:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        return self.v < other.v

    def __le__(self, other):
        return self.v <= other.v

    def __eq__(self, other):
        return self.v == other.v

    def __ne__(self, other):
        return self.v != other.v

    def __gt__(self, other):
        return self.v > other.v

    def __ge__(self, other):
        return self.v >= other.v


def test_comparisons_of_objects():
    def f(x, a, b):
        p, q = Ordered(a), Ordered(b)
        return x + 1, [p < q, p <= q, p == q, p != q, p > q, p >= q]

    check_one_graph(f, (X, 1, 2), (X, 2, 1), (X, 2, 2))
    check_one_graph(f, (X, X, X + 1), (X, X + 1, X))


SAMPLES = (1, [], (1, [2]), memoryview(bytearray(2)), "a", (1, 2), {}, set(), frozenset(), int, len, Ordered(1))


def test_hashability():
    def hashable(o):
        try:
            hash(o)
        except (TypeError, ValueError):
            return False
        return True

    def f(x):
        return x + 1, [hashable(o) for o in SAMPLES], hashable(x), hashable([x])

    check_parity(f, *CALLS)
    assert stator.compile(f)(X)[1][:4] == [True, False, False, False]


# ---- O67, O68: named tuples, dataclasses, enumerations

Point = collections.namedtuple("Point", "a b")


class Typed(NamedTuple):
    a: Any
    b: int = 3


class Own(Point):
    def __new__(cls, a):
        return super().__new__(cls, a, 7)

    def __getnewargs__(self):
        return (self.a,)


class Total(Point):
    def total(self):
        return self.a + self.b


def test_named_tuples():
    def made(x):
        n, m, q = Point(x, 1), Typed(x + 1), Total(x, 2)
        return n, m, q, n._fields, m._asdict(), n._replace(b=5), q.total(), Point._make([x, 1]), m[0], len(n)

    def given(x, n):
        return x + n.a * n.b, isinstance(n, tuple), hasattr(n, "_fields"), type(n), n

    def of_torch(x):
        m = torch.max(x, 0)
        return m.values + 1, m.indices, m[0], tuple(m), type(m).__name__, m, x.shape, hasattr(x.shape, "_fields")

    def of_slices(x):
        s = slice(1, 5, 2)
        return x[:, slice(0, 2)] + 1, s.start, s.stop, s.step, s.indices(4), s

    check_one_graph(made)
    check_one_graph(given, (X, Point(X, 2)), (X, Point(X, 3)), (X, Typed(X, 3)), (X, Total(X, 3)))
    check_parity(given, (X, Own(X)), (X, Own(X + 1)))
    check_one_graph(of_torch)
    check_one_graph(of_slices)


def test_forward_mode_duals():
    import torch.autograd.forward_ad as forward

    def f(x):
        y = x * 3
        with forward.dual_level():
            dual = forward.make_dual(y, torch.ones_like(x))
            parts = forward.unpack_dual(dual * 2)
            return parts.primal + 1, parts.tangent + 0, type(parts).__name__

    check_parity(f, *CALLS)
    unpacked = stator.compile(lambda d: forward.unpack_dual(d).tangent)
    product = stator.compile(lambda d, x: d * x)
    with forward.dual_level():
        dual = forward.make_dual(X, torch.ones_like(X))
        for _ in range(2):
            assert torch.equal(unpacked(dual), torch.ones_like(X))
            assert torch.equal(forward.unpack_dual(product(dual, X)).tangent, X)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: int = 2


@dataclasses.dataclass
class Mutable:
    a: Any
    b: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.c = 1


def test_dataclasses():
    def frozen(x, d):
        other = dataclasses.replace(d, b=9)
        return x + d.a * d.b, Frozen(x, 3), other, [f.name for f in dataclasses.fields(d)], dataclasses.is_dataclass(d)

    def refused(x):
        d = Frozen(1)
        try:
            d.a = 2
        except dataclasses.FrozenInstanceError as error:
            return x + 1, str(error)

    def mutable(x, d):
        d.b.append(3)
        d.a = x + 1
        return Mutable(x + len(d.b)), d, dataclasses.asdict(Mutable(1, [2]))

    check_one_graph(frozen, (X, Frozen(X, 1)), (X, Frozen(X, 1)), (X, Frozen(X, 2)))
    check_one_graph(refused)
    check_one_graph(mutable, (X, Mutable(X, [1])), (X, Mutable(X, [1])), (X, Mutable(X, [2])))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    def __str__(self):
        return "a colour"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Bits(enum.Flag):
    A = 1
    B = 2


def test_enumerations():
    def f(x, e):
        found = e is Colour.RED, e in (Colour.RED,), {Colour.RED: 1}.get(e), str(e), repr(e), e.name
        return x + e.value, found, Colour["BLUE"], Colour(2), list(Colour), e

    def numbers(x, e, bits):
        return x + e, bits | Bits.B, Bits.A in bits, bool(bits & Bits.B), e == 1, Level(2)

    check_one_graph(f, (X, Colour.RED), (X, Colour.BLUE), (X, Colour.RED))
    assert captures() == 2
    check_one_graph(numbers, (X, Level.LOW, Bits.A), (X, Level.HIGH, Bits.A | Bits.B))


def test_enumerations_of_other_languages():
    def f(x, b):
        found = b == SDPBackend.MATH, b != SDPBackend.MATH, b in (SDPBackend.MATH,), {SDPBackend.MATH: 1}.get(b)
        return x + (1 if found[0] else 2), found, b.name, b.value, int(b), str(b), b, SDPBackend.MATH

    stator.reset()
    # Each call gets another object for the same member.
    given = [SDPBackend(int(member)) for member in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)]
    assert given[0] is not given[2]
    compiled = stator.compile(f)
    for member in given:
        assert_same(compiled(X, member), f(X, member))
    assert captures() == 2 and not stator.counters["breaks"], stator.counters()


# ---- O69: constants


def test_values_of_torch_are_constants():
    def f(x, dtype, device, memory_format, layout):
        made = x.to(dtype), torch.ones(2, dtype=dtype, device=device, layout=layout)
        facts = torch.finfo(dtype).eps, torch.iinfo(torch.int8).max, dtype.is_floating_point, device.type
        return made, facts, torch.empty_like(x, memory_format=memory_format).shape, dtype, device, layout

    cpu = torch.device("cpu")
    check_one_graph(
        f,
        (X, torch.float64, cpu, torch.contiguous_format, torch.strided),
        (X, torch.float32, cpu, torch.preserve_format, torch.strided),
    )


def test_constants_that_hold_others():
    def f(x):
        c = (
            1,
            (2, "a"),
            frozenset([3]),
            b"x",
            1j,
            ...,
            None,
            NotImplemented,
            slice(1, 2),
            torch.Size([1, 2]),
            list[int],
        )
        return x + c[0], c

    check_one_graph(f)


def test_trees_and_their_keys():
    def f(x, tree):
        leaves, spec = pytree.tree_flatten(tree)
        paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(tree)[0]]
        return pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec), paths, pytree.MappingKey("a"), x + 1

    check_one_graph(f, (X, {"a": X, "b": [X, 1]}), (X, {"a": X, "b": [X, 2]}))
