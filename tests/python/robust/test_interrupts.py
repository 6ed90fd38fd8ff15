"""Asynchronous exceptions at any point of a capture or a compiled call: later calls behave as if there was none."""

import contextlib
import logging
import random
import signal
import time
import traceback

import pytest
import torch

import stator
from tests.python.helpers import assert_same, run_program


class Alarm(Exception):
    pass


def body(x, k, log):
    """A program with breaks, side effects, an open context, an inlined call and an exception handler."""

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
    """`alarms(seconds)` raises Alarm after that CPU time of this process; 0 cancels it."""

    def ring(signum, frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def entering_or_leaving(error):
    """Whether the exception was raised where `with` calls `__enter__` or `__exit__`. A frame that runs for real may be
    interrupted there as in plain Python, and the context then stays as the interrupted call left it."""
    return any(frame.line.startswith("with torch.") for frame in traceback.extract_tb(error.__traceback__))


class Moments:
    """Random moments within a call. Its length is the shortest that was seen: on a busy machine others are longer."""

    def __init__(self, seed):
        self.choose, self.shortest = random.Random(seed), float("inf")

    def pick(self):
        return max(1e-6, self.choose.uniform(0, self.shortest))

    @contextlib.contextmanager
    def timed(self):
        """A call that is made in the block, unless it raises."""
        start = time.perf_counter()
        yield
        self.shortest = min(self.shortest, time.perf_counter() - start)


def close_autocast_blocks():
    """Blocks that were entered in part, or left in part, count as open."""
    open_blocks = torch.autocast_increment_nesting()
    for _ in range(open_blocks):
        torch.autocast_decrement_nesting()


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "later calls"])
def test_alarms_at_random_moments(alarms, warm):
    x = torch.arange(6.0)
    compiled = stator.compile(body)
    if warm:
        compiled(x, 1, [])
    moments = Moments(seed=1 if warm else 0)
    with moments.timed():
        compiled(x, 1, [])
    before, rung, k = state(), 0, 0
    while k < 400 or rung <= 20:
        k += 1
        if not warm:
            stator.reset()
        log, plain = [], []
        try:
            with moments.timed():
                alarms(moments.pick())
                try:
                    compiled(x, k % 3, log)
                finally:
                    alarms(0)
        except Alarm as error:
            rung += 1
            if entering_or_leaving(error):
                torch.set_grad_enabled(before[0])
                torch.set_autocast_enabled("cpu", before[1])
                close_autocast_blocks()
            # The side effects are those of a prefix of the program.
            assert log == [0, 1, 2][: len(log)]
        assert state() == before
        if k % 5 == 0:
            del log[:]
            assert_same(compiled(x, k % 3, log), body(x, k % 3, plain))
            assert log == plain


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
    """A capture in which Python code of torch runs."""

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
    """The exception of a signal handler reaches the program, whatever code the signal interrupts."""
    moments, rung, raised = Moments(seed=3), 0, 0
    model, x = Heads(), torch.randn(4, 4)

    def ring(signum, frame):
        nonlocal rung
        rung += 1
        raise Alarm

    def capture():
        stator.reset()
        compiled = stator.compile(model.forward)
        return lambda: compiled(x)

    for call in (capture(), capture()):
        with moments.timed():
            call()
    signal.signal(signal.SIGALRM, ring)
    rounds = 0
    while rounds < 300 or rung <= 20:
        rounds += 1
        call = capture()
        try:
            with moments.timed():
                alarms(moments.pick())
                try:
                    call()
                finally:
                    alarms(0)
        except Alarm:
            raised += 1
    assert raised == rung


def test_a_signal_while_a_break_is_logged(alarms):
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
    """A traced frame continues after earlier captures."""
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
