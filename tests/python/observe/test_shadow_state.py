"""Shadow mode and state of every kind: each program gives over several calls what it gives without shadow mode, and
leaves the same state, gradients and modes. What cannot be put back is not checked, and the reason is said."""

from __future__ import annotations

import argparse
import array
import asyncio
import collections
import contextlib
import contextvars
import copy
import decimal
import enum
import functools
import gc
import itertools
import logging
import os
import queue
import random
import sys
import threading
import types
import warnings
import weakref

import numpy as np
import pytest
import torch

import stator

PROGRAMS = {}


def program(checked=True, calls=3):
    """A function that makes a step and a function that reads the state. `checked`: whether shadow mode checks it;
    False: it says why not; None: it may do either."""

    def add(make):
        PROGRAMS[make.__name__] = make, checked, calls
        return make

    return add


def attribute(holder):
    """A program that counts in an attribute."""
    holder.n = 0

    def step(x):
        holder.n += 1
        return x * holder.n

    return step, lambda: holder.n


def item(holder):
    """A program that counts in an item."""
    holder["n"] = 0

    def step(x):
        holder["n"] += 1
        return x * holder["n"]

    return step, lambda: holder["n"]


def growing(holder, add, size=len):
    """A program that adds to a container."""

    def step(x):
        add(holder, size(holder))
        return x * size(holder)

    return step, lambda: size(holder)


def register(name, make, checked=True):
    make.__name__ = name
    PROGRAMS[name] = make, checked, 3


class Plain:
    pass


class Numbered(int):
    pass


class Table(collections.UserDict):
    pass


class Many(list):
    def append(self, value):
        super().append(value)
        self.changes = getattr(self, "changes", 0) + 1

    def clear(self):
        raise RuntimeError("never cleared")


class Kept(dict):
    def __setitem__(self, key, value):
        self.writes = getattr(self, "writes", 0) + 1
        super().__setitem__(key, value)

    update = clear = None


class Colour(enum.Enum):
    RED = 1


class Hidden:
    __slots__ = ("__n", "late")

    def __init__(self):
        self.__n = 0

    def step(self, x):
        self.__n += 1
        self.late = self.__n
        return x * self.__n

    def __getattr__(self, name):
        raise AttributeError(name)


class Stamped(type):
    def __setattr__(cls, name, value):
        if name == "locked":
            raise AttributeError(name)
        super().__setattr__(name, value)


class Watched(metaclass=Stamped):
    n = 0


