"""The command line, and the page that shows a trace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import stator
from stator import html, trace

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "slow_training.py"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def command(*arguments, check=True):
    return subprocess.run(
        [sys.executable, "-m", "stator", *map(str, arguments)], capture_output=True, text=True, timeout=200, check=check
    )


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The trace of the example."""
    directory = tmp_path_factory.mktemp("trace")
    command("run", "--trace", directory, EXAMPLE)
    return directory


class TestProblems:
    def test_the_planted_ones_are_named_with_their_lines(self, example):
        lines = EXAMPLE.read_text().splitlines()
        planted = {number: text for number, text in enumerate(lines, 1) if "# problem" in text}
        assert len(planted) == 3
        found = {row["line"]: row for row in html.collect(example)["problems"] if row["file"] == str(EXAMPLE)}
        first, second, third = planted
        assert found[first]["kind"] == "graph break" and "print" in found[first]["source"]
        assert found[second]["kind"] == "recompilation" and "rate" in found[second]["text"]
        assert found[second]["source"] == lines[second - 1].strip()
        assert found[third]["kind"] == "recompilation" and found[third]["count"] == 3
        assert "pool.mode" in found[third]["text"]

    def test_of_a_model_that_is_trained(self, tmp_path):
        pytest.importorskip("transformers")
        script = ROOT / "examples" / "bert_training.py"
        command("run", "--trace", tmp_path / "trace", script)
        found = html.collect(tmp_path / "trace")["problems"]
        own = [row for row in found if row["file"] == str(script)]
        assert sorted(row["kind"] for row in own) == ["graph break"] * 3 + ["recompilation"] * 2 and own == found
        lines = script.read_text().splitlines()
        breaks = {row["line"] for row in own if row["kind"] == "graph break"}
        assert breaks == {number for number, line in enumerate(lines, 1) if "# a break" in line}

    def test_none(self, tmp_path):
        trace.start(tmp_path)
        stator.compile(lambda x: x + 1)(torch.ones(3))
        trace.stop()
        data = html.collect(tmp_path)
        assert data["problems"] == [] and len(data["frames"]) == 1
        assert data["operators"] == [("aten::add.Tensor", 1)]


