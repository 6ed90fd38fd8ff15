"""Debuggers, tracers, coverage, monitoring tools, anomaly detection and profiler ranges see the program's own lines."""

import bdb
import contextlib
import sys

import pytest
import torch

import stator
from tests.python.helpers import captures


def inner(a):
    b = a * 2
    return b


def program(a):
    c = inner(a + 1)
    c = c - 1
    return c


class Net(torch.nn.Module):
    def forward(self, a):
        return program(a)


x = torch.ones(3)
LINES = [(inner, 1), (inner, 2), (program, 1), (program, 2), (program, 3)]
EXPECTED = {fn.__code__.co_firstlineno + offset for fn, offset in LINES}


def warm(target):
    compiled = stator.compile(target)
    for _ in range(3):
        assert torch.equal(compiled(x), program(x))
    return compiled


@contextlib.contextmanager
def settrace(seen):
    def trace(frame, event, arg):
        if event == "line" and frame.f_code.co_filename == __file__:
            seen.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("target", [program, Net()], ids=["function", "module"])
def test_a_trace_function_sees_every_line(target):
    compiled, seen = warm(target), set()
    hits = stator.counters["cache"]["hits"]
    with settrace(seen):
        result = compiled(x)
    assert torch.equal(result, program(x)) and EXPECTED <= seen
    assert stator.counters["cache"]["hits"] == hits
    assert torch.equal(compiled(x), program(x)) and stator.counters["cache"]["hits"] == hits + 1


class Stops(bdb.Bdb):
    """A debugger that notes where it stops, and goes on."""

    def __init__(self):
        super().__init__()
        self.at = []

    def user_line(self, frame):
        if frame.f_code.co_filename == __file__:
            self.at.append((frame.f_code.co_name, frame.f_lineno))
        self.set_continue()


def test_a_breakpoint_that_is_set_later():
    compiled, debugger = warm(program), Stops()
    line = inner.__code__.co_firstlineno + 2
    assert debugger.set_break(__file__, line) is None
    debugger.runcall(compiled, x)
    assert ("inner", line) in debugger.at


def test_a_debugger_that_the_program_starts():
    debugger = Stops()
    seen = []

    def stops(a):
        a = a + 1
        debugger.set_trace()
        a = a * 2
        seen.append(a.sum().item())
        return a

    compiled = stator.compile(stops)
    for _ in range(3):
        debugger.at.clear()
        assert torch.equal(compiled(x), (x + 1) * 2)
        sys.settrace(None)
        assert debugger.at and debugger.at[0][0] == "stops"
    assert seen == [12.0, 12.0, 12.0]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is there from CPython 3.12 on")
@pytest.mark.parametrize("local", [False, True])
def test_a_monitoring_tool_sees_every_line(local):
    monitoring = sys.monitoring
    compiled, seen = warm(program), set()
    tool = monitoring.COVERAGE_ID
    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, monitoring.events.LINE, lambda code, line: seen.add(line))
        if local:
            for fn in (program, inner):
                monitoring.set_local_events(tool, fn.__code__, monitoring.events.LINE)
        else:
            monitoring.set_events(tool, monitoring.events.LINE)
        compiled(x)
    finally:
        if local:
            for fn in (program, inner):
                monitoring.set_local_events(tool, fn.__code__, 0)
        else:
            monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.LINE, None)
        monitoring.free_tool_id(tool)
    assert EXPECTED <= seen
    hits = stator.counters["cache"]["hits"]
    compiled(x)
    assert stator.counters["cache"]["hits"] == hits + 1


def test_anomaly_detection_names_the_users_line():
    def unstable(a):
        b = a * 2
        c = torch.sqrt(b - b)
        return c.sum()

    compiled = stator.compile(unstable)
    compiled(torch.ones(2, requires_grad=True))
    with torch.autograd.detect_anomaly(), pytest.warns(UserWarning) as told:
        loss = compiled(torch.ones(2, requires_grad=True))
        with pytest.raises(RuntimeError, match="nan values"):
            loss.backward()
    assert any("in unstable" in text and "b = a * 2" in text for text in (str(warning.message) for warning in told))
    assert captures() == 1


def ranges_of(run):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    return [(event.name, event.time_range.start, event.time_range.end) for event in profile.events()]


def test_ranges_inside_a_graph_are_visible():
    def ranged(a):
        a = a + 1
        with torch.profiler.record_function("outer"):
            a = a.sin()
            with torch.profiler.record_function("inner"):
                a = a.cos()
            a = a.exp()
        with torch.profiler.record_function("second"):
            a = a.tanh()
        return a

    compiled = stator.compile(ranged, fullgraph=True)
    expected = compiled(x)
    events = ranges_of(lambda: torch.testing.assert_close(compiled(x), expected))
    places = {name: (start, end) for name, start, end in events if name in ("outer", "inner", "second")}
    assert set(places) == {"outer", "inner", "second"} and captures() == 1

    def inside(name):
        start, end = places[name]
        return [n.removeprefix("aten::") for n, s, e in events if n.startswith("aten::") and start <= s and e <= end]

    assert inside("outer") == ["sin", "cos", "exp"] and inside("inner") == ["cos"] and inside("second") == ["tanh"]
    assert not [name for name, *_ in ranges_of(lambda: x + 1) if name in places]


def test_a_range_ends_where_an_operator_fails():
    def failing(a):
        with torch.profiler.record_function("fails"):
            a = torch.linalg.cholesky(a)
        return a

    compiled = stator.compile(failing)
    compiled(torch.eye(2))

    def run():
        with pytest.raises(RuntimeError):
            compiled(-torch.eye(2))
        x.sin()

    events = ranges_of(run)
    ends = [end for name, _, end in events if name == "fails"]
    (after,) = [start for name, start, _ in events if name == "aten::sin"]
    assert ends and max(ends) <= after