ATTRIBUTES = {
    "simple_namespace": types.SimpleNamespace,
    "argparse_namespace": argparse.Namespace,
    "user_object": Plain,
    "subclass_of_int": lambda: Numbered(3),
    "exception": ValueError,
    "function_attribute": lambda: lambda: None,
    "enum_member": lambda: Colour.RED,
    "class_attribute": lambda: type("Fresh", (), {}),
    "class_with_metaclass": lambda: Watched,
    "tensor_attribute": lambda: torch.ones(2),
    "parameter_attribute": lambda: torch.nn.Parameter(torch.ones(2)),
    "module_object": lambda: types.ModuleType("fresh"),
    "torch_module_attribute": lambda: torch,
    "functional_module_attribute": lambda: torch.nn.functional,
    "standard_module_attribute": lambda: os,
    "class_of_torch": lambda: torch.nn.Linear,
    "nn_module": lambda: torch.nn.Linear(2, 2),
    "partial_attribute": lambda: functools.partial(len),
}
ITEMS = {
    "user_dict": collections.UserDict,
    "subclass_of_user_dict": Table,
    "chain_map": lambda: collections.ChainMap({}, {"a": 1}),
    "ordered_dict": collections.OrderedDict,
    "default_dict": lambda: collections.defaultdict(int),
    "counter": collections.Counter,
    "dict_with_own_methods": Kept,
    "module_dict": lambda: types.ModuleType("fresh").__dict__,
    "partial_keywords": lambda: functools.partial(len, n=0).keywords,
}
GROWING = {
    "user_list": (collections.UserList, lambda held, n: held.append(n)),
    "list_with_own_methods": (Many, lambda held, n: held.append(n)),
    "array": (lambda: array.array("i"), lambda held, n: held.append(n)),
    "byte_array": (bytearray, lambda held, n: held.append(n)),
    "queue": (queue.Queue, lambda held, n: held.put(n), lambda held: held.qsize()),
    "lifo_queue": (queue.LifoQueue, lambda held, n: held.put(n), lambda held: held.qsize()),
    "bound_append": (lambda: [].append, lambda held, n: held(n), lambda held: len(held.__self__)),
    "proxy": (lambda: types.MappingProxyType({"a": []}), lambda h, n: h["a"].append(n), lambda held: len(held["a"])),
    "view_of_values": (lambda: {"a": []}.values(), lambda h, n: next(iter(h)).append(n), lambda h: len(next(iter(h)))),
    "key_of_a_dict": (
        lambda: {Plain(): 0},
        lambda h, n: vars(next(iter(h))).setdefault(n, n),
        lambda h: len(vars(next(iter(h)))),
    ),
    "exit_stack": (contextlib.ExitStack, lambda h, n: h.callback(len, ()), lambda h: len(h._exit_callbacks)),
    "set": (set, lambda held, n: held.add(n)),
    "heap": (lambda: [5], lambda held, n: held.insert(0, -n)),
}
UNSAVABLE = {
    "simple_queue": (queue.SimpleQueue, lambda held, n: held.put(n), lambda held: held.qsize()),
    "weak_dictionary": (weakref.WeakValueDictionary, lambda held, n: held.update({n: PROGRAMS[list(PROGRAMS)[n]][0]})),
    "memory_view": (lambda: memoryview(bytearray(1)), lambda h, n: h.__setitem__(0, n + 1), lambda h: h[0]),
    "thread_local": (threading.local, lambda h, n: h.__dict__.__setitem__(n, n), lambda h: len(h.__dict__)),
    "task_object": (asyncio.Event, lambda h, n: h.__dict__.__setitem__(str(n), n), lambda h: len(h.__dict__)),
}
for name, cls in ATTRIBUTES.items():
    register(name, lambda cls=cls: attribute(cls()))
for name, cls in ITEMS.items():
    register(name, lambda cls=cls: item(cls()))
for name, (cls, *rest) in GROWING.items():
    register(name, lambda cls=cls, rest=rest: growing(cls(), *rest))
for name, (cls, *rest) in UNSAVABLE.items():
    register(name, lambda cls=cls, rest=rest: growing(cls(), *rest), checked=None)


@program()
def a_mangled_slot():
    one = Hidden()
    return one.step, lambda: (one._Hidden__n, one.late)


@program()
def a_deque_with_a_bound():
    held = collections.deque([1, 2, 3], maxlen=3)

    def step(x):
        held.append(sum(held))
        return x * held[-1]

    return step, lambda: list(held)


@program()
def the_factory_of_a_default_dict():
    held = collections.defaultdict(int)

    def step(x):
        held.default_factory = list if held.default_factory is int else int
        return x + len(held)

    return step, lambda: held.default_factory.__name__


@program()
def the_order_of_an_ordered_dict():
    held = collections.OrderedDict(a=1, b=2, c=3)

    def step(x):
        held.move_to_end(next(iter(held)))
        return x * next(iter(held.values()))

    return step, lambda: list(held)


@program()
def a_negative_zero():
    held = [0.0]

    def step(x):
        held[0] = -held[0]
        return x * held[0]

    return step, lambda: str(held)


@program(checked=False)
def a_cache():
    calls = []

    @functools.lru_cache(None)
    def known(key):
        calls.append(key)
        return key + 1

    def step(x):
        return x * known(len(calls))

    return step, lambda: (list(calls), known.cache_info())


@program()
def a_context_variable():
    variable = contextvars.ContextVar("variable", default=0)

    def step(x):
        variable.set(variable.get() + 1)
        return x * variable.get()

    return step, variable.get


