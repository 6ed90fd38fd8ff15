"""Frames that a compiled function calls: which are captured, which are not, and what they observe."""

from __future__ import annotations

import contextlib
import operator
from collections import namedtuple

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import stator

x = torch.ones(3)
Pair = namedtuple("Pair", "a b")


def plain(fn):
    """Runs as plain Python; what it calls may be captured."""
    return stator.disable(fn, recursive=False)


def test_two_graphs_round_a_break_and_an_error_with_fullgraph(K):
    def fn(a):
        b = a + 1
        stator.graph_break()
        return b * 2

    assert torch.equal(stator.compile(fn, backend=K)(x), fn(x))
    assert K.count == 2
    with pytest.raises(stator.Unsupported):
        stator.compile(fn, backend=K, fullgraph=True)(x)


def test_capture_continues_after_a_disabled_call(K):
    seen = []

    @stator.disable
    def left_alone(a):
        seen.append(stator.is_compiling())
        return helper(a)

    def helper(a):
        seen.append(stator.is_compiling())
        return a * 3

    def fn(a):
        return left_alone(a) + 1

    assert torch.equal(stator.compile(fn, backend=K)(x), fn(x))
    assert K.count == 1 and not any(seen)


def test_without_recursion_the_callees_are_captured(K):
    seen = []

    def helper(a):
        return a * 3 if stator.is_compiling() else a * 30

    def middle(a):
        seen.append(stator.is_compiling())
        return helper(a)

    disabled = stator.disable(middle, recursive=False)

    def fn(a):
        return disabled(a)

    assert torch.equal(stator.compile(fn, backend=K)(x), x * 3)
    assert seen == [False] and K.count == 1
    # The wrapper has the mark; calls of the function itself are captured.
    assert torch.equal(stator.compile(middle, backend=K)(x), x * 3)
    assert K.count == 2


def test_a_frame_without_tensors_is_examined_once():
    def arithmetic(n):
        for _ in range(3):
            n += 1
        return n

    @plain
    def middle(n):
        return arithmetic(n)

    def fn(a):
        return a + middle(1)

    compiled = stator.compile(fn)
    for _ in range(3):
        assert torch.equal(compiled(x), x + 4)
    assert not stator.cache_entries(arithmetic)


def test_disable_setting_and_dispatch_modes_leave_frames_alone(K):
    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    compiled = stator.compile(lambda a: a + 1, backend=K)
    with stator.config.patch(disable=True):
        compiled(x)
    with Passing():
        compiled(x)
    assert K.count == 0
    assert sum(stator.counters()["skips"].values()) == 1, "the mode is told as the reason"


def test_a_user_frame_below_the_standard_library_is_captured(K):
    results = []

    def doubled(a):
        results.append(a * 2 + 1)

    @plain
    def middle(a):
        with contextlib.ExitStack() as stack:
            stack.callback(doubled, a)

    stator.compile(lambda a: middle(a), backend=K)(x)
    assert torch.equal(results[0], x * 2 + 1)
    assert len(stator.cache_entries(doubled)) == K.count == 1
    assert not stator.cache_entries(contextlib.ExitStack.__exit__)


class Layer(torch.nn.Module):
    def forward(self, a):
        return a + 1


IN_SIGHT = {
    "tensor": x,
    "list": [1, [x]],
    "dict": {"a": {"b": x}},
    "named tuple": Pair(1, x),
    "module": Layer(),
}


def entries_of_a_frame_with(value):
    """The result of a new function that gets a value through a plain one."""
    space = {}
    exec("def looked_at(value):\n    return value", space)
    looked_at = space["looked_at"]

    @plain
    def middle(v):
        return looked_at(v)

    assert stator.compile(lambda v: middle(v))(value) is value
    return stator.cache_entries(looked_at)


@pytest.mark.parametrize("name", IN_SIGHT)
def test_frames_that_hold_a_tensor_are_captured(name):
    assert entries_of_a_frame_with(IN_SIGHT[name])


