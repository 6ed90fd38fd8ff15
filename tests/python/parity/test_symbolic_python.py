"""Python code on sizes and changing ints that stays symbolic: bits, texts, products, strides; at most two captures."""

from __future__ import annotations

import ast
import math

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures
from tests.python.parity.test_symbolic_sizes import made, outcome

LENGTHS = [5, 3, 7, 2, 12, 9, 3]
HOSTILE = [5, 3, 1, 0, 7, 2, 1, 64]

LINES = """
x * (n & 3), x * (n << 1), x * (n >> 1), x * (n | 1), x * (n ^ 3), x * ~n, 2 ** n, n & -n, 1 << n
"%d rows" % n, "%s" % n, "%5.2f|%-4d|%x" % (n, n, n), "%s of %s" % ("a", n), "%%%d" % n
"{}".format(n), "{0}-{0}".format(n), "{:>5}|{!r}".format(n, n), "{} {}".format("a", n), "{{{}}}".format(n)
str(x.shape), repr(x.shape), f"{x.shape}", str((n, 1)), f"{[n, 2]}", repr([n, n + 1]), f"{x.size()!r}"
x.stride(), x.t().stride(), x.stride(0), x.t().stride(1), x.reshape(3, -1).t().contiguous().stride()
x.shape.numel(), math.prod(x.shape), math.prod([n, 2, n]), x * math.prod((n, 3))
torch.broadcast_shapes(x.shape, (1, 6)), torch.broadcast_shapes((n, 1), (4, 1, 6), 6)
x.new_tensor([n, 2]), torch.tensor([n]), torch.tensor([[n, 1], [2, n]]), torch.tensor(n)
x * sum([n]), x * sum([n, 1, n]), x[: n & 3], x[n >> 1 :]
""".strip().splitlines()


def program(line, argument=False):
    space = {"torch": torch, "math": math}
    head = "def fn(x, n):\n" if argument else "def fn(x):\n    n = x.size(0)\n"
    exec(f"{head}    return x + 1, {line}", space)
    return space["fn"]


@pytest.mark.parametrize("line", LINES)
def test_two_captures(line):
    fn = program(line)
    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(outcome(compiled, made(n)), outcome(fn, made(n)), f"length {n}")
    assert captures() <= 2


@pytest.mark.parametrize("line", LINES)
def test_hostile_sizes(line):
    fn = program(line)
    compiled = stator.compile(fn)
    for n in HOSTILE:
        assert_same(outcome(compiled, made(n)), outcome(fn, made(n)), f"length {n}")


INTS = [5, 3, 1, 0, -1, -7, 63, 64, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, True, 3]
INT_LINES = [line for line in LINES if "x.s" not in line and "shape" not in line and "x.new" not in line]


@pytest.mark.parametrize(
    "line", [line for line in INT_LINES if "1 << n" not in line] + ["n << 3, n >> 70, n & 1", "x[:3] * (n | 1)"]
)
def test_hostile_ints(line):
    fn = program(line, argument=True)
    compiled = stator.compile(fn)
    x = made(4)
    for n in INTS:
        assert_same(outcome(compiled, x, n), outcome(fn, x, n), f"{n}")


def test_shifts_of_ints():
    fn = program("1 << n, 5 << n, n << n, 1 >> n", argument=True)
    compiled = stator.compile(fn)
    for n in [3, 4, 2, 0, -1, 61, 62, 63, 64, 100, 3]:
        assert_same(outcome(compiled, made(4), n), outcome(fn, made(4), n), f"{n}")


def test_a_list_that_changes_after_its_text():
    def fn(x):
        sizes = [x.size(0), 2]
        text = str(sizes)
        sizes.append(3)
        return x * 2, text, sizes

    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(compiled(made(n)), fn(made(n)))
    assert captures() == 2


def test_texts_that_need_the_number_are_specialised_on():
    fn = program('"%c" % (n + 60), "{:c}".format(n + 60), "%*d" % (n, 3)')
    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(compiled(made(n)), fn(made(n)))


