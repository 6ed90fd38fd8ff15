"""Operators that raise while the graph of a Python backend runs.

The error reaches the program's own handlers, after the effects before it, whichever way the backend runs the graph."""

from __future__ import annotations

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures
from tests.python.parity.test_fallible_operators import CASES, ERRORS, LARGE


def rebuilt(gm, example_inputs):
    """Reads the graph and makes a new module of it."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return torch.fx.GraphModule(gm, graph)


def interpreted(gm, example_inputs):
    return torch.fx.Interpreter(gm).run


def unread(gm, example_inputs):
    return gm.forward


def last_first(gm, example_inputs):
    """Computes on copies and writes to the inputs at the end, as compilers that make graphs functional do."""

    def run(*inputs):
        copies = [value.detach().clone().requires_grad_(value.requires_grad) for value in inputs]
        results = torch.fx.Interpreter(gm).run(*copies)
        for value, copy in zip(inputs, copies, strict=True):
            if not torch.equal(value, copy):
                value.copy_(copy)
        return results

    return run


BACKENDS = [rebuilt, interpreted, unread, last_first, "aot_eager"]


def label(backend):
    return backend if isinstance(backend, str) else backend.__name__


# Calls that raise for the shape or kind of what they get, not for its values.
BY_SHAPE = {
    "amax": (lambda a: a.amax(), torch.ones(2), torch.ones(0)),
    "expanded": (lambda a: a.expand(3).add_(1), torch.ones(3), torch.ones(1)),
    "integers": (lambda a: a // 0, torch.ones(2), torch.ones(2, dtype=torch.int64)),
    "matmul": (lambda a: a @ torch.ones(2, 2), torch.ones(2), torch.ones(3)),
    "view": (lambda a: a.view(2, 2), torch.ones(4), torch.ones(5)),
    "cat": (lambda a: torch.cat([a, torch.ones(1, 2)]), torch.ones(1, 2), torch.ones(1, 3)),
    "narrow": (lambda a: a.narrow(0, 0, 2), torch.ones(2), torch.ones(1)),
}


@pytest.mark.parametrize("backend", BACKENDS, ids=label)
@pytest.mark.parametrize("name", [*CASES, *BY_SHAPE])
def test_the_program_handles_the_error(name, backend):
    call, good, bad = (CASES | BY_SHAPE)[name]
    log = []

    def program(small, data):
        log.append("before")
        small.add_(1)
        try:
            result = call(data * 1 if data.is_floating_point() else data + 0)
            log.append("inside")
        except ERRORS as error:
            result = (type(error).__name__, str(error))
        small.mul_(2)
        log.append("after")
        return result

    compiled = stator.compile(program, backend=backend)
    for data in (good, bad, good, bad):
        results, buffers, logs = [], [], []
        for run in (compiled, program):
            torch.manual_seed(0)
            log.clear()
            buffers.append(torch.ones(4))
            results.append(run(buffers[-1], data.clone()))
            logs.append(list(log))
        assert_same(results[0], results[1])
        assert_same(buffers[0], buffers[1])
        assert logs[0] == logs[1]
    assert captures() > 0


@pytest.mark.parametrize("backend", BACKENDS, ids=label)
@pytest.mark.parametrize("first", ["write", "operator"])
def test_beside_a_write_that_cannot_be_undone(backend, first):
    def program(large, data):
        try:
            if first == "write":
                large.add_(1)
            result = torch.ones(2)[data]
            if first != "write":
                large.add_(1)
        except IndexError as error:
            result = str(error)
        return result

    compiled = stator.compile(program, backend=backend)
    for data in (torch.tensor([1]), torch.tensor([9]), torch.tensor([0])):
        results, buffers = [], []
        for run in (compiled, program):
            buffers.append(torch.ones(LARGE))
            results.append(run(buffers[-1], data))
        assert_same(results[0], results[1])
        assert_same(buffers[0], buffers[1])
    assert captures() > 0


@pytest.mark.parametrize("backend", BACKENDS, ids=label)
def test_an_error_that_leaves_the_program_is_its_own(backend):
    def program(log, data):
        log.append(1)
        return torch.ones(2)[data] * 2

    compiled = stator.compile(program, backend=backend)
    compiled([], torch.tensor([1]))
    log = []
    with pytest.raises(IndexError, match="out of bounds") as caught:
        compiled(log, torch.tensor([9]))
    assert log == [1]
    assert caught.traceback[-1].name == "program"


def test_a_retry_with_another_input():
    def factor(matrix):
        jitter = 0.0
        while True:
            try:
                return torch.linalg.cholesky(matrix + jitter * torch.eye(2)), jitter
            except RuntimeError:
                jitter = 10.0 if jitter == 0 else jitter * 10

    compiled = stator.compile(factor, backend=interpreted)
    for matrix in (torch.eye(2), -torch.eye(2), torch.eye(2)):
        assert_same(compiled(matrix), factor(matrix))


def test_an_error_of_the_backend_itself_stands():
    def broken(gm, example_inputs):
        def run(*inputs):
            raise ValueError("the kernel is missing")

        return run

    x = torch.ones(3)
    compiled = stator.compile(lambda x: x.sin().add_(1), backend=broken)
    for _ in range(2):
        with pytest.raises(ValueError, match="the kernel is missing"):
            compiled(x)


def test_writes_before_an_error_of_the_backend_itself_are_undone():
    def broken(gm, example_inputs):
        def run(*inputs):
            torch.fx.Interpreter(gm).run(*inputs)
            raise ValueError("too late")

        return run

    x = torch.ones(3)
    with pytest.raises(ValueError, match="too late"):
        stator.compile(lambda x: x.add_(1), backend=broken)(x)
    assert x.tolist() == [1, 1, 1]