@program()
def a_list_in_a_context_variable():
    variable = contextvars.ContextVar("variable")
    variable.set([])

    def step(x):
        variable.get().append(1)
        return x * len(variable.get())

    return step, lambda: list(variable.get())


@program()
def the_environment():
    os.environ["STATOR_SHADOW_TEST"] = "0"

    def step(x):
        os.environ["STATOR_SHADOW_TEST"] = str(int(os.environ["STATOR_SHADOW_TEST"]) + 1)
        return x * int(os.environ["STATOR_SHADOW_TEST"])

    return step, lambda: os.environ.pop("STATOR_SHADOW_TEST")


@program()
def a_global_by_its_text():
    space = {"total": 0}
    text = """
def step(x):
    globals()["total"] += 1
    globals().setdefault("made", []).append(1)
    return x * globals()["total"]
"""
    exec(text, space)
    return space["step"], lambda: (space["total"], len(space["made"]))


@program()
def an_attribute_of_torch_by_its_text():
    torch.shadow_test = 0

    def step(x):
        setattr(torch, "shadow_test", getattr(torch, "shadow_test") + 1)  # noqa: B009, B010
        return x * torch.shadow_test

    return step, lambda: torch.__dict__.pop("shadow_test")


@program()
def an_attribute_that_torch_does_not_have_yet():
    def step(x):
        torch.shadow_test = getattr(torch, "shadow_test", 0) + 1
        return x * torch.shadow_test

    return step, lambda: torch.__dict__.pop("shadow_test")


@program()
def a_function_of_the_class_is_replaced():
    class Model:
        def scale(self):
            return 1

    one = Model()

    def step(x):
        before = one.scale()
        Model.scale = lambda self: before + 1
        return x * one.scale()

    return step, one.scale


@program()
def defaults_of_a_function():
    def scale(n=1):
        return n

    def step(x):
        scale.__defaults__ = (scale() + 1,)
        return x * scale()

    return step, scale


@program()
def a_function_below_a_decorator_of_torch():
    held = []

    @torch.no_grad()
    def scale():
        held.append(1)
        return len(held)

    def step(x):
        return x * scale()

    return step, lambda: held


@program(checked=None)
def a_function_below_a_context_manager():
    held = []

    @contextlib.contextmanager
    def scope():
        held.append(1)
        yield len(held)

    def step(x):
        with scope() as n:
            return x * n

    return step, lambda: held


@program(checked=None)
def a_single_dispatch_function():
    held = []

    @functools.singledispatch
    def scale(x):
        return 1

    @scale.register
    def _(x: torch.Tensor):
        held.append(1)
        return len(held)

    def step(x):
        return x * scale(x)

    return step, lambda: held


@program()
def a_weak_reference_to_a_module():
    net = torch.nn.Linear(2, 2)
    net.n, reference = 0, weakref.ref(net)

    def step(x):
        reference().n += 1
        return x * reference().n

    return step, lambda: net.n


@program()
def a_lock():
    lock, held = threading.Lock(), []

    def step(x):
        with lock:
            held.append(1)
        return x * len(held)

    return step, lambda: (held, lock.locked())


@program(checked=False)
def a_lock_that_stays_taken():
    lock = threading.RLock()

    def step(x):
        lock.acquire()
        return x + 1

    return step, lambda: [lock.release() for _ in range(3)]


@program()
def modes_of_torch():
    def step(x):
        torch.set_default_dtype(torch.float64 if torch.get_default_dtype() is torch.float32 else torch.float32)
        return torch.ones(2) + x

    return step, modes


@program()
def grad_mode():
    weight = torch.ones(2, requires_grad=True)

    def step(x):
        y = weight * x
        torch.set_grad_enabled(not torch.is_grad_enabled())
        return y

    return step, modes


