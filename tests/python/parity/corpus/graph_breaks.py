"""Graph breaks inside every kind of construct."""

import contextlib
import gc
import io
import json
import logging
import os
import random
import sys
import threading
import time
import warnings
import weakref

import torch

from tests.python.parity.corpus.registry import f, factory, program

log = []
logger = logging.getLogger("corpus")
logger.addHandler(logging.NullHandler())
logger.propagate = False


def noisy(x, n=1):
    y = x + n
    print("noisy", n)
    return y * 2


def noisy_twice(x):
    return noisy(noisy(x) + 1, 2) - 1


class Manager:
    def __enter__(self):
        print("enter")
        return 3

    def __exit__(self, *exc):
        print("exit", exc[0])
        return False


@program(f(2), f(2), f(3))
def straight_line(x):
    y = x + 1
    print("one")
    z = y * 2
    print("two")
    return z - 3


@program((f(2), 3), (f(2), 2))
def in_for_loop(x, n):
    for k in range(n):
        x = x + k
        print("step", k)
        x = x * 2
    return x


@program((f(2), 3), (f(2), 2))
def in_while_loop(x, n):
    while n > 0:
        x = x * n
        print(n)
        n -= 1
    else:
        x = x + 1
    return x


@program((f(2), 4), (f(2), 3))
def in_loop_with_break_and_continue(x, n):
    for k in range(10):
        if k == 1:
            print("skip")
            continue
        x = x + k
        if k == n:
            print("stop")
            break
    else:
        print("never")
    return x


@program(f(2), f(2))
def in_with(x):
    with Manager() as k:
        x = x * k
        print("inside")
        x = x + 1
    return x * 2


@program(f(2, grad=True), f(2))
def in_no_grad(x):
    with torch.no_grad():
        y = x * 2
        print("inside")
        z = y + 1
    return z, x * 3, torch.is_grad_enabled()


