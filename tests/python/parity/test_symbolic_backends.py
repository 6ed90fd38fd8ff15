"""Graphs with symbolic sizes for Python backends: answers of the plain program, captures of the native backend."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures, run_program
from tests.python.parity.test_symbolic_sizes import USES, made

F = nn.functional
LENGTHS = [5, 3, 7, 2, 12, 1, 0, 9, 3, 20]


def forwarded(gm, example_inputs):
    return gm.forward


def walked(gm, example_inputs):
    assert len(example_inputs) == len([node for node in gm.graph.nodes if node.op == "placeholder"])
    return torch.fx.Interpreter(gm).run


def generated(gm, example_inputs):
    gm.graph.lint()
    return torch.fx.GraphModule(gm, gm.graph)


CALLABLES = [forwarded, walked, generated]


def outcome(fn, *args):
    try:
        return fn(*args)
    except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError) as error:
        return type(error), str(error)


def count_captures(fn, calls, **settings):
    """Compares `fn` compiled with the plain one on each call's arguments, and says how many captures that took."""
    stator.reset()
    compiled = stator.compile(fn, **settings)
    for make in calls:
        args, expected_args = make(), make()
        assert_same(outcome(compiled, *args), outcome(fn, *expected_args), f"{settings}, {args}")
        assert_same(args, expected_args, "the arguments")
        for given, expected in zip(args, expected_args, strict=True):
            if isinstance(given, torch.Tensor) and given.is_leaf:
                assert_same(given.grad, expected.grad, "a gradient")
    return captures()


def check(fn, calls):
    native = count_captures(fn, calls)
    for backend in CALLABLES:
        assert count_captures(fn, calls, backend=backend) == native, backend


def count_of_torch(fn, calls, backend):
    """The graphs that torch.compile makes for these calls."""
    torch._dynamo.reset()
    graphs = []
    compiler = torch._dynamo.lookup_backend(backend)

    def counting(gm, example_inputs):
        graphs.append(gm)
        return compiler(gm, example_inputs)

    compiled = torch.compile(fn, backend=counting)
    for make in calls:
        compiled(*make())
    torch._dynamo.reset()
    return len(graphs)


# Functions of `math` that may raise are not computed in graphs of Python backends.
@pytest.mark.parametrize("line", [line for line in USES if "math." not in line])
def test_each_use(line):
    space = {"torch": torch, "F": F, "math": math}
    exec(f"def fn(x):\n    return {line}", space)
    check(space["fn"], [lambda n=n: (made(n),) for n in LENGTHS])


def slices(x, y):
    return x[1:] + y[:-1], x[: x.size(0) // 2], x[-2:]


def flat(x, y):
    return (x * y).reshape(-1), x.view(x.size(0) * 2, -1).sum(0), x.reshape(-1, 3)


def joined(x, y):
    return torch.cat([x, y, x[1:]]), torch.stack([x, y]).mean(0)


def counted(x, y):
    n = x.size(0)
    return torch.arange(n) * x[:, 0], torch.zeros(n, n).tril(), x.new_ones(n // 2 + 1)


def broadcast(x, y):
    return x[:, None] * y[None], x + y.sum(0), x * torch.arange(x.size(0))[:, None]


def attended(x, y):
    q, k = x.view(1, -1, 2, 3).transpose(1, 2), y.view(1, -1, 2, 3).transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, k), F.softmax(x @ y.t() / 2, -1) @ y


def convolved(x, y):
    signal = x.t()[None]
    weight = torch.linspace(-1, 1, 54).view(3, 6, 3)
    return F.conv1d(signal, weight, padding=1), F.avg_pool1d(signal, 2, ceil_mode=True)


def pooled(x, y):
    return F.max_pool1d(x.t()[None], 3, 2, 1) + 1


def normed(x, y):
    return F.layer_norm(x, (6,)), F.gelu(x @ torch.ones(6, 4)), F.group_norm(x.view(-1, 3, 2), 3)


def sizes(x, y):
    return x.size(0), x.shape, x.numel() // 2, x + 1, {"n": len(y) * 2 - 1}


def written(x, y):
    y.mul_(2)
    y[1:] += x[1:]
    return y.sum()


def viewed(x, y):
    return x.t(), x[1:], y.view(-1), x


def broken(x, y):
    n = x.size(0)
    z = x * n
    stator.graph_break()
    return z[: n // 2] + y[: n // 2], n


def branched(x, y):
    return x * 2 if x.size(0) > 6 else y - 1


def folded(x, y):
    return x.view(-1, 2, 3).permute(1, 0, 2).contiguous(), x.unfold(0, 2, 1).sum(-1) if x.size(0) > 1 else y


PROGRAMS = [slices, flat, joined, counted, broadcast, attended, convolved, normed, sizes, written, viewed, broken]
PROGRAMS += [branched, folded, pooled]


def pairs(lengths, grad=False):
    def make(n):
        return made(n).requires_grad_(grad), (made(n) + 1).requires_grad_(grad)

    return [lambda n=n: make(n) for n in lengths]


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program is not broken])
def test_programs(program):
    check(program, pairs(LENGTHS))


