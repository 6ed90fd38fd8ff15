"""Files that cannot be written or read, and long work on a terminal: the program goes on."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
import warnings

import pytest
import torch

import stator
from stator import html, progress, records, strict_json, trace

FULL_DISK = """
import resource, sys, warnings
import torch, stator
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))  # no file may get larger, as on a full disk
directory = sys.argv[1]
stator.config.debug_dir = directory + "/debug"
stator.trace.start(directory + "/trace")
stator.set_logs("graph_code")
with stator.log_file(directory + "/log.txt"), stator.record_failures(directory + "/failures"):
    f = stator.compile(lambda x: [x := (x + 1).relu() * 2 for _ in range(30)][-1])
    for n in range(1, 5):
        print(f(torch.ones(n, n)).sum().item())
    try:
        stator.compile(lambda x: print(x), fullgraph=True)(torch.ones(1000))
    except stator.Unsupported as error:
        print(error.record)
stator.trace.stop()
"""


def test_a_full_disk(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    x = torch.ones(1, 1)
    for _ in range(30):
        x = (x + 1).relu() * 2
    *values, record = done.stdout.split()
    assert [float(value) for value in values] == [x.item() * n * n for n in range(1, 5)]
    assert "Traceback" not in done.stderr.replace("could not be recorded", ""), done.stderr
    assert "File too large" in done.stderr and "Warning" in done.stderr
    # What is there is whole, or is known not to be.
    assert record == "None" and not list((tmp_path / "failures").iterdir())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = list(trace.read(tmp_path / "trace"))
    assert found[0]["kind"] == "header" and len(told) <= 1
    html.write_report(tmp_path / "trace", tmp_path / "report.html")
    (run,) = (tmp_path / "debug").iterdir()
    assert not [path for path in run.rglob("*.*") if path.name.startswith(".")], "a part of a file is left"


def test_a_report_that_cannot_be_written(tmp_path):
    trace.start(tmp_path / "trace")
    stator.compile(lambda x: x + 1)(torch.ones(1))
    trace.stop()
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "stator", "report", tmp_path / "trace", "-o", tmp_path / "file" / "r.html"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1 and "no report" in done.stderr and "Traceback" not in done.stderr


def test_a_report_of_a_broken_trace(tmp_path):
    path = trace.start(tmp_path / "trace")
    stator.compile(lambda x: x + 1)(torch.ones(1))
    trace.stop()
    text = path.read_text()
    path.write_text(text[: len(text) // 2] + "\n\x00\n" + text[len(text) // 2 :])
    with pytest.warns(RuntimeWarning, match="not a complete record"):
        html.write_report(path.parent, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().rstrip().endswith("</html>")
    assert html.collect(path.parent)["unfinished"] == 0
    path.write_text(text.rpartition("{")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert html.collect(path.parent)["unfinished"] == 1


def test_two_processes_with_one_debug_folder(tmp_path):
    code = "import sys, torch, stator; stator.config.debug_dir = sys.argv[1]\nstator.compile(abs)(torch.ones(1))"
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "debug")]) for _ in range(2)]
    assert [process.wait(100) for process in running] == [0, 0]
    assert sorted(path.name for path in (tmp_path / "debug").glob("*/*")) == ["0_0", "0_0"]


def test_values_that_cannot_be_recorded(tmp_path):
    with pytest.raises(TypeError):
        records.write_values(tmp_path / "x.rec", {"generator": (number for number in range(3))})
    assert not list(tmp_path.iterdir())


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TestProgress:
    def test_long_work(self):
        stream = Terminal()
        with progress.shown("the work", stream, seconds=0.01):
            deadline = time.monotonic() + 60
            while "stator: the work, " not in stream.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
        assert re.search(r"stator: the work, \d+ s", stream.getvalue())
        assert stream.getvalue().endswith("\r") and stream.getvalue().split("\r")[-2].strip() == ""

    def test_short_work_and_no_terminal(self):
        for stream, seconds in ((Terminal(), 100), (io.StringIO(), 0.001)):
            with progress.shown("the work", stream, seconds=seconds):
                pass
            assert stream.getvalue() == ""

    def test_an_error_inside(self):
        stream = Terminal()
        with pytest.raises(ValueError), progress.shown("the work", stream, seconds=100):
            raise ValueError
        assert stream.getvalue() == ""

    def test_a_closed_stream(self):
        stream = Terminal()
        with progress.shown("the work", stream, seconds=0.001):
            stream.close()
            time.sleep(0.05)

    def test_a_backend(self, monkeypatch):
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(progress.shown.__init__, "__defaults__", (None, 0.01))

        def slow(gm, inputs):
            deadline = time.monotonic() + 60
            while "backend 'slow' compiles" not in stream.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
            return gm

        stator.compile(lambda x: x + 1, backend=slow)(torch.ones(1))
        assert "stator: the backend 'slow' compiles" in stream.getvalue()


class TestNumbersThatAreNotFinite:
    def test_strict_json(self):
        value = {"a": [float("nan"), (float("inf"),)], float("-inf"): {1.5}, "b": object, "c": 2.5}
        text = strict_json.dumps(value, lambda other: list(other) if isinstance(other, set) else other.__name__)
        assert json.loads(text, parse_constant=pytest.fail) == {
            "a": ["nan", ["inf"]],
            "-inf": [1.5],
            "b": "object",
            "c": 2.5,
        }
        value["a"] = value
        with pytest.raises(ValueError, match="Circular"):
            strict_json.dumps(value)

    def test_files_are_strict(self, tmp_path):
        odd = {"a": float("nan"), "b": [float("inf")], "c": {float("-inf")}}

        def backend(gm, example_inputs):
            stator.metrics.context().set("mine", odd)
            return gm

        path = trace.start(tmp_path / "trace")
        with stator.events.recording():
            stator.compile(lambda x: x + 1, backend=backend)(torch.ones(1))
            stator.events.instant("odd", odd)
            trace.artifact("odd", "text", **odd)
        trace.stop()
        stator.events.export(tmp_path / "events.json")
        stator.events.clear()
        html.write_report(path, tmp_path / "report.html")
        trace.to_torch(path, tmp_path / "torch.log")
        texts = path.read_text().splitlines()
        texts.append((tmp_path / "events.json").read_text())
        texts += re.findall(
            r'<script type="application/json"[^>]*>(.*?)</script>', (tmp_path / "report.html").read_text()
        )
        heads = [line.partition("] ")[2] for line in (tmp_path / "torch.log").read_text().splitlines()]
        texts += [head for head in heads if head.startswith("{")]
        assert len(texts) > 10
        for text in texts:
            json.loads(text, parse_constant=pytest.fail)
        assert [record["a"] for record in trace.read(path) if record["kind"] == "artifact"] == ["nan"]


@pytest.mark.parametrize("text", ['"x"', "3", '{"traceEvents": 3}', '{"baseTimeNanoseconds": "a"}', "no JSON", ""])
def test_what_is_merged_is_no_trace(tmp_path, text):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match=r"other\.json is not a trace"):
        stator.events.export(tmp_path / "events.json", merge=tmp_path / "other.json")
    assert not (tmp_path / "events.json").exists()


def test_a_list_of_events_is_a_trace(tmp_path):
    event = {"name": "a", "ph": "i", "ts": 1, "pid": 1, "tid": 1}
    (tmp_path / "other.json").write_text(json.dumps([event]))
    stator.events.clear()
    stator.events.export(tmp_path / "events.json", merge=tmp_path / "other.json")
    assert json.loads((tmp_path / "events.json").read_text())["traceEvents"] == [event]


def test_another_working_directory(tmp_path, monkeypatch):
    """Relative paths are those of the start: also for later captures, and for the child of a fork."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    stator.config.debug_dir = "debug"
    trace.start("trace")
    for folder in (first, second):
        monkeypatch.chdir(folder)
        stator.reset()
        stator.compile(lambda x: x + 1)(torch.ones(1))
    child = os.fork()
    if child == 0:
        stator.compile(lambda x: x + 2)(torch.ones(1))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    trace.stop()
    assert not list(second.iterdir())
    assert len(list((first / "trace").iterdir())) == 2 and len(list((first / "debug").rglob("graph.txt"))) == 2 + 1
