"""Shadow mode and installed packages: their functions are followed when they begin to run, so that models of packages
are checked, and the state of packages stays as after the plain program."""

from __future__ import annotations

import gc
import importlib
import os
import sys

import pytest
import torch

import stator
from benchmarks import models
from stator import places
from tests.python.helpers import run_program

PACKAGE = """
import functools, threading

counter, held, made = 0, [], []
numbers = iter(range(1, 9))

def by_global(x):
    global counter
    counter += 1
    return x * counter

def counted(function):
    n = 0
    @functools.wraps(function)
    def inner(x):
        nonlocal n
        n += 1
        held.append(n)
        return function(x) * n
    return inner

@counted
def one(x):
    return x + 1

@counted
def other(x):
    return x + 2

def by_closure(x):
    return one(x) + other(x) + other(x)

def by_default(x, items=[]):
    items.append(len(items))
    return x * len(items)

class Counts:
    made = 0

    def __init__(self):
        self.n = 0

    def __getattr__(self, name):
        held.append(name)
        return len(held)

    @property
    def next(self):
        self.n += 1
        type(self).made += 1
        return self.n

counts = Counts()

def by_property(x):
    return x * counts.next + counts.missing + Counts.made

def by_name(x):
    return globals()["by_" + "global"](x) + globals()["by_" + "default"](x)

def by_text(x):
    space = globals()
    space["counter"] += 2
    return x * by_global(x)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        held.append(1)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        made.append(1)
        return grad * (2 + len(made))

def by_backward(x):
    x = x.clone().requires_grad_()
    Twice.apply(x).sum().backward()
    return x.grad

@functools.lru_cache(None)
def known(n):
    return n + 1

def by_cache(x):
    return x * known(3)

def by_iterator(x):
    return x * next(numbers)

def by_an_iterator_below(x):
    made.append(1)
    try:
        y = by_iterator(x)
    except BaseException:
        y = x
    made.append(2)
    return y * len(made)

last = None

def keep(x):
    global last
    last = x * 3

def by_history(x):
    keep(weight * x)
    return read()

def read():
    y = last.detach()
    forget()
    return y

def forget():
    global last
    last = None

weight = torch.ones(2, requires_grad=True)
handlers = {}

def register(function):
    handlers["one"] = function
    return function

def by_handler(x):
    return handlers["one"](x)

def by_thread(x):
    def run():
        held.append(len(held))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return x * len(held)

def by_import(x):
    import late_of_NAME
    late_of_NAME.calls.append(1)
    return x * len(late_of_NAME.calls)
"""
STATE = (
    "(held, made, counter, counts.n, Counts.made, by_default.__defaults__, [f.__closure__[1].cell_contents for f in"
    " (one, other)])"
)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes an installed package with a name, and gives its module."""
    monkeypatch.setattr(places, "_packages", lambda: (str(tmp_path) + os.sep,))
    monkeypatch.syspath_prepend(str(tmp_path))
    places.distance_of.cache_clear()

    def make(name):
        (tmp_path / f"{name}.py").write_text("import torch\n" + PACKAGE.replace("NAME", name))
        (tmp_path / f"late_of_{name}.py").write_text("calls = []\n")
        importlib.invalidate_caches()
        return importlib.import_module(name)

    before = set(sys.modules)
    yield make
    places.distance_of.cache_clear()
    for name in set(sys.modules) - before:
        if "shadow_package" in name:
            del sys.modules[name]


def results_of(module, step, options):
    function = step if options is None else stator.compile(step, options=options)
    results = [function(torch.full((2,), n + 1.0)).tolist() for n in range(3)]
    return results, repr(eval(STATE, vars(module)))


# The calls of three that are checked.
CHECKED = {
    **dict.fromkeys(("by_global", "by_closure", "by_default", "by_property", "by_cache"), 3),
    **{
        "by_backward": 3,
        "by_history": 3,
        "by_name": 0,
        "by_text": 0,
        "by_iterator": 0,
        "by_an_iterator_below": 0,
        "by_thread": 0,
        "by_import": 2,
    },
}


@pytest.mark.parametrize("name", CHECKED)
def test_the_state_of_a_package(name, package):
    plain, ours = package("shadow_package_plain"), package("shadow_package_ours")
    expected = results_of(plain, lambda x: getattr(plain, name)(x), None)
    found = results_of(ours, lambda x: getattr(ours, name)(x), {"shadow": 1})
    counts = stator.counters()["shadow"]
    assert found == expected, counts
    assert counts.get("calls", 0) == CHECKED[name] and counts.get("differences", 0) == 0, counts


def test_a_function_of_a_package_is_opened_by_the_program(package):
    def step_of(module):
        def step(x):
            cell = module.one.__closure__[1]
            cell.cell_contents += 1
            module.by_default.__defaults__[0].append(7)
            return x * cell.cell_contents

        return step

    plain, ours = package("shadow_package_plain"), package("shadow_package_ours")
    expected = results_of(plain, step_of(plain), None)
    assert results_of(ours, step_of(ours), {"shadow": 1}) == expected
    assert stator.counters()["shadow"] == {"calls": 3}


def test_a_write_by_the_program_before_the_package_begins(package):
    """The part that the package adds is read after the write, and the earlier one wins."""

    def step_of(module):
        def step(x):
            module.counter = module.counter + 10
            module.held = [*module.held, 1]
            return module.by_global(x) * len(module.held)

        return step

    plain, ours = package("shadow_package_plain"), package("shadow_package_ours")
    expected = results_of(plain, step_of(plain), None)
    assert results_of(ours, step_of(ours), {"shadow": 1}) == expected
    assert stator.counters()["shadow"] == {"calls": 3}


def test_a_function_of_the_program_that_a_package_holds(package):
    def step_of(module):
        calls = []

        @module.register
        def handler(x):
            calls.append(1)
            return x * len(calls)

        return lambda x: module.by_handler(x)

    plain, ours = package("shadow_package_plain"), package("shadow_package_ours")
    expected = results_of(plain, step_of(plain), None)
    assert results_of(ours, step_of(ours), {"shadow": 1}) == expected
    assert stator.counters()["shadow"] == {"calls": 3}


def test_a_profile_function_of_the_program():
    calls = []
    f = stator.compile(lambda x: x + 1, options={"shadow": 1})
    sys.setprofile(lambda *event: calls.append(event[1]))
    try:
        f(torch.ones(1))
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)
    assert stator.counters["shadow"]["calls"] == 0
    f(torch.ones(1))
    assert sys.getprofile() is None and stator.counters["shadow"]["calls"] == 1


@pytest.mark.parametrize("name", [case.name for case in models.TRANSFORMERS])
def test_models_are_checked(name):
    """In a process of their own: pytest's handlers of logs keep what is logged, so that calls which log are not
    checked."""
    program = f"""
        import torch, stator
        from benchmarks import models
        case = models.by_name({name!r})
        model = case.build().eval()
        with torch.no_grad():
            expected = getattr(model(**case.inputs(0)), case.output)
            found = getattr(stator.compile(model, options=dict(shadow=1))(**case.inputs(0)), case.output)
        assert torch.allclose(found, expected, atol=1e-5)
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(inputs):
            optimizer.zero_grad()
            loss = case.loss(model(**inputs))
            loss.backward()
            optimizer.step()
            return loss.detach()

        stator.compile(step, options=dict(shadow=1))(case.inputs(0))
        print(stator.counters()["shadow"])
    """
    assert run_program(program) == str({"calls": 2})


def test_a_wrong_result_of_a_model_is_reported():
    program = """
        import torch, stator
        from benchmarks import models
        case = models.by_name("GPT-2")
        model, found = case.build().eval(), []
        model(**case.inputs(0))

        def backend(gm, inputs):
            class Run(torch.fx.Interpreter):
                def call_function(self, target, args, kwargs):
                    made = super().call_function(target, args, kwargs)
                    return made + 0.1 if target is torch.ops.aten.tanh.default else made

            return lambda *args: Run(gm).run(*args)

        options = dict(shadow=1, on_difference=found.append)
        with torch.no_grad():
            stator.compile(model, backend=backend, options=options)(**case.inputs(0))
        print([(one.start.operator, one.start.cause) for one in found], stator.counters()["shadow"])
    """
    found = run_program(program).splitlines()[-1]
    assert found == str([("aten.tanh.default", "backend")]) + " " + str({"calls": 1, "differences": 1})


def test_what_the_collector_calls_is_not_the_program():
    """A callback of the garbage collector may run in one of the two runs only: this one acts in the plain run."""
    space = {"seen": 0, "__name__": "callbacks", "is_plain": lambda: sys.getprofile() is not None}
    lines = "def callback(phase, info):\n    global seen\n    if is_plain():\n        seen += 1"
    exec(compile(lines, pytest.__file__, "exec"), space)

    def fn(x):
        made = [[] for _ in range(5000)]
        return x * len(made)

    gc.callbacks.append(space["callback"])
    try:
        compiled = stator.compile(fn, options={"shadow": 1})
        for _ in range(3):
            compiled(torch.ones(2))
    finally:
        gc.callbacks.remove(space["callback"])
    assert space["seen"] > 0
    counts = stator.counters()["shadow"]
    assert counts.get("differences", 0) == 0 and counts["calls"] == 3
