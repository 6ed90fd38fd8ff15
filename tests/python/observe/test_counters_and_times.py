"""Counters and phase times: what a program reads of them."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time

import pytest
import torch

import stator


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    stator.metrics.reset_frame_count()
    stator.metrics.clear()
    yield
    stator.reset()


def broken(x):
    y = x + 1
    print("hi")
    return y * 2


class TestCounters:
    def test_additions_of_threads_are_not_lost(self):
        def add():
            for _ in range(1000):
                stator.counters["mine"]["events"] += 2

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert stator.counters["mine"]["events"] == 8000

    def test_absent_ones_are_zero(self):
        assert stator.counters["zz"]["q"] == 0
        stator.counters["zz"]["q"] += 1
        stator.counters["zz"]["r"] = 4
        assert stator.counters["zz"].total() == 5
        assert stator.counters["zz"].most_common(1) == [("r", 4)]
        assert dict(stator.counters["zz"]) == stator.counters()["zz"] == {"q": 1, "r": 4}

    def test_clear(self):
        stator.counters["zz"]["q"] += 3
        stator.counters["yy"]["q"] += 3
        stator.counters["zz"].clear()
        assert stator.counters["zz"]["q"] == 0 and stator.counters["yy"]["q"] == 3
        stator.counters.clear()
        assert "yy" not in stator.counters()
        assert not stator.counters()["frames"]

    def test_only_numbers(self):
        with pytest.raises(TypeError, match="str"):
            stator.counters["zz"]["q"] = "1"
        with pytest.raises(KeyError, match="dot"):
            stator.counters["a.b"]

    def test_a_capture_with_a_break(self):
        stator.compile(broken)(torch.ones(3))
        counts = stator.counters()
        assert counts["frames"] == {"total": 2, "ok": 2}
        assert counts["captures"]["ops"] == 2 and counts["captures"]["graphs"] == 2
        assert list(counts["breaks"]) == ["unknown_call"]
        assert counts["cache"]["misses"] == 2
        stator.compile(broken)(torch.ones(3))
        assert stator.counters["cache"]["hits"] == 2

    def test_a_failure_counts_as_attempted_only(self):
        def backend(gm, inputs):
            raise ValueError("no")

        with pytest.raises(stator.BackendCompilerFailed):
            stator.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
        assert stator.counters["frames"]["total"] == 1
        assert stator.counters["frames"]["ok"] == 0

    def test_captured_operators_add_up(self):
        before = stator.counters["captures"]["ops"]
        stator.compile(lambda x: (x + 1).relu() * 2)(torch.ones(3))
        stator.compile(lambda x: x.sin() - 1)(torch.ones(3))
        assert stator.counters["captures"]["ops"] == before + 5


class TestTimed:
    def test_adds_a_duration_also_on_an_error(self):
        for _ in range(2):
            with pytest.raises(ValueError, match="body"), stator.timed("mine"):
                raise ValueError("body")
        assert len(stator.times.durations()["mine"]) == 2

    def test_order_is_that_of_first_use(self):
        for name in ("zz", "aa", "zz"):
            with stator.timed(name):
                pass
        assert list(stator.times.durations()) == ["zz", "aa"]

    def test_a_column_must_be_in_microseconds(self):
        with pytest.raises(AssertionError, match="foo"), stator.timed("mine", column="foo"):
            pass

    def test_nested_columns_count_once(self):
        with pytest.raises(RuntimeError), stator.timed("outer", column="outer_us"):
            raise RuntimeError
        stator.metrics.runtime().finish()
        stator.metrics.clear()
        with stator.timed("outer", column="outer_us"), stator.timed("inner", column="inner_us"):
            time.sleep(0.01)
        stator.metrics.runtime().finish()
        (record,) = stator.metrics.records()
        assert record["is_runtime"] is True and record["is_forward"] is True
        assert record["duration_us"] == record["outer_us"] >= record["inner_us"] >= 9000
        stator.metrics.runtime().finish()
        assert len(stator.metrics.records()) == 1

    def test_inside_a_compilation_the_column_is_in_its_record(self):
        def backend(gm, inputs):
            with stator.timed("lower", column="lower_us"):
                time.sleep(0.002)
            return gm.forward

        stator.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
        (record,) = stator.metrics.records()
        assert 1900 <= record["lower_us"] <= record["duration_us"]

    def test_event_name_and_data(self):
        data = {"a": 1}
        stator.events.clear()
        with stator.events.recording(), stator.timed("_c", "entire", metadata=data, is_backward=True):
            pass
        begin = next(event for event in stator.events.recorded() if event["name"] == "entire")
        assert begin["args"] == {"compile_id": "None", "a": 1, "fn_name": "_c", "is_backward": True}
        assert data == {"a": 1}

    def test_what_runs_is_visible_from_another_thread(self):
        inside, seen = threading.Event(), threading.Event()

        def backend(gm, inputs):
            inside.set()
            assert seen.wait(10)
            return gm.forward

        thread = threading.Thread(target=lambda: stator.compile(lambda x: x + 1, backend=backend)(torch.ones(3)))
        thread.start()
        assert inside.wait(10)
        assert stator.times.gauges()["frame"]["active"] == 1
        seen.set()
        thread.join()
        assert stator.times.gauges()["frame"] == {
            "active": 0,
            "count": 1,
            "seconds": pytest.approx(stator.times.gauges()["frame"]["seconds"]),
        }


class TestCompileTimes:
    def test_phases_of_a_compilation(self):
        stator.compile(broken)(torch.ones(3))
        names, values = stator.compile_times("csv")
        assert {"frame", "explore", "attempt", "interpret", "build_guards", "build_plan", "backend"} <= set(names)
        assert len(names) == len(values)
        times = stator.times.durations()
        assert len(times["frame"]) == 2 and len(times["attempt"]) == 3
        assert sum(times["explore"]) + sum(times["build_guards"]) + sum(times["backend"]) <= sum(times["frame"])

    def test_table(self):
        for _ in range(2):
            with stator.timed("key"):
                pass
        title, header, _, row = stator.compile_times().splitlines()
        assert title == "Stator compilation times:" and header.split() == ["Function", "Runtimes", "(s)"]
        assert re.fullmatch(r"key\s+\d+\.\d{4}, \d+\.\d{4}", row)
        assert re.fullmatch(r"key\s+\d+\.\d{4}", stator.compile_times(aggregate=True).splitlines()[-1])

    def test_machine_form(self):
        with stator.timed("key"):
            pass
        names, values = stator.compile_times("csv", aggregate=True)
        assert names == ["key"] and re.fullmatch(r"\d+\.\d{6}", values[0])
        assert stator.compile_times("xml") is None

    def test_reset_of_the_frame_count(self):
        stator.compile(broken)(torch.ones(3))
        counts = stator.counters()
        assert [record["frame_key"] for record in stator.metrics.records()] == ["1", "2"]
        stator.metrics.reset_frame_count()
        assert stator.compile_times("csv") == ([], [])
        assert stator.counters() == counts
        assert stator.metrics.frame_count() == 0

    def test_totals(self, capsys):
        assert stator.times.calculate_time_spent() == {"total_wall_time": 0}
        stator.compile(broken)(torch.ones(3))
        spent = stator.times.calculate_time_spent()
        assert spent["total_wall_time"] == spent["frame"] > 0
        capsys.readouterr()
        stator.times.print_time_report()
        line = capsys.readouterr().out
        assert line.startswith("TIMING:") and all(f"{name}:" in line for name in spent)

    def test_converters(self):
        assert stator.times.to_int_us(1.5) == 1_500_000 and stator.times.to_int_ms(1.9999) == 1999
        assert stator.times.to_int_us(None) is None and stator.times.to_int_ms(None) is None


PROGRAM = """
import logging, os, sys
{setup}
import stator, torch
def inner(x): return x + 1
def f(x):
    print("hi")
    return inner(x)
stator.compile(f)(torch.ones(3))
if {forks} and os.fork() == 0:
    sys.exit(0)
if {forks}:
    os.wait()
"""


class TestAtExit:
    def run(self, setup: str, forks: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(setup=setup, forks=forks)],
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    def test_times_and_frames_are_logged(self):
        told = self.run("logging.basicConfig(level=logging.INFO)", forks=True)
        assert told.count("Stator compilation times:") == 1
        (listed,) = re.findall(r"captured frames:\n((?:  .*\n)+)", told)
        assert re.fullmatch(r"  f <string>:\d+\n", listed)

    def test_nothing_is_shown_otherwise(self):
        assert "Stator" not in self.run("")