@program()
def autocast_and_determinism():
    def step(x):
        torch.set_autocast_enabled("cpu", not torch.is_autocast_enabled("cpu"))
        torch.use_deterministic_algorithms(not torch.are_deterministic_algorithms_enabled())
        torch.set_float32_matmul_precision("high" if torch.get_float32_matmul_precision() == "highest" else "highest")
        return x + torch.is_autocast_enabled("cpu")

    return step, modes


@program()
def flags_of_backends():
    def step(x):
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
        torch.backends.cuda.matmul.allow_tf32 = not torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.enable_math_sdp(not torch.backends.cuda.math_sdp_enabled())
        return x * (1 + torch.backends.cudnn.benchmark)

    return step, modes


@program(calls=1)
def the_default_device():
    def step(x):
        torch.set_default_device("meta")
        return x + 1

    def state():
        made = torch.ones(1).device
        torch.set_default_device(None)
        return str(made), torch._C._len_torch_function_stack()

    return step, state


@program()
def the_recursion_limit_and_collection():
    def step(x):
        sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        gc.disable() if gc.isenabled() else gc.enable()
        decimal.getcontext().prec += 1
        return x * (sys.getrecursionlimit() % 7)

    return step, modes


@program()
def warning_filters():
    def step(x):
        warnings.filterwarnings("ignore", message=f"number {len(warnings.filters)}")
        return x * len(warnings.filters)

    return step, lambda: len(warnings.filters)


def modes():
    return (
        *(torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_autocast_enabled("cpu")),
        *(torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()),
        *(torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32),
        *(torch.backends.cuda.math_sdp_enabled(), sys.getrecursionlimit(), gc.isenabled(), decimal.getcontext().prec),
    )


@program()
def a_hook_on_a_parameter():
    weight, calls = torch.ones(2, requires_grad=True), []

    def step(x):
        weight.register_hook(lambda grad: calls.append(1) or grad * 10)
        return (weight * x).sum()

    def state():
        (weight * 2).sum().backward()
        return weight.grad, len(calls)

    return step, state


@program()
def a_later_hook_on_a_parameter():
    weight, calls = torch.ones(2, requires_grad=True), []

    def step(x):
        weight.register_post_accumulate_grad_hook(lambda grad: calls.append(1))
        (weight * x).sum().backward()
        return weight * len(calls)

    return step, lambda: (weight.grad, len(calls), len(weight._post_accumulate_grad_hooks))


@program()
def a_hook_that_counts():
    weight, calls = torch.ones(2, requires_grad=True), []
    weight.register_hook(lambda grad: calls.append(1) or grad * len(calls))

    def step(x):
        (weight * x).sum().backward()
        return x + 1

    return step, lambda: (weight.grad, calls)


@program()
def hooks_on_modules():
    net, calls = torch.nn.Linear(2, 2), []

    def step(x):
        net.register_forward_hook(lambda *inputs: calls.append(1))
        net.register_full_backward_hook(lambda *inputs: calls.append(2))
        return net(x).detach()

    return step, lambda: (
        calls,
        [key - start_of_hooks for key in net._forward_hooks],
        torch.utils.hooks.RemovableHandle.next_id - start_of_hooks,
    )


start_of_hooks = 0


@program()
def a_handle_that_is_kept():
    net = torch.nn.Linear(2, 2)
    net.handle, net.calls = None, 0

    def count(*inputs):
        net.calls += 1

    def step(x):
        if net.handle is not None:
            net.handle.remove()
        net.handle = net.register_forward_pre_hook(count)
        return net(x).detach()

    return step, lambda: (net.calls, len(net._forward_pre_hooks))


@program()
def hooks_of_all_modules():
    calls, net = [], torch.nn.Linear(2, 2)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *inputs: calls.append(1))

    def step(x):
        return net(x).detach() * len(calls)

    return step, lambda: (handle.remove(), calls)


@program(checked=False)
def a_hook_on_a_tensor_with_a_history():
    weight, calls = torch.ones(2, requires_grad=True), []
    held = {"y": weight * 2}
    held["y"].register_hook(lambda grad: calls.append(1))

    def step(x):
        (held["y"] * x).sum().backward(retain_graph=True)
        return x + 1

    return step, lambda: (calls, weight.grad)


