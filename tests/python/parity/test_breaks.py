"""Graph breaks: the code before and after them is captured, and behaviour does not change."""

from __future__ import annotations

import sys
import time
import traceback
import warnings
import weakref

import pytest
import torch

import stator
from tests.python.helpers import check_parity, collect

x = torch.arange(6.0).reshape(2, 3)
programs = {}


def program(graphs):
    """`graphs`: the number of graphs that the calls make."""

    def add(fn):
        programs[fn.__name__] = (fn, graphs)
        return fn

    return add


@program(2)
def between(a):
    b = a + 1
    print("between")
    return b * 2


@program(2)
def both_arms(a):
    if a.sum() > 0:
        return a + 1
    return a - 1


def called(a, k):
    b = a * k
    print("called", k)
    return b + 1


@program(4)
def inside_a_call(a):
    return called(called(a, 2), 3) * 2


@program(3)
def inside_a_loop(a):
    for _ in range(5):
        a = a * 2
        print("loop")
        a = a + 1
    return a


@program(2)
def inside_a_with(a):
    with torch.no_grad():
        b = a * 2
        print(torch.is_grad_enabled())
        b = b + 1
    return b * 2, torch.is_grad_enabled()


@program(1)
def inside_a_try(a):
    try:
        b = a + 1
        int("no number")
    except ValueError as error:
        return b * 2, str(error)
    finally:
        print("finally")


@program(2)
def after_a_finally(a):
    try:
        a = a + 1
        print("try")
    finally:
        a = a * 2
    return a


class Pair:
    def __init__(self, a):
        self.a = a + 1
        print("init")
        self.b = self.a * 2


@program(2)
def inside_an_init(a):
    pair = Pair(a)
    return pair.a + pair.b


@program(2)
def to_list(a):
    b = a * 2
    n = b.flatten().tolist()[0]
    return b + n


@program(2)
def of_effects(a):
    log = []
    log.append(a + 1)
    print(len(log))
    log.append(log[0] * 2)
    return log


@pytest.mark.parametrize("name", programs)
def test_captured_around(name, capsys):
    fn, graphs = programs[name]
    calls = [(x,), (x,), (-x,)] if name == "both_arms" else [(x,), (x + 1,), (x,)]
    if name == "to_list":
        calls = [(x,), (x,), (x,)]
    expected = []
    for call in calls:
        fn(*call)
        expected.append(capsys.readouterr().out)
    stator.reset()
    compiled = stator.compile(fn)
    printed = []
    for call in calls:
        compiled(*call)
        printed.append(capsys.readouterr().out)
    assert printed == expected
    counters = stator.counters()
    assert counters["captures"]["graphs"] >= graphs, counters
    assert counters["breaks"]
    check_parity(fn, *calls, graphs=counters["captures"]["graphs"])


def test_a_loop_of_a_thousand_breaks_is_captured_once():
    seen = []

    def loop(a, sink=seen):
        for _ in range(1000):
            a = a + 1
            time.time()
        return a

    stator.reset()
    assert torch.equal(stator.compile(loop)(x), x + 1000)
    counters = stator.counters()
    assert counters["captures"]["total"] < 10
    assert counters["cache"]["hits"] > 900
    assert not counters["recompiles"].get("limit_hit")


def test_frames_that_a_break_calls_are_captured():
    def work(a):
        return a.sin() + 1

    def caller(a):
        return max([a], key=lambda t: float(work(t).sum()))

    stator.reset()
    assert torch.equal(stator.compile(caller)(x), x)
    assert stator.counters()["captures"]["ops"] >= 2


def lines(error):
    return [(f.name, f.lineno, f.colno) for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__][
        1:
    ]


def failing(a, index):
    b = a * 2
    print("before")
    c = b[index]
    return c + 1


def outer(a, index):
    return failing(a, index) * 2


def test_errors_have_the_lines_of_the_plain_program():
    index = torch.tensor([7])
    with pytest.raises(IndexError) as plain:
        outer(x, index)
    compiled = stator.compile(outer)
    compiled(x, torch.tensor([1]))
    with pytest.raises(IndexError) as caught:
        compiled(x, index)
    assert str(caught.value) == str(plain.value)
    assert lines(caught.value) == lines(plain.value)


def test_an_operator_that_fails_in_a_graph_raises_at_its_line_and_into_the_handler():
    def fn(a, index, log):
        log.append("before")
        try:
            return a[index] * 2
        except IndexError as error:
            log.append(error.__traceback__.tb_lineno - fn.__code__.co_firstlineno)
            return a

    compiled, log = stator.compile(fn), []
    assert torch.equal(compiled(x, torch.tensor([1]), log), x[1:] * 2)
    assert torch.equal(compiled(x, torch.tensor([9]), log), x)
    assert log == ["before", "before", 3]