@pytest.mark.parametrize("value", [3, "text", [1, 2], {"a": 1}], ids=str)
def test_frames_that_hold_none_are_not(value):
    assert not entries_of_a_frame_with(value)


def test_the_function_that_makes_the_tensor_itself(K):
    def make():
        return torch.ones(3) + 1

    assert torch.equal(stator.compile(make, backend=K)(), x + 1)
    assert K.count == 1


def test_setattr_of_a_class_and_constructors_of_optimisers(K):
    class Holder:
        def __setattr__(self, name, value):
            super().__setattr__(name, value * 2)

    @plain
    def middle(a):
        holder, weight = Holder(), torch.nn.Parameter(a.clone())
        holder.value = a
        optimizer = torch.optim.SGD([weight], lr=0.1)
        return holder.value, optimizer

    def fn(a):
        value, optimizer = middle(a)
        return value + 1, optimizer

    value, optimizer = stator.compile(fn, backend=K)(x)
    assert torch.equal(value, x * 2 + 1) and isinstance(optimizer, torch.optim.SGD)
    assert not stator.cache_entries(torch.optim.SGD.__init__)


def test_code_of_a_string_runs_as_it_is():
    def fn(a):
        space = {"x": a}
        exec("y = x + 1", space)
        return operator.getitem(space, "y")

    assert torch.equal(stator.compile(fn)(x), x + 1)


def test_a_skipped_frame_and_its_callees(K):
    seen = []

    def helper(a):
        return (a + 1, stator.is_compiling())

    @plain
    def middle(a):
        seen.append(stator.is_compiling())
        return helper(a)

    def fn(a):
        return middle(a)

    compiled = stator.compile(fn, backend=K)
    for _ in range(3):
        value, inside = compiled(x)
        assert torch.equal(value, x + 1) and inside
    assert seen == [False] * 3 and K.count == 1


def test_a_refused_capture_leaves_others_alone(K):
    def fn(a):
        b = a + 1
        stator.graph_break()
        return b * 2

    for strict in (
        {"fullgraph": True},
        {"error_on_graph_break": True},
        {"fullgraph": True, "error_on_graph_break": False},
    ):
        with pytest.raises(stator.Unsupported):
            stator.compile(fn, backend=K, **strict)(x)
    assert torch.equal(stator.compile(fn, backend=K)(x), fn(x))
    assert K.count == 2
    with pytest.raises(stator.Unsupported):
        stator.compile(fn, backend=K, error_on_graph_break=True)(x)


def test_an_inner_function_that_is_to_be_one_graph(K):
    @stator.compile(fullgraph=True, backend=K)
    def inner(x):
        y = x.sin()
        if y.sum() > 0:
            return y
        return y + 1

    def outer(x):
        return inner(x.cos()) * 2

    with pytest.raises(stator.Unsupported):
        stator.compile(outer, backend=K)(torch.ones(3))
    relaxed = stator.compile(lambda x: x.sin() if x.sum() > 0 else x, backend=K)
    x = torch.ones(3)
    assert torch.equal(stator.compile(lambda x: relaxed(x) + 1, backend=K)(x), x.sin() + 1)


def test_an_inner_function_sets_its_own_break_policy(K):
    @stator.compile(backend=K, error_on_graph_break=False)
    def tolerant(a):
        a = a + 1
        stator.graph_break()
        return a * 2

    def outer(a):
        return tolerant(a - 1) - 2

    assert torch.equal(stator.compile(outer, backend=K, error_on_graph_break=True)(x), x * 2 - 2)
    assert K.count == 3

    def strict(a):
        a = tolerant(a)
        stator.graph_break()
        return a + 1

    with pytest.raises(stator.Unsupported):
        stator.compile(strict, backend=K, error_on_graph_break=True)(x)

    @stator.compile(backend=K, error_on_graph_break=True)
    def inner(a):
        stator.graph_break()
        return a

    with pytest.raises(stator.Unsupported):
        stator.compile(lambda a: inner(a) + 1, backend=K)(x)