@program()
def memory_that_is_given_back():
    held = torch.arange(4.0)

    def step(x):
        if held.untyped_storage().nbytes():
            held.untyped_storage().resize_(0)
        else:
            held.untyped_storage().resize_(16)
            held.fill_(3)
        return x + held.untyped_storage().nbytes()

    return step, lambda: held.untyped_storage().nbytes()


@program()
def memory_beside_a_tensor():
    whole = np.zeros(4, dtype=np.float32)
    part = torch.from_numpy(whole)[:2].detach()

    def step(x):
        part.as_strided((4,), (1,)).add_(1)
        return x + part

    return step, lambda: whole.tolist()


@program()
def the_shape_of_an_array():
    held = np.arange(6.0)

    def step(x):
        held.shape = (3, 2) if held.ndim == 1 else (6,)
        held[...] += 1
        return x + float(held.sum()) + held.ndim

    return step, lambda: held.tolist()


@program()
def an_array_of_objects():
    held = np.empty(2, dtype=object)
    held[0], held[1] = [], {}

    def step(x):
        held[0].append(1)
        return x * len(held[0])

    return step, lambda: held.tolist()


@program()
def generators_of_numbers():
    mine, arrays = random.Random(1), np.random.default_rng(1)

    def step(x):
        return x + mine.gauss(0, 1) + float(arrays.random()) + random.random()

    return step, lambda: (mine.random(), float(arrays.random()))


@program()
def a_logger():
    logger = logging.getLogger("test.shadow")
    logger.propagate = False

    def step(x):
        logger.setLevel(logger.level + 1)
        logger.info("a step")
        return x * logger.level

    return step, lambda: (logger.level, logger.setLevel(0))


@program(checked=False)
def a_handler_that_keeps_records():
    records, logger = [], logging.Logger("mine")

    class Keep(logging.Handler):
        def emit(self, record):
            records.append(record.msg)

    logger.addHandler(Keep())

    def step(x):
        logger.warning("a step")
        return x * len(records)

    return step, lambda: records


@program(checked=False)
def what_is_printed_to_a_string():
    import io

    made = io.StringIO()

    def step(x):
        with contextlib.redirect_stdout(made):
            print("a step")
        return x + len(made.getvalue())

    return step, made.getvalue


@program(checked=False)
def code_in_text():
    held = []

    def step(x):
        exec("held.append(1)", {"held": held})
        return x * len(held)

    return step, lambda: held


@program(checked=False)
def a_class_with_a_finaliser():
    ended = []

    class Ends:
        def __del__(self):
            ended.append(1)

    def step(x):
        Ends()
        return x * (len(ended) + 1)

    return step, lambda: ended


@program(checked=False)
def a_count():
    numbers = itertools.count(1)
    return lambda x: x * next(numbers), lambda: next(numbers)


@program(checked=False)
def a_running_generator():
    numbers = (n for n in range(1, 9))
    return lambda x: x * next(numbers), lambda: next(numbers)


@program(checked=None)
def a_generator_that_is_returned():
    held = []

    def numbers(x):
        try:
            yield x
            yield x
        finally:
            held.append(1)

    def step(x):
        made = numbers(x)
        kept.append(made)
        return next(made)

    kept = []
    return step, lambda: (held, len(kept))


@program(checked=False)
def a_library_operator_with_state():
    calls = []
    library = torch.library.Library("shadow_test", "FRAGMENT")
    if not hasattr(torch.ops.shadow_test, "count"):
        library.define("count(Tensor x) -> Tensor")
    library.impl("count", lambda x: calls.append(1) or x * len(calls), "CPU")
    library.impl("count", torch.empty_like, "Meta")

    def step(x):
        return torch.ops.shadow_test.count(x)

    return step, lambda: (len(calls), library._destroy())