class TestCommands:
    def test_run_serves_torch_compile(self, tmp_path):
        script = tmp_path / "script.py"
        script.write_text(
            "import sys, torch\nprint(torch.compile(lambda x: x + 1)(torch.ones(1)).item(), sys.argv[1:])\n"
        )
        done = command("run", "--trace", tmp_path / "t", script, "a", "--b")
        assert done.stdout == "2.0 ['a', '--b']\n"
        assert [record["kind"] for record in trace.read(tmp_path / "t")].count("graph") == 1
        (file,) = (tmp_path / "t").glob("stator_events_*.json")
        assert {event["name"] for event in json.loads(file.read_text())["traceEvents"]} >= {"frame", "interpret"}

    def test_run_sees_late_captures(self, tmp_path):
        """Those of threads that outlive the script's main part, and of what it registers by atexit."""
        script = tmp_path / "script.py"
        script.write_text(
            "import atexit, threading, time, torch\n"
            "def late():\n"
            "    time.sleep(0.5)\n"
            "    print(torch.compile(lambda x: x + 1)(torch.ones(1)).item())\n"
            "threading.Thread(target=late).start()\n"
            "atexit.register(lambda: print(torch.compile(lambda x: x * 3)(torch.ones(1)).item()))\n"
            "raise SystemExit(4)\n"
        )
        done = command("run", "--trace", tmp_path / "t", script, check=False)
        assert done.returncode == 4 and done.stdout == "2.0\n3.0\n", done.stderr
        kinds = [record["kind"] for record in trace.read(tmp_path / "t")]
        assert kinds.count("graph") == 2 and kinds[-1] == "end_of_process"
        (file,) = (tmp_path / "t").glob("stator_events_*.json")
        assert (
            sum(row["name"] == "frame" and row["ph"] == "B" for row in json.loads(file.read_text())["traceEvents"]) == 2
        )

    def test_run_takes_settings_of_torch(self, tmp_path):
        script = tmp_path / "script.py"
        script.write_text(
            "import torch\n"
            "x = torch.ones(1)\n"
            "print(torch.compile(lambda x: x + 1, mode='max-autotune')(x).item())\n"
            "print(torch.compile(lambda x: x + 2, options={'triton.cudagraphs': True}, dynamic=False)(x).item())\n"
            "@torch.compile(mode='reduce-overhead', fullgraph=True)\n"
            "def f(x): return x + 3\n"
            "print(f(x).item())\n"
            "print(torch.compile(lambda x: x + 4, mode='max-autotune')(x).item())\n"
        )
        done = command("run", "--trace", tmp_path / "t", script)
        assert done.stdout == "2.0\n3.0\n4.0\n5.0\n"
        assert done.stderr.count("stator run: mode of torch.compile") == 1
        assert done.stderr.count("stator run: options of torch.compile") == 1

    def test_run_goes_on_without_a_trace(self, tmp_path):
        (tmp_path / "file").write_text("")
        script = tmp_path / "script.py"
        script.write_text("import sys; print(1); sys.exit(3)")
        done = command("run", "--trace", tmp_path / "file", script, check=False)
        assert done.returncode == 3 and done.stdout == "1\n" and "no trace is written" in done.stderr
        missing = command("run", tmp_path / "missing.py", check=False)
        assert missing.returncode == 2 and missing.stderr == f"there is no script {tmp_path / 'missing.py'}\n"

    def test_report_is_one_page(self, example, tmp_path):
        command("report", example, "-o", tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text()
        assert str(EXAMPLE) in text and "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text

    def test_no_trace(self, tmp_path):
        done = command("report", tmp_path / "none", "-o", tmp_path / "r.html", check=False)
        assert done.returncode == 1 and "no report" in done.stderr and not (tmp_path / "r.html").exists()

    def test_explain(self, tmp_path):
        (tmp_path / "mine.py").write_text("import torch\ndef f():\n    return torch.ones(3) + 1\n")
        done = subprocess.run(
            [sys.executable, "-m", "stator", "explain", "mine:f"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        assert done.stdout.startswith("f: 1 graph")
        assert command("explain", "nowhere:f", check=False).returncode == 1

    def test_env(self):
        text = command("env").stdout
        assert f"torch: {torch.__version__}" in text and "recompile_limit" in text

    def test_text_of_a_trace_is_no_markup(self, tmp_path):
        trace.start(tmp_path)
        trace._writer.write("start", "0/0", function="</script><b>", file="f", line=1, reason="<!-- x")
        trace.stop()
        html.write_report(tmp_path, tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text()
        assert text.count("</script>") == 2 and "<!-- x" not in text

    def test_parts_with_markup_are_json(self, tmp_path):
        trace.start(tmp_path)
        trace._writer.write("start", "0/0", function="f", file="f", line=1, reason=None)
        trace._writer.write("plan", "0/0", payload="</script><!-- x --><b>")
        trace.stop()
        html.write_report(tmp_path, tmp_path / "r.html")
        part = (tmp_path / "r.html").read_text().partition('id="part0">')[2].partition("</script>")[0]
        assert json.loads(part) == {"plan": "</script><!-- x --><b>"}

    def test_times_of_phases_are_without_those_inside(self):
        rows = [("inner", 10, 20), ("inner", 40, 10), ("middle", 5, 50), ("outer", 0, 100), ("outer", 200, 7)]
        spans = [{"name": name, "start_us": start, "duration_us": spent} for name, start, spent in rows]
        assert html._own_times(spans) == {"inner": 30, "middle": 20, "outer": 57}


def in_browser(page: Path, script: str, tmp_path: Path, *options: str) -> dict:
    """Opens the page in a browser, runs the script in it, and gives back what the script put into `result`."""
    copy = tmp_path / "in_browser.html"
    catcher = "<script>window.failed = []; window.onerror = text => { failed.push(String(text)); };"
    catcher += "console.error = console.warn = text => { failed.push(String(text)); };</script>"
    ending = "result.failed = failed; document.title = JSON.stringify(result);"
    runner = f"<script>const result = {{}}; {script}; {ending}</script>"
    text = page.read_text().replace("<style>", catcher + "<style>", 1).replace("</body>", runner + "</body>")
    copy.write_text(text)
    done = subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", *options, copy.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    title = done.stdout.partition("<title>")[2].partition("</title>")[0]
    return json.loads(title.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")
class TestInBrowser:
    def test_open_a_frame_and_filter(self, example, tmp_path):
        html.write_report(example, tmp_path / "r.html")
        script = """
        result.rows = document.querySelectorAll('.frame').length;
        result.problems = document.querySelectorAll('.problem').length;
        document.getElementById('filter').value = 'scaled';
        document.getElementById('filter').dispatchEvent(new Event('input'));
        result.filtered = document.querySelectorAll('.frame').length;
        document.querySelector('.frame').click();
        result.title = document.querySelector('#detail h2').textContent;
        result.nodes = document.querySelectorAll('#graph .node').length;
        document.getElementById('find').value = 'mul';
        document.getElementById('find').dispatchEvent(new Event('input'));
        result.found = document.querySelectorAll('#graph .found').length;
        document.getElementById('graph').dispatchEvent(new WheelEvent('wheel', {deltaY: -1, cancelable: true}));
        result.zoomed = document.querySelector('#graph > g').getAttribute('transform');
        result.calls = document.querySelectorAll('#calls tr').length;
        result.phases = document.getElementById('phases').textContent;
        result.numbers = document.getElementById('numbers').textContent;
        """
        seen = in_browser(tmp_path / "r.html", script, tmp_path)
        assert seen["failed"] == [] and seen["rows"] > 3 and seen["problems"] >= 3
        assert seen["filtered"] == 2 and "scaled" in seen["title"]
        assert seen["nodes"] >= 3 and seen["found"] >= 1 and "scale(1.15)" in seen["zoomed"]
        assert seen["calls"] > 3 and "interpret" in seen["phases"] and "peak memory" in seen["numbers"]

    def test_light_and_dark(self, example, tmp_path):
        html.write_report(example, tmp_path / "r.html")
        script = "result.back = getComputedStyle(document.body).backgroundColor"
        light = in_browser(tmp_path / "r.html", script, tmp_path)
        dark = in_browser(
            tmp_path / "r.html", script, tmp_path, "--force-dark-mode", "--blink-settings=preferredColorScheme=0"
        )
        assert light["back"] != dark["back"] and light["failed"] == dark["failed"] == []

    def test_a_thousand_frames(self, tmp_path):
        trace.start(tmp_path)
        for i in range(1000):
            trace._writer.write("start", f"{i}/0", function=f"f{i}", file="f.py", line=i + 1, reason=None)
        trace.stop()
        html.write_report(tmp_path, tmp_path / "r.html")
        script = """
        const list = document.getElementById('list');
        list.scrollTop = 500 * 28; list.dispatchEvent(new Event('scroll'));
        result.rows = document.querySelectorAll('.frame').length;
        result.seen = document.querySelector('.frame').textContent;
        """
        seen = in_browser(tmp_path / "r.html", script, tmp_path)
        assert seen["failed"] == [] and seen["rows"] <= 30 and seen["seen"].startswith("49")