def test_strides_that_are_not_known_of_every_size():
    def fn(x):
        return x[:-2].contiguous().stride(), x[:-2].stride(), (x[:-2] + 1).t().contiguous().stride()

    compiled = stator.compile(fn)
    for n in [5, 4, 3, 2, 6, 3]:
        assert_same(compiled(made(n)), fn(made(n)), f"{n}")


def test_sizes_are_ints_to_the_program():
    def fn(x):
        n = x.size(0)
        kinds = type(n), type(n * 0.5), type(n > 3), isinstance(n, (torch.SymInt, torch.SymBool))
        return x * n, kinds, isinstance(n, int), isinstance(x.shape, tuple), callable(n), n == n + 0

    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(compiled(made(n)), fn(made(n)))
    assert captures() == 2


# torch.Size is a subclass of tuple with sums and products of its own. What raises is left to the plain program.
SIZES = """
x.shape + (1,), (1,) + x.shape, x.shape + x.shape, x.shape + (), () + x.shape, x.shape * 2, 2 * x.shape, x.shape * 0
x.shape[1:] + (n,), (n,) + x.shape[1:], (2 * n,) + torch.ones(2).shape, torch.Size([n]) + (2,), (n,) + torch.Size([3])
(x.shape + (1,)).numel(), sum([x.shape, (1,)], ()), isinstance(x.shape + (1,), torch.Size), (n,) + (1,), (n,) * 2
x.shape + (True,), x.shape + (1.5,), (None,) + x.shape, x.shape + ("a",), x.shape + [1], x.shape * 1.5
x.shape + (1,) == (n, 6, 1), len(x.shape + x.shape), x.expand(x.shape[:0] + (2,) + x.shape)
""".strip().splitlines()


@pytest.mark.parametrize("expression", [ast.unparse(e) for e in ast.parse(f"[{','.join(SIZES)}]").body[0].value.elts])
def test_sums_and_products_of_sizes(expression):
    fn = program(expression)
    compiled = stator.compile(fn)
    for n in LENGTHS:
        actual, expected = outcome(compiled, made(n)), outcome(fn, made(n))
        assert_same(actual, expected, f"length {n}")
        assert repr(actual[1]) == repr(expected[1]), f"length {n}"


# torch.Size as an argument, and across a graph break.
SIZE_LINES = """
x.reshape(s) * 2, s[0], s[-1]
x * s[0], s == x.shape, s != (1, 2), x.shape == s, len(s), s.numel()
s, str(s), repr(s), f"{s}", tuple(s), list(s), s + (1,), s[1:], s * 2
torch.zeros(s), x.new_ones(s), x.view(s), x.expand(s), torch.broadcast_shapes(s, (1, 6))
torch.Size(s), torch.Size([*s]), isinstance(s, torch.Size), isinstance(s, tuple)
type(s), s is s, [k for k in s], 6 in s, s.index(6), s.count(6), max(s)
{s: 1}[s], hash(s) == hash(tuple(s)), bool(s), not s, s < (100, 1), dict(a=s)
""".strip().splitlines()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("line", SIZE_LINES)
def test_sizes_as_arguments(line, dynamic):
    space = {"torch": torch, "math": math}
    exec(f"def fn(x, s):\n    return x + 1, {line}", space)
    fn = space["fn"]
    compiled = stator.compile(fn, dynamic=dynamic)
    for n in HOSTILE:
        actual, expected = (outcome(call, made(n), torch.Size([n, 6])) for call in (compiled, fn))
        assert_same(actual, expected, f"{n}")
        assert [type(part) for part in actual] == [type(part) for part in expected]


def test_a_size_that_varies_is_taken_apart():
    def fn(x, s):
        return x * s[0], x.reshape(s)

    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(compiled(made(n), torch.Size([n, 6])), fn(made(n), torch.Size([n, 6])), f"{n}")
    assert captures() == 2
    # A tuple is another class.
    assert_same(compiled(made(4), (4, 6)), fn(made(4), (4, 6)))
    assert captures() == 3


