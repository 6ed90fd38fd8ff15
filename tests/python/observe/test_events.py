"""Events, callbacks and compile ids."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

import stator
from stator import callbacks, events, metrics
from stator.events import Level
from stator.fork_safe import ForkSafeLock
from tests.python.helpers import run_program


@pytest.fixture(autouse=True)
def fresh():
    events.reset()
    events.clear()
    metrics.clear()
    yield
    events.reset()
    callbacks.clear()


def in_backend(action):
    def backend(gm, inputs):
        action()
        return gm.forward

    stator.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
    return metrics.records()[-1]


def check_chrome_trace(trace):
    """Against the schema of Chrome's trace event format, which Perfetto reads: events with a duration, in pairs on a
    stack of each thread, and instant ones."""
    assert set(trace) >= {"traceEvents", "displayTimeUnit", "otherData"} and trace["displayTimeUnit"] in ("ms", "ns")
    own = [event for event in trace["traceEvents"] if event.get("cat") == "stator"]
    check_balanced(own)
    latest: dict = {}
    for event in own:
        assert set(event) == {"name", "ph", "ts", "cat", "pid", "tid", "args"} | (
            {"s"} if event["ph"] == "i" else set()
        )
        assert event["ph"] in ("B", "E", "i") and event.get("s", "p") in ("g", "p", "t")
        assert isinstance(event["name"], str) and isinstance(event["args"], dict)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= latest.get(event["tid"], event["ts"])
        latest[event["tid"]] = event["ts"]
    return own


def check_balanced(recorded):
    stacks: dict = {}
    for event in recorded:
        stack = stacks.setdefault(event["tid"], [])
        if event["ph"] == "B":
            stack.append(event["name"])
        elif event["ph"] == "E":
            assert stack.pop() == event["name"]
    assert not any(stacks.values())


class TestEvents:
    def test_of_a_compilation(self):
        with events.recording():
            stator.compile(lambda x: x + 1)(torch.ones(3))
        recorded = events.recorded()
        check_balanced(recorded)
        frame = recorded[0]
        assert frame["name"] == "frame" and frame["args"]["compile_id"] == "0/0"
        assert set(frame) == {"name", "ph", "ts", "cat", "pid", "tid", "args"}
        assert {"attempt", "build_guards", "backend"} <= {event["name"] for event in recorded}

    def test_data_belongs_to_the_span(self):
        with events.recording():
            with events.span("a", {"depth": 1}):
                with events.span("a", {"depth": 2}) as inner:
                    events.add_data("a", depth=3)
                assert inner.data == {"depth": 3}
        ends = [event["args"]["depth"] for event in events.recorded() if event["ph"] == "E"]
        assert ends == [3, 1]

    def test_end_repeats_the_data_of_the_start(self):
        with events.recording():
            span = events.begin("a", {"x": 1}, compile_id="7/1")
            events.add_data("a", y={"set"})
            events.end(span, {"z": 2})
        end = events.recorded()[-1]
        assert end["args"] == {"compile_id": "7/1", "x": 1, "y": ["set"], "z": 2}

    def test_stack_is_repaired(self, caplog):
        with events.recording(), caplog.at_level(logging.WARNING, "stator"):
            events.begin("a")
            events.begin("b")
            events.end("a")
            assert len(caplog.records) == 1 and events.stack() == []
            events.end("z")
            assert len(caplog.records) == 2 and "'z'" in caplog.text
        check_balanced(events.recorded())

    def test_leftovers_do_not_show_in_a_compilation(self):
        events.begin("stale")
        assert in_backend(lambda: seen.append(events.outermost())) and seen == ["frame"]
        with events.restored():
            events.begin("more")
        assert events.stack() == ["stale"]

    def test_instant(self):
        with events.recording():
            events.instant("x", {"a": 1}, time_ns=5000)
            with pytest.raises(RuntimeError, match="metrics"):
                events.instant("x", level=Level.METRICS)
        (event,) = events.recorded()
        assert event["ph"] == "i" and event["s"] == "p" and event["ts"] == 5.0 and event["args"]["a"] == 1

    def test_levels(self):
        with events.recording():
            with events.span("outer", sink=True), events.span("inner"):
                events.add_data("inner", a=1)
                events.add_data("outer", Level.COMPILE, b=2)
                with pytest.raises(RuntimeError, match="inner.*sink=True"):
                    events.add_data("inner", Level.COMPILE, a=1)
                with pytest.raises(RuntimeError, match="toplevel"):
                    events.add_data("inner", Level.METRICS, a=1)
                with pytest.raises(RuntimeError, match="No metrics context"):
                    events.add_data("outer", Level.METRICS, a=1)
                with pytest.raises(RuntimeError, match="'zz'.*outer.*inner"):
                    events.add_data("zz", a=1)
        (row,) = events.compile_events()
        assert row["name"] == "outer" and row["data"] == {"b": 2} and row["run_id"] == events.run_id()

    def test_toplevel_of_a_compilation(self):
        def action():
            events.increment_toplevel("k")
            events.increment_toplevel("k")
            events.add_to_set_toplevel("kinds", "v")
            events.add_to_set_toplevel("kinds", "v")
            events.compilation_metric(scale=8)

        with events.recording():
            record = in_backend(action)
        assert record["k"] == 2 and record["kinds"] == {"v"} and record["scale"] == 8
        end = next(event for event in events.recorded() if event["name"] == "frame" and event["ph"] == "E")
        assert end["args"]["k"] == 2 and end["args"]["kinds"] == ["v"] and end["args"]["scale"] == 8
        for write in (events.increment_toplevel, lambda name: events.add_toplevel(a=name)):
            with pytest.raises(RuntimeError, match="no event"):
                write("k")

    def test_numbers_and_sets_of_a_named_event(self):
        with events.span("a") as span:
            events.increment("a", "n", 2)
            events.increment("a", "n", 3)
            events.add_to_set("a", "s", "v")
            events.add_to_set("a", "s", "v")
            assert span.data == {"n": 5, "s": ["v"]}

    def test_quiet_forms(self):
        code = """
