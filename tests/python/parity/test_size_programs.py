"""Programs on inputs of twenty sizes: equal to eager, and two captures, of which the second has symbols."""

from __future__ import annotations

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures
from tests.python.parity.size_programs import PROGRAMS


def run(program, fn, n):
    """The result, and the gradients of the inputs that have one."""
    torch.manual_seed(0)
    args = program.args(n)
    result = fn(*args)
    inputs = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
    if not inputs:
        return result
    result.backward()
    return result.detach(), [arg.grad for arg in inputs]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_twenty_sizes(program):
    target = program.make()
    compiled = stator.compile(target, fullgraph=True)
    for n in program.sizes:
        assert_same(run(program, compiled, n), run(program, target, n), f"size {n}")
    assert captures() <= program.captures


@pytest.mark.parametrize("program", PROGRAMS[::3], ids=lambda program: program.name)
def test_symbols_from_the_first_call_on(program):
    target = program.make()
    compiled = stator.compile(target, fullgraph=True, dynamic=True)
    for n in program.sizes[:6]:
        assert_same(run(program, compiled, n), run(program, target, n), f"size {n}")
    assert captures() < program.captures


@pytest.mark.parametrize("program", PROGRAMS[1::4], ids=lambda program: program.name)
def test_broken_anywhere(program):
    """With a break after n instructions, a resumed frame keeps its symbols."""
    target = program.make()
    for distance in (3, 17, 40):
        stator.reset()
        with stator.config.patch(break_after=distance):
            compiled = stator.compile(target)
            for n in program.sizes[:5]:
                assert_same(run(program, compiled, n), run(program, target, n), f"size {n}, break after {distance}")