def test_a_size_across_a_graph_break():
    def fn(x):
        s = x.shape
        stator.graph_break()
        return x.reshape(s) * 2, s

    compiled = stator.compile(fn)
    for n in HOSTILE:
        assert_same(compiled(made(n)), fn(made(n)), f"{n}")
        assert type(compiled(made(n))[1]) is torch.Size
    stator.reset()
    compiled = stator.compile(fn)
    for n in LENGTHS:
        compiled(made(n))
    assert captures() <= 4  # two for each part


# Values that are needed: the expression is guarded, not the sizes in it.
@pytest.mark.parametrize(
    ("expression", "sizes", "most"),
    [
        ("[x + i for i in range(min(3, n))]", [5, 3, 7, 12, 9, 4, 2, 1, 0], 5),
        ("[x + i for i in range(n // 4)]", [4, 5, 6, 7, 8, 9, 11, 1, 0], 5),
        ("[x, 2, x * 3, 4][min(n, 3)]", [5, 3, 7, 12, 9, 4, 2, 1, 0], 5),
        ("[x, 2, x * 3, 4][n % 4]", [5, 9, 13, 17, 1, 0], 4),
        ("[1, 2, 3, 4, x][: min(n, 3)]", [5, 3, 7, 12, 2, 1, 0], 5),
    ],
)
def test_a_value_is_guarded_as_an_expression(expression, sizes, most):
    fn = program(expression)
    compiled = stator.compile(fn)
    for n in [*sizes, *sizes]:
        assert_same(outcome(compiled, made(n)), outcome(fn, made(n)), f"{n}")
    assert captures() <= most


SYM = """
x * torch.sym_float(n), torch.sym_float(n), torch.sym_float(n / 2), torch.sym_float(n > 3)
torch.sym_not(n == 3), x * torch.sym_not(n > 3)
torch.sym_max(n, 4), torch.sym_min(n, 4), torch.sym_int(n / 2), torch.sym_ite(n > 3, n, 1), torch.sym_sum([n, n, 1])
torch.sym_sqrt(n), torch.sym_fresh_size if hasattr(n, "nothing") else 0, hasattr(n, "__add__"), getattr(n, "other", 5)
""".strip().splitlines()


@pytest.mark.parametrize("argument", [False, True])
@pytest.mark.parametrize("line", SYM)
def test_functions_of_symbols(line, argument):
    fn = program(line, argument)
    compiled = stator.compile(fn)
    for n in HOSTILE:
        args = (made(4), n) if argument else (made(n),)
        assert_same(outcome(compiled, *args), outcome(fn, *args), f"{n}")


@pytest.mark.parametrize("line", ["x * torch.sym_float(n)", "x * 1, torch.sym_not(n == 100)"])
def test_functions_of_symbols_do_not_specialise(line):
    fn = program(line)
    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(compiled(made(n)), fn(made(n)), f"{n}")
    assert captures() == 2


INT_USES = """
torch.arange(0, n, 0.5), torch.arange(n / 2), torch.arange(n, -3, -1.5), torch.arange(0.5, n, 2)
x.long() & n, x.long() | n, x.long() ^ n, x.copysign(n), torch.xlogy(x.abs(), n), x.long() % n, x.bool() & n
x * 2**n, 3**n, 2**n + 1
x * sum([n]), sum([n, 1, n]), sum(range(3), n), sum((n,), n), sum([1, 2], n)
x % n, x.remainder(n), torch.fmod(x, n), x // n
x * abs(n), abs(n), abs(-n)
x * min(n, 3), max([n, 3]), divmod(n, 4)
torch.ones(n % 5), torch.arange(n % 9), torch.zeros(abs(n) // 3), torch.zeros(2, n % 3, 4).sum(0)
""".strip().splitlines()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("line", INT_USES)
def test_uses_of_ints(line, dynamic):
    fn = program(line, argument=True)
    compiled = stator.compile(fn, dynamic=dynamic)
    for n in [5, 3, 7, 2, 12, 1, 0, -1, -7, 20, 63, 64, True, 10, 15, 3]:
        assert_same(outcome(compiled, made(4), n), outcome(fn, made(4), n), f"{n}")