import stator
from stator import events
assert events.try_(events.add_data, "a", b=1) is None
events.try_add_compile_data("a", b=1)
assert not events.active()
"""
        subprocess.run([sys.executable, "-c", code], check=True, timeout=100)

    def test_run_id(self):
        assert events.run_id() == events.run_id()
        code = "from stator import events; print(events.run_id())"
        ids = [
            subprocess.run(
                [sys.executable, "-c", code],
                check=True,
                timeout=100,
                text=True,
                capture_output=True,
                env={"STATOR_RUN_PREFIX": "p", **__import__("os").environ},
            ).stdout
            for _ in range(2)
        ]
        assert ids[0] != ids[1] and all(text.startswith("p-") for text in ids)

    def test_export(self, tmp_path):
        with events.recording():
            stator.compile(lambda x: x + 1)(torch.ones(3))
            events.instant("a moment")
            events.begin("never ended")
        file = tmp_path / "deeper" / "trace.json"
        assert events.export(file) == len(events.recorded())
        trace = json.loads(file.read_text())
        assert len(check_chrome_trace(trace)) == len(trace["traceEvents"])
        assert [path.name for path in file.parent.iterdir()] == ["trace.json"]

    def test_merges_with_a_trace_of_the_profiler(self, tmp_path):
        with torch.profiler.profile() as profiler, events.recording():
            stator.compile(lambda x: x + 1)(torch.ones(3))
        profiler.export_chrome_trace(str(tmp_path / "torch.json"))
        events.export(tmp_path / "both.json", merge=tmp_path / "torch.json")
        trace = json.loads((tmp_path / "both.json").read_text())
        both = trace["traceEvents"]
        assert 0 < len(check_chrome_trace(trace)) < len(both)
        theirs = next(event for event in both if event.get("name") == "Stator: frame")
        ours = next(event for event in both if event.get("cat") == "stator" and event["name"] == "frame")
        assert abs(theirs["ts"] - ours["ts"]) < 60e6  # another clock would be off by hours

    def test_phases_are_ranges_of_the_profiler(self):
        f = stator.compile(lambda x: x + 1)
        with torch.profiler.profile() as profiler:
            f(torch.ones(3))
        names = {event.name for event in profiler.events()}
        assert "Stator: interpret" in names and "Stator: backend" in names
        graph = stator.cache_entries(f)[0]["graph"]
        assert [node[0] for node in graph.nodes()] == ["aten::add"]

    def test_signposts(self):
        told = []
        remove = events.on_signpost(lambda *args: told.append(args))
        events.signpost("passes", "missed", {"bytes": 8})
        remove()
        events.signpost("passes", "missed", {"bytes": 9})
        assert told == [("passes", "missed", {"bytes": 8})]


seen: list = []


class TestCallbacks:
    def test_once_for_nested_compilations(self):
        told = []
        callbacks.on_start(lambda args: told.append(("start", args.trigger, args.compile_id)))
        callbacks.on_end(lambda args: told.append(("end", args.trigger, args.compile_id)))

        def backend(gm, inputs):
            stator.compile(lambda x: x * 2)(torch.ones(2))
            return gm.forward

        stator.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
        trigger = callbacks.Trigger.FRAME
        assert told == [("start", trigger, "0/0"), ("end", trigger, "0/0")]

    def test_the_end_is_told_of_a_failure(self):
        told = []
        callbacks.on_end(told.append)

        def backend(gm, inputs):
            raise ValueError("no")

        with pytest.raises(stator.BackendCompilerFailed):
            stator.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
        assert len(told) == 1

    def test_overlapping_threads_are_one(self):
        told = []
        callbacks.on_start(lambda args: told.append("start"))
        callbacks.on_end(lambda args: told.append("end"))
        barrier = threading.Barrier(2)

        def work(number):
            with callbacks.compiling(callbacks.Trigger.LAZY_BACKWARD, f"{number}/0"):
                barrier.wait(10)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert told == ["start", "end"]

    def test_a_fork_while_another_thread_compiles(self):
        program = """
            import os, threading
            import torch, stator
            from stator import callbacks
            told = []
            callbacks.on_start(lambda args: told.append("start"))
            callbacks.on_end(lambda args: told.append("end"))
            forked = threading.Event()
            def backend(gm, inputs):
                begun.set()
                forked.wait(60)
                return gm.forward
            begun = threading.Event()
            thread = threading.Thread(target=lambda: stator.compile(lambda x: x + 1, backend=backend)(torch.ones(2)))
            thread.start()
            begun.wait(60)
            pid = os.fork()
            if pid == 0:
                told.clear()
                stator.compile(lambda x: x * 2)(torch.ones(2))
                callbacks.clear()
                os._exit(0 if told == ["start", "end"] else 3)
            forked.set()
            thread.join()
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told)
        """
        assert run_program(program) == "0 ['start', 'end']"

    def test_listeners_after_a_fork_while_another_thread_compiles(self):
        program = """
            import os, threading
            import torch, stator
            from stator import callbacks, observer
            callbacks.on_start(lambda args: None)
            begun, forked = threading.Event(), threading.Event()
            def backend(gm, inputs):
                begun.set()
                forked.wait(60)
                return gm.forward
            thread = threading.Thread(target=lambda: stator.compile(lambda x: x + 1, backend=backend)(torch.ones(2)))
            thread.start()
            begun.wait(60)
            asked = []
            stator._C.set_observer, real = lambda observer: asked.append(observer), stator._C.set_observer
            pid = os.fork()
            if pid == 0:
                callbacks.clear()
                os._exit(0 if asked == [None] else 3)
            callbacks._start.clear()
            observer.withdraw("callbacks")  # the other thread's compilation is to be told of its end
            told = list(asked)
            forked.set()
            thread.join()
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told, asked)
        """
        assert run_program(program) == "0 [] [None]"

    def test_a_fork_waits_for_the_lock(self):
        lock = ForkSafeLock()
        inside, pids = threading.Event(), []
        data = []

        def hold():
            with lock:
                data.append(1)
                inside.set()
                time.sleep(0.2)
                data.append(2)

        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait(60)
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            with lock:
                os._exit(0 if data == [1, 2] else 3)
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def test_removal(self):
        told = []
        callbacks.on_start(told.append)
        callbacks.remove(told.append)
        stator.compile(lambda x: x + 1)(torch.ones(3))
        assert told == []
        with pytest.raises(ValueError, match="is not a callback"):
            callbacks.remove(told.append)

    def test_clearing_while_one_runs(self):
        def action():
            with pytest.raises(RuntimeError, match="while a compilation runs"):
                callbacks.clear()

        callbacks.on_start(lambda args: None)
        in_backend(action)

    def test_one_that_raises(self, caplog):
        @callbacks.on_start
        def fails(args):
            raise ValueError("my callback")

        with caplog.at_level(logging.ERROR, "stator"):
            assert torch.equal(stator.compile(lambda x: x + 1)(torch.ones(3)), torch.full((3,), 2.0))
        assert "my callback" in caplog.text
