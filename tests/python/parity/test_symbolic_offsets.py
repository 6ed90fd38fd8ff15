"""Storage offsets of inputs that change from call to call, and lengths of lists and dicts that are used as numbers."""

from __future__ import annotations

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures
from tests.python.parity.test_symbolic_sizes import outcome

ROWS = [0, 3, 1, 5, 2, 7, 0, 9]


def buffer(n=64):
    return torch.linspace(-2, 2, n)


def program(line):
    space = {"torch": torch}
    exec(f"def fn(x):\n    return x + 1, {line}\n", space)
    return space["fn"]


OFFSETS = """
x.storage_offset(), x.storage_offset() + 1, -x.storage_offset(), x.storage_offset() // 2, str(x.storage_offset())
x[1:].storage_offset(), x[1:][1:].storage_offset(), x[::2].storage_offset(), x[-1].storage_offset()
x * x.storage_offset(), x + x[2:].storage_offset(), torch.arange(x.storage_offset()), x.storage_offset() * x.size(0)
x.view(2, -1)[1:].storage_offset(), x.storage_offset() - x[1:].storage_offset(), [x.storage_offset()] * 2
x.storage_offset() == x[1:].storage_offset(), x.storage_offset() >= 0, isinstance(x.storage_offset(), int)
x.as_strided((2,), (1,)), x.as_strided((2,), (1,), x.storage_offset() + 1)
x.add_(1) * 1, x.storage_offset(), x[1:].storage_offset()
""".strip().splitlines()


