"""Many threads that compile and call many functions at once, and processes that fork after a compile."""

import gc
import os
import random
import signal
import sys
import threading
import time

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures, collect, run_program

THREADS, FUNCTIONS, CALLS = 8, 200, 500


def make_functions():
    """200 functions in ten forms: straight, branches on arguments, loops, breaks, containers, closures, errors."""
    forms = [
        "return x * {n} + k",
        "return x + {n} if k > 1 else x.sin() - {n}",
        "for i in range(k + 2):\n        x = x * 0.5 + i + {n}\n    return x",
        "y = x + {n}\n    if y.sum() > {n}:\n        y = y - k\n    return y * 2",
        "rows = [x + i for i in range({n} % 4 + 1)]\n    return {{'all': torch.stack(rows), 'k': (k, rows[0])}}",
        "def inner(y):\n        return y + x * {n}\n    return inner(x) + inner(x + k)",
        "try:\n        return x.view(7, {n}) + k\n    except RuntimeError as e:\n        return x - {n}, str(e)",
        "count = len(SEEN)\n    note({n})\n    return x + k, len(SEEN) >= count",
        "total = 0\n    for row in x:\n        total = total + row.sum().item() * k\n    return x * {n}, total",
        "with torch.no_grad():\n        y = x * k\n    return y + {n}, torch.is_grad_enabled()",
    ]
    seen = []
    space = {"torch": torch, "SEEN": seen, "note": stator.disable(seen.append)}
    made = []
    for n in range(FUNCTIONS):
        exec(f"def f{n}(x, k):\n    {forms[n % len(forms)].format(n=n)}", space)
        made.append(space[f"f{n}"])
    return made


def run_threads(work):
    """Runs `work(number)` in eight threads that switch as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


@torch.library.custom_op("stator_test_threads::told", mutates_args=())
def told(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_another_thread_collects_while_a_capture_begins():
    """A capture lets no collection start. The flag for this is CPython's own, which the other thread resets."""
    collecting, may_end = threading.Event(), threading.Event()

    class Slow:
        def __init__(self):
            self.itself = self

        def __del__(self):
            collecting.set()
            may_end.wait(60)

    def collect_slowly():
        Slow()
        gc.collect()

    thread = threading.Thread(target=collect_slowly)

    @told.register_fake
    def end_the_collection(x):
        may_end.set()
        thread.join()
        return torch.empty_like(x)

    thread.start()
    assert collecting.wait(60)
    x = torch.ones(3)
    assert_same(stator.compile(lambda t: told(t) * 2, fullgraph=True)(x), x * 2 + 2)
    assert not thread.is_alive(), "the capture did not ask for the shape"
    collect()


def test_a_reset_while_a_capture_runs():
    """It leaves the capture what it learnt of earlier ones."""

    def program(x, n, table):
        return told(x) * table[n] * n

    x, table = torch.ones(3), list(range(40))
    resets = [False]
    told.register_fake(lambda x: (resets[0] and stator.reset(), torch.empty_like(x))[1])
    compiled = stator.compile(program)
    for _ in range(10):
        resets[0] = False
        for n in range(2, 6):
            assert_same(compiled(x, n, table), program(x, n, table))
        resets[0] = True
        for n in range(6, 12):
            assert_same(compiled(x, n, table), program(x, n, table))


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
def test_threads_compile_and_call_at_once():
    functions = make_functions()
    inputs = [torch.arange(6.0).reshape(2, 3) + i for i in range(2)] + [torch.ones(4, 3), torch.ones(2, 3).double()]
    expected = {(n, i, k): f(x, k) for n, f in enumerate(functions) for i, x in enumerate(inputs) for k in (1, 2)}
    compiled = [stator.compile(f) for f in functions]
    problems = []
    together = threading.Barrier(THREADS)

    def work(seed):
        choose = random.Random(seed)
        together.wait()
        try:
            for step in range(CALLS):
                # The low numbers first, so that threads meet in the same capture.
                n = choose.randrange(min(FUNCTIONS, 2 * step + 4))
                i, k = choose.randrange(len(inputs)), choose.choice((1, 2))
                target = compiled[n] if choose.random() < 0.8 else stator.compile(functions[n])
                assert_same(target(inputs[i], k), expected[n, i, k], f"function {n}")
                if choose.random() < 0.005:
                    stator.reset()
        except BaseException as error:
            problems.append(error)

    run_threads(work)
    if problems:
        raise problems[0]
    assert captures() > 0 and torch.is_grad_enabled()


def test_threads_train_one_compiled_module_each():
    def build():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.0), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    def train(model, runner):
        for step in range(10):
            loss = (runner(torch.full((3, 4), float(step))) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad
                    parameter.grad = None
        return [p.detach() for p in model.parameters()]

    plain = build()
    expected = train(plain, plain)
    results = [None] * THREADS

    def work(number):
        model = models[number]
        results[number] = train(model, stator.compile(model))

    # The random seed is shared by all threads, so the models are made first.
    models = [build() for _ in range(THREADS)]
    run_threads(work)
    for result in results:
        assert_same(result, expected)


PATIENCE = 300  # seconds until a child that does not end is taken to hang


def forked(child):
    """The exit status of a forked child that runs `child()`."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            child()
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


def test_fork_after_compile():
    torch.set_num_threads(1)
    x = torch.arange(6.0)

    def fn(x, k):
        y = x * k
        if y.sum() > 20:
            y = y - 1
        return y

    compiled = stator.compile(fn)
    compiled(x, 1)

    def child():
        assert_same(compiled(x, 1), fn(x, 1))
        before = captures()
        assert_same(compiled(x, 2), fn(x, 2))
        assert captures() > before
        stator.reset()
        assert_same(compiled(x, 3), fn(x, 3))

    assert forked(child) == 0
    assert_same(compiled(x, 3), fn(x, 3))


def test_fork_inside_a_compiled_call_and_while_others_capture():
    program = """
        import os, threading, torch, stator
        torch.set_num_threads(1)
        stop = False
        def busy(n):
            k = 0
            while not stop:
                space = {}
                exec(f"def f(x): return x * {n} + {k}", space)
                stator.compile(space["f"])(torch.ones(3))
                k += 1
        threads = [threading.Thread(target=busy, args=(n,), daemon=True) for n in range(3)]
        for thread in threads: thread.start()
        def fn(x):
            y = x + 1
            pid = os.fork()
            return y * 2, pid
        compiled = stator.compile(fn)
        for _ in range(50):
            result, pid = compiled(torch.ones(3))
            assert result.tolist() == [4.0] * 3
            if pid == 0:
                again = stator.compile(lambda x: x.sin() + 1)(torch.zeros(2))
                os._exit(0 if again.tolist() == [1.0, 1.0] else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        stop = True
        for thread in threads: thread.join()
        print("done")
    """
    assert run_program(program) == "done"


def test_a_backend_that_forks():
    statuses = []

    def backend(gm, example_inputs):
        def child():
            assert_same(stator.compile(lambda x: x * 3)(torch.ones(2)), torch.ones(2) * 3)

        statuses.append(forked(child))
        return gm.forward

    assert_same(stator.compile(lambda x: x + 1, backend=backend)(torch.ones(2)), torch.ones(2) + 1)
    assert statuses == [0]
