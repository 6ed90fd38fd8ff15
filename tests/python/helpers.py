"""Helpers of tests: a counting backend, and comparison of a compiled callable with the plain one."""

import contextlib
import copy
import gc
import subprocess
import sys
import textwrap
import time
import traceback
import weakref
from dataclasses import fields, is_dataclass

import numpy as np
import torch
from torch.utils import _pytree as pytree

import stator
from stator import _C

HEAP_TYPE = 1 << 9  # tp_flags of classes written in Python


class Counting:
    """A backend that runs the graph unchanged and counts the graphs it gets."""

    compiler_name = "counting"

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward

    @property
    def count(self):
        return len(self.graphs)


class _Probe:
    """An object that only the garbage collector frees."""

    def __init__(self):
        self.itself = self


def collect(generation=2):
    """Frees garbage. `gc.collect()` does nothing while another thread collects; this waits for that thread."""
    deadline = time.monotonic() + 60
    while True:
        probe = weakref.ref(_Probe())
        gc.collect(generation)
        if probe() is None:
            return
        if time.monotonic() > deadline:
            stacks = ["".join(traceback.format_stack(frame)) for frame in sys._current_frames().values()]
            raise AssertionError("the garbage collector does not run; the threads are at\n" + "\n".join(stacks))
        time.sleep(0.01)


@contextlib.contextmanager
def fake_scope():
    """A block in which operators run on fakes without being recorded."""
    before = _C._fake.scope(True)
    try:
        yield
    finally:
        _C._fake.scope(before)


def captures():
    """The number of graphs captured since the last reset."""
    return stator.counters()["captures"].get("graphs", 0)


def assert_same(actual, expected, path="result"):
    """Asserts equality of type, structure, values, dtype, strides, requires_grad."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor), f"{path}: {type(actual)}"
        assert type(actual) is type(expected), path
        assert actual.dtype == expected.dtype, f"{path}: {actual.dtype} for {expected.dtype}"
        assert actual.shape == expected.shape, f"{path}: {actual.shape} for {expected.shape}"
        assert actual.device == expected.device, path
        assert actual.requires_grad == expected.requires_grad, f"{path}: requires_grad {actual.requires_grad}"
        assert actual.is_leaf == expected.is_leaf, f"{path}: is_leaf {actual.is_leaf}"
        assert actual.stride() == expected.stride(), f"{path}: strides {actual.stride()} for {expected.stride()}"
        assert torch.equal(actual, expected) or torch.allclose(actual, expected, rtol=0, atol=0, equal_nan=True), (
            f"{path}: values differ by {(actual.double() - expected.double()).abs().max()}"
        )
        return
    assert type(actual) is type(expected), f"{path}: {type(actual)} for {type(expected)}"
    if isinstance(expected, dict):
        assert list(actual) == list(expected), f"{path}: keys {list(actual)} for {list(expected)}"
        for key in expected:
            assert_same(actual[key], expected[key], f"{path}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), f"{path}: length"
        for index, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert_same(a, e, f"{path}[{index}]")
    elif is_dataclass(expected):
        for item in fields(expected):
            assert_same(getattr(actual, item.name), getattr(expected, item.name), f"{path}.{item.name}")
    elif isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype and actual.strides == expected.strides, f"{path}: {actual.dtype}"
        assert np.array_equal(actual, expected, equal_nan=True), f"{path}: {actual} for {expected}"
    elif actual is not expected and type(expected).__eq__ is object.__eq__ and type(expected).__flags__ & HEAP_TYPE:
        assert_same(state_of(actual), state_of(expected), path)
    else:
        assert actual == expected or (actual != actual and expected != expected), f"{path}: {actual!r}, {expected!r}"


def state_of(instance):
    """The attributes of an instance whose class does not define `__eq__`."""
    names = [name for cls in type(instance).__mro__ for name in getattr(cls, "__slots__", ())]
    slots = {name: getattr(instance, name) for name in names if hasattr(instance, name)}
    return slots | dict(getattr(instance, "__dict__", {}))


def outcome(fn, args, kwargs):
    """The outcome of a call: its result or exception, and its arguments afterwards."""
    try:
        result = fn(*args, **kwargs)
    except Exception as error:
        return {"raised": type(error), "text": str(error), "args": args, "kwargs": kwargs}
    return {"result": result, "args": args, "kwargs": kwargs}


def check_parity(fn, *calls, graphs=None, **settings):
    """Calls `fn` compiled and plain with each of `calls` (tuples of arguments) and compares everything observable.

    Each side gets its own deep copies. `graphs`: the expected number of captures; None: at least one.
    Returns the compiled callable.
    """
    compiled = stator.compile(fn, **settings)
    for index, args in enumerate(calls):
        mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
        torch.manual_seed(index)
        expected = outcome(fn, theirs, {})
        torch.manual_seed(index)
        actual = outcome(compiled, mine, {})
        assert_same(actual, expected, f"call {index}")
    if graphs is None:
        assert captures() > 0, stator.counters()
    else:
        assert captures() == graphs, stator.counters()
    return compiled


def check_layer(layer, training, grad, fullgraph):
    """Compares a layer with a compiled copy: results and gradients, in three calls."""
    layer = layer.train(training)
    twin = copy.deepcopy(layer)
    compiled = stator.compile(layer, fullgraph=fullgraph)
    with torch.set_grad_enabled(grad):
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(5, 3, 8, requires_grad=grad)
            y = x.detach().clone().requires_grad_(grad)
            torch.manual_seed(seed)
            got = compiled(x)
            torch.manual_seed(seed)
            wanted = twin(y)
            assert_same(got, wanted)
            if not grad:
                continue
            for output in (got, wanted):
                leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
                sum(leaf.sum() for leaf in leaves if leaf.requires_grad).backward()
            assert torch.equal(x.grad, y.grad)
            for mine, theirs in zip(layer.parameters(), twin.parameters(), strict=True):
                assert torch.equal(mine.grad, theirs.grad)
    assert captures() > 0


def run_program(text, **environment):
    """The output of a program in a new process."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