@pytest.mark.parametrize("backend", CALLABLES)
def test_a_size_that_a_break_leaves_as_an_int(backend):
    """Ints that change are not inputs of graphs for Python backends: a frame behind a break captures each value."""
    assert count_captures(broken, pairs(LENGTHS), backend=backend) <= 3 + len(set(LENGTHS))


# The other graph break is none for torch.compile.
@pytest.mark.parametrize("program", [program for program in PROGRAMS if program is not broken])
def test_programs_with_aot_eager(program):
    # AOTAutograd asks about sizes, so that some of them are captured apart.
    calls = pairs([5, 4, 7, 12, 9, 20, 5])
    assert count_captures(program, calls, backend="aot_eager") <= count_of_torch(program, calls, "aot_eager")
    # Torch's own decomposition of this one gives other strides to a single window.
    count_captures(program, pairs([5, 3, 2, 7] if program is pooled else [5, 3, 2, 1, 0, 7]), backend="aot_eager")


@pytest.mark.parametrize("program", [slices, flat, joined, broadcast, attended, convolved, normed])
def test_gradients(program):
    def fn(x, y):
        return torch.stack([result.square().sum() for result in program(x, y)]).sum()

    for backend in (*CALLABLES, "aot_eager"):
        stator.reset()
        compiled = stator.compile(fn, backend=backend)
        for make in pairs([5, 4, 7, 12, 9], grad=True):
            args, expected = make(), make()
            assert_same(compiled(*args), fn(*expected))
            compiled(*args).backward()
            fn(*expected).backward()
            torch.testing.assert_close([a.grad for a in args], [a.grad for a in expected])
        assert captures() == 2, backend