@pytest.mark.parametrize("step_size", [1, 2], ids=["dense", "strided"])
def test_an_operator_that_fails_after_random_draws_and_small_writes(step_size):
    """What the graph wrote before is undone, and the program runs again up to the line that raises."""
    log = []

    def step(a, index, total):
        log.append("before")
        total.add_(1)
        noise = torch.rand(3)
        try:
            chosen = a[index]
        except IndexError:
            log.append("caught")
            return noise, total * 2
        return noise + chosen.sum(), total * 3

    def run(function):
        log.clear()
        torch.manual_seed(3)
        total, results = torch.zeros(8)[::step_size], []
        for index in (torch.tensor([1]), torch.tensor([7]), torch.tensor([0])):
            results += function(x, index, total)
        return [*results, total, torch.rand(2)], list(log)

    want, want_log = run(step)
    got, got_log = run(stator.compile(step, fullgraph=True))
    assert got_log == want_log
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert stator.counters()["plans"]["failed"] == 1


def test_frames_and_locals_are_seen():
    def fn(a, k):
        b = a + k
        frame = sys._getframe()
        return b, frame.f_code.co_name, sorted(frame.f_locals), frame.f_back.f_code.co_name

    compiled = stator.compile(fn)
    for _ in range(3):
        assert compiled(x, 2)[1:] == ("fn", ["a", "b", "frame", "k"], "test_frames_and_locals_are_seen")


def test_no_value_outlives_the_call():
    refs = []

    def fn(a, watch):
        b = a * 2
        watch(b)
        return a + 1

    compiled = stator.compile(fn)
    for _ in range(3):
        refs.clear()
        compiled(x, lambda t: refs.append(weakref.ref(t)))
        collect()
        assert refs[0]() is None


def test_trace_functions_see_the_plain_program():
    events = []

    def fn(a):
        b = a + 1
        return b * 2

    def trace(frame, event, arg):
        if frame.f_code is fn.__code__:
            events.append(event)
        return trace

    compiled = stator.compile(fn)
    sys.settrace(trace)
    try:
        compiled(x)
    finally:
        sys.settrace(None)
    assert events[0] == "call" and events[-1] == "return" and "line" in events


def test_fullgraph_refuses_before_anything_happens():
    log = []

    def fn(a):
        log.append(1)
        print("never")
        return a

    with pytest.raises(stator.Unsupported):
        stator.compile(fn, fullgraph=True)(x)
    assert log == []


def test_values_that_keep_changing_do_not_fill_the_cache():
    class Meter:
        def __init__(self):
            self.steps, self.history = 0, []

        def step(self, a):
            self.steps += 1
            b = a * 2 + 1
            total = b.sum().tolist()
            self.history.append(total)
            return (b - total).relu() + self.steps

    plain, metered = Meter(), Meter()
    step = stator.compile(metered.step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(60):
            assert torch.equal(step(x + i), plain.step(x + i))
    assert (metered.steps, metered.history) == (plain.steps, plain.history)
    counters = stator.counters()
    assert not counters["recompiles"].get("limit_hit")
    made = counters["captures"]["total"]
    for i in range(60, 80):
        assert torch.equal(step(x + i), plain.step(x + i))
    assert stator.counters()["captures"]["total"] == made, "nothing is captured any more"


def test_entries_of_values_that_come_back_stay_in_use():
    def scaled(a, n):
        return a * n + 1

    compiled = stator.compile(scaled, dynamic=False)
    with pytest.warns(RuntimeWarning, match="the lines that look at n run as plain Python"):
        for n in range(20):
            assert torch.equal(compiled(x, n), scaled(x, n))
    before = stator.counters()["captures"]["ops"]
    for n in (3, 500, 4, 501):
        assert torch.equal(compiled(x, n), scaled(x, n))
    assert stator.counters()["captures"]["ops"] == before
    assert stator.explain(scaled)(x, 3)  # still captured in one graph, for a new value


def test_a_full_cache_makes_room_after_a_while():
    """Sizes that the user wants to be static: at the limit, misses run plain, until an entry is evicted."""

    def doubled(a):
        return a * 2

    compiled = stator.compile(doubled, dynamic=False)
    with pytest.warns(RuntimeWarning, match="recompile_limit"):
        for n in range(1, 30):
            compiled(torch.ones(n))
    new, hits = torch.ones(64), stator.counters()["cache"]["hits"]
    for _ in range(40):
        assert torch.equal(compiled(new), new * 2)
    assert stator.counters()["cache"]["hits"] > hits


def test_a_dropped_tensor_dies_where_the_program_drops_it():
    seen = []

    def fn(a):
        b = a + 1
        reference = weakref.ref(b)
        print(end="")
        b = b * 2
        seen.append((reference() is None, a._use_count()))
        return b

    compiled = stator.compile(fn)
    for _ in range(3):
        fn(x), compiled(x)
    assert seen == [(True, 1)] * 6


def test_where_a_tensor_lies_in_its_storage():
    check_parity(lambda a: (a + a.storage_offset(), a._is_view()), (x[0],), (x[1],), (x[0].clone(),), graphs=None)