def run(make, calls, options):
    global start_of_hooks
    stator.reset()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    start_of_hooks = torch.utils.hooks.RemovableHandle.next_id
    step, state = make()
    function = step if options is None else stator.compile(step, options=options)
    results = []
    for n in range(calls):
        x = torch.full((2,), n + 1.0)
        made = function(x)
        results.append((made.detach().clone(), made.requires_grad, made.dtype, x))
    return results, copy.deepcopy(torch.utils._pytree.tree_map(plain, state()))


def plain(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


@pytest.fixture(autouse=True)
def same_modes_after(monkeypatch):
    # torch.testing, which other tests import, forbids to set the flags of backends.
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)
    limit, precision, filters = sys.getrecursionlimit(), decimal.getcontext().prec, list(warnings.filters)
    matmul, math, benchmark = (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cudnn.benchmark,
    )

    def reset():
        sys.setrecursionlimit(limit)
        gc.enable()
        decimal.getcontext().prec = precision
        warnings.filters[:] = filters
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        torch.set_autocast_enabled("cpu", False)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.allow_tf32 = matmul
        torch.backends.cudnn.benchmark = benchmark
        torch.backends.cuda.enable_math_sdp(math)
        for owner in (torch, torch.nn.functional, os, torch.nn.Linear):
            if "n" in vars(owner):
                del owner.n

    same_modes_after.reset = reset
    yield
    reset()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_is_not_disturbed(name, caplog):
    make, checked, calls = PROGRAMS[name]
    expected = run(make, calls, None)
    same_modes_after.reset()
    ours = run(make, calls, {"shadow": 1})
    torch.set_default_dtype(torch.float32)
    assert stator.testing.same(expected, ours), (expected, ours)
    counts = stator.counters()["shadow"]
    assert counts.get("differences", 0) == 0, caplog.text
    if checked is not None:
        assert counts.get("calls", 0) == (calls if checked else 0), counts
    if counts.get("calls", 0) != calls:
        reasons = [reason for reason in counts if reason.startswith("not run")]
        assert caplog.text.count("is not checked") == len(reasons), "each reason is said once"


class TestFunctionsThatRunLater:
    def test_a_coroutine_function(self, recwarn):
        held = []

        async def step(x):
            held.append(1)
            return x * len(held)

        f = stator.compile(step, options={"shadow": 1})
        assert [asyncio.run(f(torch.ones(1))).item() for _ in range(3)] == [1, 2, 3]
        gc.collect()
        assert not [one for one in recwarn if "never awaited" in str(one.message)]
        assert stator.counters["shadow"]["not run: a generator or coroutine function"] == 3

    def test_a_generator_function(self):
        held = []

        def step(x):
            held.append(1)
            yield x * len(held)

        f = stator.compile(step, options={"shadow": 1})
        assert [one.item() for _ in range(2) for one in f(torch.ones(1))] == [1, 2]

    def test_a_coroutine_that_a_function_returns(self, recwarn):
        async def inner(x):
            return x + 1

        f = stator.compile(lambda x: inner(x), options={"shadow": 1})
        assert asyncio.run(f(torch.ones(1))).item() == 2
        gc.collect()
        assert not [one for one in recwarn if "never awaited" in str(one.message)]


def test_gradients_of_hooks():
    def step(w):
        w.register_hook(lambda grad: grad * 10)
        return (w * 2).sum()

    w = torch.ones(2, requires_grad=True)
    stator.compile(step, options={"shadow": 1})(w).backward()
    assert w.grad.tolist() == [20, 20] and stator.counters["shadow"]["calls"] == 1


def test_a_profiler_sees_the_compiled_call_alone():
    f = stator.compile(lambda x: x.sin(), options={"shadow": 1})
    f(torch.ones(2))
    with torch.profiler.profile() as made:
        f(torch.ones(2))
    assert sum(event.count for event in made.key_averages() if event.key == "aten::sin") == 1


def test_training_is_still_checked():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    f = stator.compile(step, options={"shadow": 1})
    for _ in range(2):
        f(torch.randn(8, 4))
    assert stator.counters()["shadow"] == {"calls": 2}, stator.counters()["shadow"]