def test_the_graph_as_torch_compile_gives_it():
    """Symbols first, as SymInts; fakes of one mode in the metadata."""
    seen = []

    def backend(gm, example_inputs):
        seen.append((gm, example_inputs))
        return gm.forward

    def fn(x, y):
        return (x + y[: x.size(0)]).view(-1) * x.size(0)

    compiled = stator.compile(fn, backend=backend)
    for n in (4, 6, 9):
        assert_same(compiled(made(n), made(n + 1)), fn(made(n), made(n + 1)))
    [_, (gm, examples)] = seen
    nodes = list(gm.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    assert [isinstance(example, torch.SymInt) for example in examples] == [True, True, False, False]
    values = [node.meta["val"] for node in inputs]
    assert [node.meta["example_value"] for node in inputs] == values
    assert all(isinstance(value, torch.SymInt) for value in values[:2])
    sizes, names = [tuple(value.shape) for value in values[2:]], [str(value) for value in values[:2]]
    assert [str(size[0]) for size in sizes] == names
    last = nodes[-2].meta["val"]
    assert str(last.shape[0]) in (f"6*{names[0]}", f"6*{names[1]}")
    assert len({id(value.fake_mode) for value in [*values[2:], last]}) == 1
    assert nodes[-2].meta["tensor_meta"].shape == last.shape


def test_unused_symbols_are_no_inputs():
    """A tensor of which only a size is used is not an input, nor is a size that a guard makes constant."""
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    def fn(x, y):
        return torch.zeros(x.size(0)) + 1, y[0]

    compiled = stator.compile(fn, backend=backend, dynamic=True)
    for n in (4, 6):
        assert_same(compiled(made(n), torch.ones(3)), fn(made(n), torch.ones(3)))
    assert [str(node.target) for node in graphs[0].graph.nodes if node.op == "placeholder"] == ["s0", "s2", "y"]


def test_nothing_of_sympy_is_imported():
    run_program("""
        import sys
        import torch
        import stator

        seen = []

        def backend(gm, example_inputs):
            seen.append((example_inputs, [(node.op, node.target, node.args) for node in gm.graph.nodes]))
            return lambda *args: gm(*args)

        compiled = stator.compile(lambda x: x.view(-1)[: x.size(0) * 2] + 1, backend=backend)
        for n in (4, 5, 6):
            x = torch.ones(n, 3)
            assert torch.equal(compiled(x), x.view(-1)[: n * 2] + 1)
        assert len(seen) == 2
        size = seen[1][0][0]
        assert isinstance(size, torch.SymInt)
        assert "sympy" not in sys.modules
        # Asked for, it is torch's symbol.
        assert str(size + 1).endswith(" + 1") and "sympy" in sys.modules
        assert size == 5
    """)


def test_a_call_of_the_module_on_its_examples_specialises_on_nothing():
    def backend(gm, example_inputs):
        gm(*example_inputs)
        return gm.forward

    assert count_captures(counted, pairs([5, 3, 7, 12]), backend=backend) == 2


def test_what_the_backend_asks_is_guarded():
    asked = []

    def backend(gm, example_inputs):
        size = example_inputs[0]
        if isinstance(size, torch.SymInt):
            asked.append(bool(size > 6))
        return gm.forward

    def fn(x):
        return x * 2

    compiled = stator.compile(fn, backend=backend, dynamic=True)
    for n in (5, 4, 6, 9, 7, 3):
        assert_same(compiled(made(n)), fn(made(n)))
    assert asked == [False, True]


def test_a_size_that_the_backend_specialises_on_stays_static():
    asked = []

    def backend(gm, example_inputs):
        asked.append([type(example) is not torch.Tensor and int(example) for example in example_inputs])
        return gm.forward

    def fn(x, y):
        return x * 2, y + 1

    compiled = stator.compile(fn, backend=backend)
    for n in (5, 4, 6, 7):
        assert_same(compiled(made(n), torch.ones(3)), fn(made(n), torch.ones(3)))
    assert asked == [[False, False], [4, False, False], [False, False], [False, False]]


def test_dynamic_is_part_of_the_cache_key():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(len(example_inputs))
        return gm.forward

    def fn(x):
        return x + 1

    for dynamic, expected in ((True, [3]), (False, [1, 1, 1]), (None, [1, 2])):
        graphs.clear()
        compiled = stator.compile(fn, backend=backend, dynamic=dynamic)
        again = stator.compile(fn, backend=backend, dynamic=dynamic)
        for n in (3, 4, 5):
            assert_same(compiled(made(n)), fn(made(n)))
            assert_same(again(made(n)), fn(made(n)))
        assert graphs == expected, dynamic


def test_products_that_leave_64_bits():
    """Torch's compilers compute in 64 bits; Python does not."""

    def fn(x):
        n = x.size(0)
        return x[0] + (n**5 > 10**19), n**5

    for backend in (walked, "aot_eager"):
        count_captures(
            fn, [lambda n=n: (torch.zeros(1).expand(n, 6)[:, :1],) for n in (4, 5, 10, 7000)], backend=backend
        )


def test_failures_leave_nothing_behind():
    from torch._guards import TracingContext

    def backend(gm, example_inputs):
        assert TracingContext.get().fake_mode is not None
        if len(example_inputs) > 1:
            raise NotImplementedError("no sizes")
        return gm.forward

    def fn(x):
        return x + 1

    compiled = stator.compile(fn, backend=lambda gm, examples: gm.forward)
    failing = stator.compile(fn, backend=backend, dynamic=True)
    for n in (3, 4):
        with pytest.raises(stator.BackendCompilerFailed, match="no sizes"):
            failing(made(n))
        assert TracingContext.try_get() is None
        assert_same(compiled(made(n)), fn(made(n)))