@pytest.mark.parametrize(
    "line", ["x * 2**n", "x * sum([n])", "sum(range(3), n)", "x % n", "x * abs(n)", "torch.fmod(x, n)", "x.long() & n"]
)
def test_uses_of_ints_are_captured_twice(line):
    fn = program(line, argument=True)
    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(compiled(made(4), n), fn(made(4), n), f"{n}")
    assert captures() == 2


def test_check_is_size():
    def fn(x):
        torch._check_is_size(x.size(0))
        torch._check_is_size(x.size(1), max=6)
        return x * 2

    compiled = stator.compile(fn, fullgraph=True)
    with pytest.warns(FutureWarning, match="_check_is_size"):
        for n in LENGTHS:
            assert_same(compiled(made(n)), fn(made(n)), f"{n}")
    assert captures() == 2


def test_storage_offsets_of_views():
    def fn(x):
        return x[1:].storage_offset(), x[:, 2:].t()[1:].storage_offset(), x.storage_offset(), x + 1

    compiled = stator.compile(fn, fullgraph=True)
    for n in [5, 3, 7, 2]:
        for start in (0, 1, 2):
            x = made(n + 2)[start:]
            assert_same(compiled(x), fn(x), f"{n} {start}")


def test_storage_offsets_beside_another_input():
    def fn(x, y):
        z = x * y
        return x.storage_offset(), y[1:].storage_offset(), z.storage_offset(), z[1:, 1:].storage_offset()

    compiled = stator.compile(fn, fullgraph=True)
    for start in (0, 1, 2):
        x, y = made(6)[start:], made(6 - start)
        assert_same(compiled(x, y), fn(x, y), f"{start}")


@pytest.mark.parametrize("dynamic", [None, True])
def test_storage_offsets_after_a_change_of_storage(dynamic):
    def fn(x, y):
        x.data = y
        return x[1:].storage_offset(), (x * 2)[1:].storage_offset()

    compiled = stator.compile(fn, dynamic=dynamic)
    for n in [5, 3, 7]:
        args = [(made(n), made(n + 1)[1:]) for _ in range(2)]
        assert_same(compiled(*args[0]), fn(*args[1]), f"{n}")


def test_a_shape_is_compared_with_a_constant_one():
    def fn(x, y):
        return x + y, x.shape == y.shape, y.shape != x.shape, x.shape == (1, 6), x.shape == torch.Size([7, 6])

    compiled = stator.compile(fn)
    for n in [*LENGTHS, 1, 0]:
        args = made(n), made(1 if n % 2 else n)
        assert_same(outcome(compiled, *args), outcome(fn, *args), f"{n}")
    assert captures() <= 6


# Factories whose bindings take plain numbers, or whose sizes follow from floats.
FACTORIES = """
torch.arange(0, n, 0.5)
torch.arange(n / 2)
torch.arange(0.0, n)
torch.arange(n, 0, -1.5)
torch.arange(0, n, 2.5, dtype=torch.float64)
torch.randperm(n).sort()[0]
torch.randperm(n, dtype=torch.int32).sort()[0]
""".strip().splitlines()


@pytest.mark.parametrize("line", FACTORIES)
def test_factories_of_sizes(line):
    fn = program(line)
    compiled = stator.compile(fn)
    for n in [*LENGTHS, 1, 0]:
        assert_same(outcome(compiled, made(n)), outcome(fn, made(n)), f"{n}")
    assert captures() <= 4


def test_random_permutations_are_those_of_eager():
    fn = program("torch.randperm(n), torch.rand(2)")
    compiled = stator.compile(fn)
    for n in HOSTILE:
        torch.manual_seed(n)
        actual = compiled(made(n))
        torch.manual_seed(n)
        assert_same(actual, fn(made(n)), f"{n}")
