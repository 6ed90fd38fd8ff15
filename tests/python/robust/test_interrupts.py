"""Exceptions that come from nowhere at any point of a capture or a compiled call: what follows is as if nothing was."""

import logging
import random
import signal
import time

import pytest
import torch

import stator
from tests.python.helpers import assert_same, run_program


class Alarm(Exception):
    pass


def body(x, k, log):
    """Breaks, effects, an open context, an inlined call, a handler of its own."""

    def scaled(y, by):
        with torch.no_grad():
            return y * by

    out = []
    for i in range(3):
        try:
            with torch.autocast("cpu", enabled=False):
                y = scaled(x, k + i)
                log.append(i)
                if y.sum() > 4:
                    y = y - 1
                out.append(y.view(2, 3) if i else y.view(3, 2))
        except RuntimeError:
            out.append(x)
    return torch.stack([o.reshape(-1) for o in out])


def state():
    return (
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        torch.get_rng_state().sum().item(),
        stator.is_compiling(),
        torch._C._len_torch_function_stack(),
    )


@pytest.fixture
def alarms():
    """`alarms(seconds)` raises Alarm after that time of this process; 0 takes it back."""

    def ring(signum, frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def duration(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "later calls"])
def test_alarms_at_random_moments(alarms, warm):
    choose = random.Random(1 if warm else 0)
    x = torch.arange(6.0)
    compiled = stator.compile(body)
    long = duration(lambda: compiled(x, 1, []))
    if warm:
        long = min(duration(lambda: compiled(x, 1, [])) for _ in range(20))
    before, rung = state(), 0
    for k in range(400):
        if not warm:
            stator.reset()
        log, plain = [], []
        try:
            alarms(max(1e-6, choose.uniform(0, 1.2 * long)))
            try:
                compiled(x, k % 3, log)
            finally:
                alarms(0)
        except Alarm:
            rung += 1
            # Effects are those of a beginning of the program.
            assert log == [0, 1, 2][: len(log)]
        assert state() == before
        if k % 5 == 0:
            del log[:]
            assert_same(compiled(x, k % 3, log), body(x, k % 3, plain))
            assert log == plain
    assert rung > 20


def test_an_alarm_that_the_program_itself_handles(alarms):
    x = torch.arange(4.0)

    def fn(x, seconds):
        try:
            alarms(seconds)
            total = x
            while True:
                total = total * 0.5 + x
                if total.sum() < 0:
                    break
        except Alarm:
            return x + 1
        return x

    compiled = stator.compile(fn)
    for _ in range(20):
        assert_same(compiled(x, 0.005), x + 1)


def test_a_backend_that_is_interrupted():
    x = torch.arange(4.0)
    calls = []

    def backend(gm, example_inputs):
        calls.append(gm)
        if len(calls) % 2:
            raise KeyboardInterrupt
        return gm.forward

    def fn(x):
        y = x.sin()
        stator.graph_break()
        return y + 1

    compiled = stator.compile(fn, backend=backend)
    before = state()
    for _ in range(6):
        try:
            assert_same(compiled(x), fn(x))
            break
        except KeyboardInterrupt:
            assert state() == before
    assert_same(compiled(x), fn(x))
    assert len(calls) == 4


def test_out_of_memory_inside_a_graph():
    def fn(x, n, log):
        y = x + 1
        log.append(1)
        z = torch.empty(n).fill_(1)
        log.append(2)
        return y.sum() + z[:2].sum()

    compiled = stator.compile(fn)
    x = torch.ones(3)
    for n in (4, 1 << 60, 4, 1 << 60):
        results = []
        for side in (compiled, fn):
            log = []
            try:
                results.append((side(x, n, log), log))
            except RuntimeError as error:
                results.append((type(error), log))
        assert_same(results[0], results[1])


class Heads(torch.nn.Module):
    """Much of it is Python code of torch's that a capture calls."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(4, 2)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        y, _ = self.attention(x, x, x)
        z = torch.einsum("ij,kj->ik", self.norm(y), y)
        stator.graph_break()
        total = torch.func.vmap(lambda row: row.sum() * 2)(z)
        return total, torch.cdist(z, z), torch.norm(z)


def test_no_alarm_is_lost(alarms):
    """Whatever runs when a signal comes: its handler's exception reaches the program."""
    choose, rung, raised = random.Random(3), 0, 0
    model, x = Heads(), torch.randn(4, 4)

    def ring(signum, frame):
        nonlocal rung
        rung += 1
        raise Alarm

    def capture():
        stator.reset()
        compiled = stator.compile(model.forward)
        return lambda: compiled(x)

    long = min(duration(capture()) for _ in range(5))
    signal.signal(signal.SIGALRM, ring)
    for _ in range(300):
        call = capture()
        try:
            alarms(max(1e-6, choose.uniform(0, long)))
            try:
                call()
            finally:
                alarms(0)
        except Alarm:
            raised += 1
    assert raised == rung
    assert rung > 20


def test_a_signal_while_a_break_is_told(alarms):
    class Rings(logging.Handler):
        def emit(self, record):
            signal.raise_signal(signal.SIGALRM)

    def fn(x):
        x = x + 1
        stator.graph_break()
        return x * 2

    logger, handler = logging.getLogger("stator.breaks"), Rings()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with pytest.raises(Alarm):
            stator.compile(fn)(torch.ones(2))
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)
    assert_same(stator.compile(fn)(torch.ones(2)), torch.full((2,), 4.0))


def test_tracing_that_begins_inside():
    """A frame that is traced goes on after captures before it."""
    seen = run_program(
        """
        import faulthandler, sys, torch, stator

        faulthandler.dump_traceback_later(60, exit=True)

        def traced(a):
            lines.append("called")
            return a + 1

        def fn(a):
            sys.settrace(lambda frame, event, arg: None)
            try:
                return traced(a)
            finally:
                sys.settrace(None)

        lines = []
        compiled = stator.compile(fn)
        print(compiled(torch.ones(1)).item(), compiled(torch.ones(1)).item(), lines)
        """
    )
    assert seen == "2.0 2.0 ['called', 'called']"