@program((f(2), 1), (f(2), 0))
def in_try(x, n):
    try:
        y = x + 1
        print("try")
        return y / (1 // n)
    except ZeroDivisionError:
        print("except")
        x = x * 2
    finally:
        print("finally")
        log.append(n)
    return x


@program((f(2), "1"), (f(2), "x"))
def break_raises_in_try(x, text):
    y = x * 2
    try:
        n = json.loads(text)
    except ValueError as error:
        return y, type(error).__name__
    return y * n


@program((f(2), 3), (f(2), 2))
def in_comprehension(x, n):
    def show(k):
        print(k)
        return x * k

    return [show(k) + 1 for k in range(n)], {k: show(k) for k in range(2)}


@program((f(2), 3), (f(2), 2))
def in_generator(x, n):
    def steps():
        for k in range(n):
            print("yield", k)
            yield x * k

    total = x
    for t in steps():
        total = total + t
    return total


@program((f(2), 3), (f(2), 2))
def in_generator_expression(x, n):
    return sum(noisy(x, k) for k in range(n))


@program(f(2), f(2))
def in_inlined_call(x):
    y = noisy(x)
    return y + noisy(y, n=3)


@program(f(2), f(2))
def in_nested_inlined_calls(x):
    y = noisy_twice(x * 2)
    return noisy_twice(y) + 1


@program((f(2), [3, 1, 2]), (f(2), [5, 4]))
def in_sort_key(x, ns):
    def key(n):
        print("key", n)
        return -n

    return x * sorted(ns, key=key)[0]


@program(f(2), f(3))
def in_constructor_property_and_operator(x):
    class Thing:
        def __init__(self, n):
            print("init")
            self.n = n

        @property
        def double(self):
            print("property")
            return self.n * 2

        def __add__(self, other):
            print("add")
            return Thing(self.n + other)

        def __bool__(self):
            print("bool")
            return True

    thing = Thing(2) + 3
    return x * thing.double if thing else x


@program((f(2), 2), (f(2), 3))
def in_recursion(x, n):
    def go(t, k):
        if k == 0:
            return t
        print("depth", k)
        return go(t + k, k - 1) * 2

    return go(x, n)


@program((f(2), 2), (f(2), 3))
def in_lambda_and_map(x, n):
    return list(map(lambda k: noisy(x, k), range(n)))


@factory(f(2), f(2))
def in_decorated_function():
    def traced(fn):
        def wrapper(*args):
            print("before")
            result = fn(*args)
            print("after")
            return result

        return wrapper

    @traced
    def compute(x):
        return x * 2 + 1

    def fn(x):
        return compute(x + 1) - 1

    return fn


@program(f(2), f(2))
def time_calls(x):
    began = time.time()
    y = x * 2
    time.sleep(0)
    elapsed = time.perf_counter() - time.perf_counter()
    return y + 1, began > 0, elapsed <= 0


@program((f(2), "a"), (f(2), "b"))
def logging_calls(x, name):
    y = x + 1
    logger.warning("value %s", name)
    logging.getLogger("corpus").info("more")
    return y * 2


@program(f(2), f(2))
def warnings_calls(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("careful", UserWarning, stacklevel=2)
        y = x * 2
    return y, [str(w.message) for w in caught]


@program((f(2), "CORPUS_MISSING"), (f(2), "PATH"))
def environment(x, name):
    return x * 2 if os.environ.get(name) is None else x * 3, os.getenv("CORPUS_MISSING", "none")


@program(f(2), f(3))
def file_like_objects(x):
    buffer = io.StringIO()
    buffer.write("text")
    y = x * len(buffer.getvalue())
    print("to buffer", file=buffer)
    return y, buffer.getvalue()


@program(f(2), f(2))
def interpreter_internals(x):
    y = x + 1
    name = sys._getframe().f_code.co_name
    gc.collect(0)
    return y * 2, name, sys.getrecursionlimit() > 0


@program(f(2), f(2))
def random_module(x):
    k = random.random()
    n = random.randint(1, 5)
    return x * k, n, random.choice([1, 2, 3])


@program(f(2), f(2))
def threads_and_weakrefs(x):
    lock = threading.Lock()
    with lock:
        y = x * 2
    ref = weakref.ref(y)
    return y + 1, ref() is y


@program(f(2), f(2))
def explicit_graph_break(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


@torch.compiler.disable
def disabled(x):
    log.append("disabled")
    return x * 5


@program(f(2), f(2))
def disabled_function(x):
    return disabled(x + 1) - 1


@program((f(2), 0), (f(2), 1))
def exception_after_break(x, n):
    y = x * 2
    print("before")
    if n:
        raise ValueError("after the break")
    return y


@program(f(2), f(3))
def state_changes_around_breaks(x):
    log.append("a")
    y = x * len(log)
    print(len(log))
    log.append("b")
    z = y + len(log)
    print(log)
    log.clear()
    return z


@program(f(2), f(2))
def nested_managers_and_suppress(x):
    with contextlib.suppress(KeyError):
        with Manager():
            x = x + 1
            print("deep")
            x = x * {}["missing"]
    return x


@program((f(2), [1, 2, 3]), (f(2), [4]))
def iterators_across_breaks(x, ns):
    it = iter(ns)
    first = next(it)
    print("first", first)
    rest = list(it)
    for k, n in enumerate(zip(rest, ns)):
        print(k, n)
        x = x + k
    return x * first, rest


@program((f(2), 1), (f(2), 2))
def closures_across_breaks(x, n):
    total = 0

    def add(k):
        nonlocal total
        total += k
        return x * total

    a = add(n)
    print(total)
    c = add(n)
    return a + c, total


@program(f(2), f(2))
def list_built_across_breaks(x):
    out = []
    alias = out
    out.append(x + 1)
    print(len(out))
    alias.append(x + 2)
    print(len(alias))
    return out, out is alias


@program((f(2), {"a": 1}), (f(2), {"a": 2}))
def input_changed_across_breaks(x, d):
    d["b"] = x * 2
    print(sorted(d))
    d["c"] = d["b"] + 1
    del d["a"]
    return d["c"]


@program(f(2), f(2))
def in_place_across_breaks(x):
    y = x[0:1]
    x.add_(1)
    print("between")
    y.mul_(2)
    return x + 1


class Watched(type):
    def __setattr__(cls, name, value):
        log.append(name)
        type.__setattr__(cls, name, value)


class Totals(metaclass=Watched):
    count = 0


@program((f(3), f(3)), (f(3, grad=True), f(3)), (f(3), f(3)))
def error_behind_a_break_in_no_grad(x, y):
    with torch.no_grad():
        view = y.view(-1)
        Totals.count += 1
    view[:] = x
    return view * 2


@program((f(3), f(3)), (f(3, grad=True), f(3)))
def error_at_its_own_line_behind_a_break(x, y):
    with torch.no_grad():
        view = y.view(-1)
        print("inside")
    try:
        view[:] = x
    except RuntimeError as error:
        return x * 2, error.__traceback__.tb_lineno - sys._getframe().f_lineno
    return view * 2


@program(f(3), f(4))
def operator_that_raises_when_it_runs(x):
    log.append("before")
    try:
        x.add_(x[0])
    except RuntimeError:
        log.append("caught")
        return x * 2


@program((f(2), [1, 2]), (f(2), [1, 3]))
def in_the_arguments_of_a_class_method(x, keys):
    y = x + 1
    return dict.fromkeys(print("once") or keys), int.from_bytes(bytes(print("twice") or keys), "big"), y


@program(f(3), f(3, grad=True))
def inference_mode_open_at_a_break(x):
    with torch.inference_mode():
        y = x * 2
        print("inside")
        z = y + 1
    w = x * 3
    return y, z, w, [t.is_inference() for t in (y, z, w)], w.requires_grad


@program(f(3, grad=True), f(3))
def inference_mode_left_by_an_error(x):
    try:
        with torch.inference_mode():
            y = x * 2
            print("inside")
            raise ValueError("left")
    except ValueError as error:
        return y, x * 3, str(error), torch.is_inference_mode_enabled(), y.is_inference()
