"""Files that cannot be written or read, and long work on a terminal: the program goes on."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
import warnings

import pytest
import torch

import stator
from stator import html, progress, records, trace

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
    with pytest.warns(RuntimeWarning, match="no whole record"):
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
