"""Activation checkpointing: what stays in memory, threads, hooks, and which code runs."""

import sys
import threading
import weakref

import pytest
import torch

import stator
from tests.python.helpers import assert_same, collect
from tests.python.parity.checkpointing import compare, leaf, once, plain
from tests.python.parity.test_checkpoints import forward, nested
from tests.python.parity.test_reentrant_checkpoints import reentrant_forward

# A backward pass without a frame of Python.
run_backward = torch.autograd.Variable._execution_engine.run_backward


def test_intermediates_are_not_kept():
    def part(t):
        return ((t * 2).exp() * t.sin()).tanh()

    def retained(run):
        """Bytes that a forward pass allocates and does not free."""
        x = leaf(1 << 16)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as record:
            y = run(x)
        del y
        return sum(event.self_cpu_memory_usage for event in record.key_averages())

    compiled = stator.compile(lambda x: once(part, x))
    compiled(leaf(1 << 16))
    size, slack = 4 << 16, 1 << 15
    assert abs(retained(compiled) - size) < slack
    assert abs(retained(lambda x: once(part, x)) - size) < slack
    assert retained(stator.compile(part)) > 3 * size


def test_the_arguments_die_with_the_graph():
    compiled = stator.compile(lambda x: once(plain, x * 2))

    def referents(run):
        x = leaf(3)
        reference = weakref.ref(x)
        y = run(x)
        y.sum().backward()
        del x
        collect()
        died_after_backward = reference() is None
        del y
        collect()
        return died_after_backward, reference() is None

    eager = referents(lambda x: once(plain, x * 2))
    assert referents(compiled) == referents(compiled) == eager
    assert eager[1]


def test_recomputed_tensors_are_dropped_as_they_are_taken():
    """With retain_graph, nothing that was recomputed stays."""
    saved = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            made = t.exp()
            ctx.save_for_backward(made)
            return made.clone()

        @staticmethod
        def backward(ctx, g):
            (made,) = ctx.saved_tensors
            saved.append(made.untyped_storage()._weak_ref())
            return g * made

    def fn(x):
        return once(lambda t: Seen.apply(t.sin()), x)

    def scenario(run):
        saved.clear()
        y = run(leaf(3))
        for _ in range(2):
            y.sum().backward(retain_graph=True)
        expired = [torch.UntypedStorage._expired(reference) for reference in saved]
        for reference in saved:
            torch.UntypedStorage._free_weak_ref(reference)
        return expired

    expired, *_ = compare(fn, scenario)
    assert expired == [True, True]


def test_threads_run_backward_over_one_graph():
    compiled = stator.compile(forward)
    compiled(leaf(3)).sum().backward()
    x, wanted = leaf(64), leaf(64)
    y = compiled(x).sum()
    (expected,) = torch.autograd.grad(forward(wanted).sum(), wanted)
    failed = []

    def work():
        for _ in range(20):
            (g,) = torch.autograd.grad(y, x, retain_graph=True)
            if not torch.equal(g, expected):
                failed.append(g)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_saved_tensor_hooks_of_the_program():
    def scenario(run):
        packed = []

        def pack(t):
            packed.append(t.clone())
            return t

        x = leaf(3)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = run(x)
        z = run(x)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            (y + z).sum().backward()
        return y, x.grad, packed

    compiled = stator.compile(forward)
    compiled(leaf(3)).sum().backward()
    assert_same(scenario(forward), scenario(compiled))


def test_hooks_are_forbidden():
    def scenario(run):
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            with pytest.raises(RuntimeError, match="not here") as error:
                run(leaf(3))
            assert not torch._C._autograd._saved_tensors_hooks_is_enabled()
        return str(error.value)

    compiled = stator.compile(forward)
    compiled(leaf(3))
    assert scenario(forward) == scenario(compiled) == scenario(compiled)


def test_a_checkpoint_of_torch_around_a_compiled_function():
    def scenario(run):
        x = leaf(3)
        y = once(lambda t: run(t).sin(), x)
        y.sum().backward()
        return y, x.grad

    compare(forward, scenario, captures=False)


def test_debug_and_contexts_run_in_torch():
    def scenario(run):
        x = leaf(3)
        run(x).sum().backward()
        return x.grad

    compare(lambda x: once(plain, x, debug=True), scenario, captures=False)
    compare(lambda x: once(plain, x, debug=False), scenario)
    stator.reset()
    stator.compile(lambda x: once(plain, x, debug=False, context_fn=torch.utils.checkpoint.noop_context_fn))(leaf(3))
    assert not stator.counters()["breaks"]


@pytest.mark.parametrize("fn", [forward, nested, reentrant_forward])
def test_no_python_function_runs_in_forward_and_backward(fn):
    def step(run, x):
        y = run(x)
        for keep_graph in (True, False):
            run_backward((y,), gradient, keep_graph, False, (), allow_unreachable=True, accumulate_grad=True)
        return y

    compiled = stator.compile(fn)
    gradient = (torch.ones(3),)
    step(compiled, leaf(3))
    x, other = leaf(3), leaf(3)
    entered = []

    def record(frame, event, argument):
        if event == "call":
            entered.append(frame.f_code.co_qualname)

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        y = step(compiled, x)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert entered == [step.__qualname__]
    assert_same((y, x.grad), (step(fn, other), other.grad))