@pytest.mark.parametrize("backend", ["reference", "eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("line", OFFSETS)
def test_offsets_that_change(line, dynamic, backend):
    fn = program(line)
    compiled = stator.compile(fn, dynamic=dynamic, backend=backend)
    for i in ROWS:
        assert_same(compiled(buffer()[i : i + 4]), fn(buffer()[i : i + 4]), f"{i}")
    assert captures() <= 2


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("line", OFFSETS)
def test_offsets_and_lengths_that_change(line, dynamic):
    fn = program(line)
    compiled = stator.compile(fn, dynamic=dynamic)
    for i in ROWS:
        assert_same(outcome(compiled, buffer()[i : 3 * i + 4]), outcome(fn, buffer()[i : 3 * i + 4]), f"{i}")
    assert captures() <= 4


# An offset that the program states does not follow the input.
STATED = """
x.as_strided((2,), (1,), 3).storage_offset()
x.as_strided((2,), (1,), 3)[1:].storage_offset()
torch.as_strided(x, (2,), (1,), x.storage_offset() + 1).storage_offset()
x.as_strided((2,), (1,)).storage_offset()
x[1:].storage_offset() if x.storage_offset() > 2 else x.storage_offset()
list(range(x.storage_offset()))
torch.zeros(9)[x.storage_offset() % 3 :].sum()
""".strip().splitlines()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("line", STATED)
def test_offsets_that_are_stated_or_needed(line, dynamic):
    fn = program(line)
    compiled = stator.compile(fn, dynamic=dynamic)
    for i in [0, 3, 1, 5, 2, 0]:
        assert_same(outcome(compiled, buffer()[i : i + 4]), outcome(fn, buffer()[i : i + 4]), f"{i}")


def test_offsets_of_inputs_that_share_a_buffer():
    def fn(x, y):
        return x + y, x.storage_offset(), y.storage_offset(), y[1:].storage_offset(), (x * 1).sum()

    compiled = stator.compile(fn)
    for i, k in [(0, 1), (2, 5), (3, 3), (7, 0), (1, 9)]:
        given = buffer()
        assert_same(compiled(given[i : i + 4], given[k : k + 4]), fn(given[i : i + 4], given[k : k + 4]), f"{i} {k}")


def test_offsets_across_a_graph_break():
    def fn(x):
        y = x[1:]
        stator.graph_break()
        return y * 2, y.storage_offset(), y[1:].storage_offset()

    compiled = stator.compile(fn)
    for i in ROWS:
        assert_same(compiled(buffer()[i : i + 4]), fn(buffer()[i : i + 4]), f"{i}")
    assert captures() <= 3


def test_an_offset_that_is_read_twice_is_one_number():
    def fn(x):
        return x * x.storage_offset(), x + x.storage_offset(), x.storage_offset()

    compiled = stator.compile(fn)
    for i in ROWS:
        assert_same(compiled(buffer()[i : i + 4]), fn(buffer()[i : i + 4]), f"{i}")
    assert captures() == 2
    last = "".join(stator.cache_entries(fn)[0]["guards"])
    assert "x.storage_offset()" in last


LENGTHS = """
len(xs)
len(xs) * 2 + 1, len(xs) // 2, str(len(xs)), f"{len(xs)} rows"
x * len(xs), torch.arange(len(xs)), x.new_zeros(len(xs), 2), x / max(len(xs), 1)
len(xs) == 0, len(xs) > 100, len(xs) < 100
""".strip().splitlines()


def with_items(line):
    space = {"torch": torch}
    exec(f"def fn(x, xs):\n    return x + 1, {line}\n", space)
    return space["fn"]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("line", LENGTHS)
def test_lengths_of_dicts_that_change(line, dynamic):
    fn = with_items(line)
    compiled = stator.compile(fn, dynamic=dynamic)
    for n in [5, 3, 7, 2, 12, 9, 3]:
        args = buffer(4), dict.fromkeys(range(n), 2)
        assert_same(compiled(*args), fn(*args), f"{n}")
    assert captures() <= 2
    for n in [0, 1, 4]:
        args = buffer(4), dict.fromkeys(range(n), 2)
        assert_same(compiled(*args), fn(*args), f"{n}")


@pytest.mark.parametrize("make", [lambda n: [1] * n, lambda n: [torch.ones(2)] * n], ids=["ints", "tensors"])
@pytest.mark.parametrize("line", LENGTHS)
def test_lengths_of_lists_that_change(line, make):
    """A list is captured for each length up to the limit of captures. The last capture is for all lengths."""
    fn = with_items(line)
    compiled = stator.compile(fn)
    limit = stator.config.recompile_limit
    for n in [*range(2, 3 * limit), 0, 1, 2]:
        assert_same(compiled(buffer(4), make(n)), fn(buffer(4), make(n)), f"{n}")
    assert captures() <= limit + 2


def test_a_length_after_a_change():
    def fn(x, xs, d):
        before = len(xs), len(d)
        xs.append(x)
        d["new"] = 1
        return x * 2, before, len(xs), len(d)

    compiled = stator.compile(fn)
    for n in [5, 3, 7, 2, 0]:
        args = [(buffer(4), [1] * n, dict.fromkeys(range(n))) for _ in range(2)]
        assert_same(compiled(*args[0]), fn(*args[1]), f"{n}")
        assert len(args[0][1]) == n + 1
        assert len(args[0][2]) == n + 1


def test_a_length_and_items():
    def fn(x, d):
        return x * len(d), d["a"], len(d), "b" in d

    compiled = stator.compile(fn)
    for more in (["c", "d"], ["b"], [], ["b", "e", "f"], ["c"]):
        given = dict.fromkeys(["a", *more], 2)
        assert_same(compiled(buffer(4), given), fn(buffer(4), given), f"{more}")


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "line", ["x[1:].stride()", "x[1:].t().stride(0), x[:-1].stride()", "x[1:].contiguous().stride()"]
)
def test_strides_where_a_size_may_be_1(line, dynamic):
    fn = program(line)
    compiled = stator.compile(fn, dynamic=dynamic)
    for n in [5, 3, 7, 12, 4, 9]:
        assert_same(compiled(buffer(n)), fn(buffer(n)), f"{n}")
        assert_same(compiled(buffer(n * 3).view(n, 3)), fn(buffer(n * 3).view(n, 3)), f"{n} rows")
    assert captures() <= (4 if dynamic is None else 2)
    for n in [2, 1, 0, 6]:
        assert_same(compiled(buffer(n)), fn(buffer(n)), f"{n}")
        assert_same(compiled(buffer(n * 3).view(n, 3)), fn(buffer(n * 3).view(n, 3)), f"{n} rows")
