"""The structured trace, and messages about captures."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch

import stator
from stator import html, logs, show, trace, trace_records


def model(x):
    y = (x + 1).relu()
    print("hi")
    return y * 2


def check_schema(value, schema):
    """The name of the first field that is not of the JSON schema; empty: it is of the schema. Knows what `schema()`
    uses."""
    if "anyOf" in schema:
        return "" if any(check_schema(value, one) == "" for one in schema["anyOf"]) else "anyOf"
    if "const" in schema:
        return "" if value == schema["const"] else "const"
    python = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "null": type(None)}
    if schema["type"] == "boolean":
        return "" if isinstance(value, bool) else "type"
    if not isinstance(value, python[schema["type"]]) or isinstance(value, bool):
        return "type"
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        return missing[0]
    for name, inner in schema.get("properties", {}).items():
        if name in value and check_schema(value[name], inner):
            return name
    if "additionalProperties" in schema:
        return next((name for name in value if check_schema(value[name], schema["additionalProperties"])), "")
    items = schema.get("items")
    return "items" if items and any(check_schema(item, items) for item in value) else ""


def traced(tmp_path, action):
    path = trace.start(tmp_path)
    try:
        action()
    finally:
        trace.stop()
    return path, list(trace.read(tmp_path))


class TestTrace:
    def test_records_of_two_sizes(self, tmp_path):
        f = stator.compile(lambda x: (x + 1).relu(), dynamic=False)
        path, records = traced(tmp_path, lambda: (f(torch.ones(3)), f(torch.ones(4))))
        kinds = [record["kind"] for record in records]
        assert kinds[0] == "header" and kinds[-1] == "end_of_process"
        assert kinds.count("start") == 2 and kinds.count("graph") == 2 and kinds.count("metrics") == 2
        (again,) = [record for record in records if record["kind"] == "recompile"]
        assert again["compile_id"] == "0/1" and "3" in again["reason"]
        start = next(record for record in records if record["kind"] == "start")
        assert start["file"] == __file__

    def test_payloads_and_overhead(self, tmp_path):
        f = stator.compile(model)
        path, records = traced(tmp_path, lambda: f(torch.ones(3)))
        for record in records:
            if "payload" in record:
                assert hashlib.md5(record["payload"].encode()).hexdigest() == record["md5"]
        graph = next(record for record in records if record["kind"] == "graph")
        assert "aten.relu" in graph["payload"] and "float32[3]" in graph["payload"]
        assert [node["op"] for node in graph["nodes"]] == ["input", "aten::add.Tensor", "aten::relu", "output"]
        stop = next(record for record in records if record["kind"] == "break")
        assert stop["file"] == __file__ and stop["source"] == 'print("hi")' and "print" in stop["reason"]
        metrics = next(record for record in records if record["kind"] == "metrics")
        assert metrics["structured_logging_overhead_us"] > 0 and metrics["log_format_version"] == 1
        # Names of files stand there once.
        text = path.read_text()
        assert text.count(json.dumps(__file__)) == 1
        assert all(json.loads(line)["v"] == 1 for line in text.splitlines())

    def test_nodes_that_write_have_ids_of_their_own(self, tmp_path):
        def f(x):
            return x.add_(1).mul_(2).add_(3).sum()

        _, records = traced(tmp_path, lambda: stator.compile(f)(torch.ones(3)))
        nodes = next(record for record in records if record["kind"] == "graph")["nodes"]
        assert len({node["id"] for node in nodes}) == len(nodes) == 6
        assert [node["from"] for node in nodes[1:]] == [[node["id"]] for node in nodes[:-1]]

    def test_nothing_is_made_while_there_is_no_trace(self):
        trace.artifact("mine", lambda: pytest.fail("called"))

    def test_records_of_the_program(self, tmp_path):
        _, records = traced(tmp_path, lambda: trace.artifact("mine", lambda: ["a", "b"], epoch=3))
        (mine,) = [record for record in records if record["kind"] == "artifact"]
        assert mine["payload"] == "a\nb" and mine["epoch"] == 3 and mine["name"] == "mine"
        assert mine["stack"][-1][2].endswith("<lambda>")
        with pytest.raises(ValueError, match="'md5'"):
            trace.artifact("mine", "x", md5="1")

    def test_a_failure_is_recorded(self, tmp_path):
        def backend(gm, inputs):
            raise ValueError("no kernel")

        def action():
            with pytest.raises(stator.BackendCompilerFailed):
                stator.compile(lambda x: x + 1, backend=backend)(torch.ones(3))

        _, records = traced(tmp_path, action)
        (metrics,) = [record for record in records if record["kind"] == "metrics"]
        assert "no kernel" in metrics["fail_reason"] and not metrics["has_guarded_code"]

    def test_environment_and_two_processes(self, tmp_path):
        code = "import stator, torch; stator.compile(lambda x: x + 1)(torch.ones(3))"
        env = {**os.environ, "STATOR_TRACE": str(tmp_path)}
        running = [subprocess.Popen([sys.executable, "-c", code], env=env) for _ in range(2)]
        assert [process.wait(100) for process in running] == [0, 0]
        assert len(trace.files_of(tmp_path)) == 2
        assert [record["kind"] for record in trace.read(tmp_path)].count("graph") == 2

    def test_a_child_of_a_fork_writes_a_file_of_its_own(self, tmp_path):
        def action():
            for compiles in (True, False):
                child = os.fork()
                if child == 0:
                    if compiles:
                        stator.compile(lambda x: x - 1)(torch.ones(3))
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0

        path, records = traced(tmp_path, action)
        assert [record["kind"] for record in trace.read(path)] == ["header", "end_of_process"]
        assert [record["kind"] for record in records].count("graph") == 1
        assert len(trace.files_of(tmp_path)) == 2

    def test_a_fork_while_another_thread_writes(self, tmp_path):
        class Slow:
            def __init__(self, file):
                self.file = file

            def write(self, line):
                inside.set()
                forked.wait(60)
                return self.file.write(line)

            def close(self):
                self.file.close()

        inside, forked = threading.Event(), threading.Event()

        def action():
            trace._writer._file = Slow(trace._writer._file)
            thread = threading.Thread(target=trace.artifact, args=("of the thread", "text"))
            thread.start()
            inside.wait(60)
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                trace.artifact("of the child", "text")
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            forked.set()
            thread.join()
            assert status == 0

        path, records = traced(tmp_path, action)
        own = [record["name"] for record in trace.read(path) if record["kind"] == "artifact"]
        assert own == ["of the thread"]
        assert {record.get("name") for record in records} - {None} == {"of the thread", "of the child"}

    def test_unwritable_directory(self, tmp_path):
        file = tmp_path / "file"
        file.write_text("")
        with pytest.warns(RuntimeWarning, match="no trace is written"):
            assert trace.start(file / "below") is None
        assert torch.equal(stator.compile(lambda x: x + 1)(torch.ones(1)), torch.full((1,), 2.0))

    def test_full_disk(self, tmp_path):
        path = trace.start(tmp_path)
        writer = trace._writer

        class Full:
            def write(self, text):
                raise OSError(28, "No space left on device")

            def close(self):
                pass

        writer._file = Full()
        with pytest.warns(RuntimeWarning, match="No space left") as told:
            assert torch.equal(stator.compile(lambda x: x + 1)(torch.ones(1)), torch.full((1,), 2.0))
            stator.compile(lambda x: x + 2)(torch.ones(1))
        assert len(told) == 1
        trace.stop()
        assert [record["kind"] for record in trace.read(path)] == ["header"]

    def test_broken_file(self, tmp_path):
        path, records = traced(tmp_path, lambda: stator.compile(lambda x: x + 1)(torch.ones(3)))
        text = path.read_text()
        path.write_text("{broken\n" + text[: len(text) - 20])
        with pytest.warns(RuntimeWarning, match="not a complete record"):
            assert len(list(trace.read(path))) == len(records) - 1
        path.write_text('{"v": 99, "kind": "header"}\n')
        with pytest.raises(ValueError, match="99"):
            list(trace.read(path))

    def test_form_of_torch(self, tmp_path):
        f = stator.compile(model)
        traced(tmp_path, lambda: f(torch.ones(3)))
        file = tmp_path / "torch.log"
        assert trace.to_torch(tmp_path, file) > 4
        heads = [json.loads(line.split("] ", 1)[1]) for line in file.read_text().splitlines() if line[0] != "\t"]
        names = {next(iter(head)) for head in heads}
        kinds = {"dynamo_start", "dynamo_output_graph", "dynamo_guards", "compilation_metrics"}
        assert names == {"str", "artifact", "chromium_event", *kinds}
        assert all("has_payload" in head for head in heads if "dynamo_output_graph" in head)
        (again,) = [head["artifact"] for head in heads if "artifact" in head]
        assert again == {"name": "dynamo_graph_break_reason", "encoding": "string"}
        guards, events = self.payloads(file, "dynamo_guards"), self.payloads(file, "chromium_event")
        assert all("code" in guard for text in guards for guard in json.loads(text))
        assert {"interpret", "frame"} <= {json.loads(text)["name"] for text in events}

    @staticmethod
    def payloads(file, name):
        found = []
        for part in file.read_text().split("\nV")[1:]:
            head, *lines = part.split("\n")
            head = json.loads(head.split("] ", 1)[1])
            text = "\n".join(line[1:] for line in lines if line)
            if name in head:
                assert hashlib.md5(text.encode()).hexdigest() == head["has_payload"]
                found.append(text)
        return found

    def test_recompilations_have_the_line_that_needed_the_guard(self, tmp_path):
        def f(x, mode):
            return x + 1 if mode == "a" else x - 1

        compiled = stator.compile(f)
        _, records = traced(tmp_path, lambda: (compiled(torch.ones(3), "a"), compiled(torch.ones(3), "b")))
        (again,) = [record for record in records if record["kind"] == "recompile"]
        assert again["file"] == __file__ and again["line"] == f.__code__.co_firstlineno + 1
        assert again["source"] == 'return x + 1 if mode == "a" else x - 1'

    def test_a_reason_that_names_several_lines(self, tmp_path):
        reason = "0/0: x has sizes with s0 > 3  (needed at /a (1).py:5); s0 = x.size(0)  (needed at /b.py:7)"
        _, records = traced(tmp_path, lambda: trace._Listener(trace._writer)._write_recompile("0/1", reason))
        (again,) = [record for record in records if record["kind"] == "recompile"]
        assert (again["file"], again["line"], again["reason"]) == ("/b.py", 7, reason)
        tree = show.guard_tree(["x has sizes  (needed at /a (1).py:5); s0 = x.size(0)  (needed at /b.py:7)"])
        assert tree.splitlines()[-1] == "|  has sizes  (needed at /a (1).py:5); s0 = x.size(0)  (/b.py:7)"

    def test_the_end_has_calls_and_memory(self, tmp_path):
        f = stator.compile(lambda x: x + 1)
        _, records = traced(tmp_path, lambda: (f(torch.ones(3)), f(torch.ones(3))))
        end = records[-1]
        assert [(row["hits"], row["misses"]) for row in end["calls"]] == [(1, 1)]
        assert end["peak_memory_bytes"]["process"] > 1 << 20

    def test_records_are_of_the_schema(self, tmp_path):
        def action():
            stator.compile(model)(torch.ones(3))
            f = stator.compile(lambda x: x + 1, dynamic=False)
            f(torch.ones(3)), f(torch.ones(4))
            trace.artifact("mine", "text")
            with pytest.raises(stator.Unsupported):
                stator.compile(model, fullgraph=True)(torch.ones(3))

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            path, records = traced(tmp_path, action)
        assert {record["kind"] for record in records} | {"string", "pass_log"} == set(trace_records.KINDS)
        schemas = {kind["properties"]["kind"]["const"]: kind for kind in trace.schema()["oneOf"]}
        for line in path.read_text().splitlines():
            record = json.loads(line)
            assert check_schema(record, schemas[record["kind"]]) == ""

    def test_what_is_not_of_the_schema_is_left_out(self, tmp_path):
        path, records = traced(tmp_path, lambda: stator.compile(model)(torch.ones(3)))
        lines = path.read_text().splitlines()
        schemas = {kind["properties"]["kind"]["const"]: kind for kind in trace.schema()["oneOf"]}
        for line in lines:
            record = json.loads(line)
            for name in schemas[record["kind"]]["required"]:
                damaged = {key: value for key, value in record.items() if key != name}
                assert check_schema(damaged, schemas[record["kind"]]) == name
                if name == "v":
                    continue
                path.write_text(json.dumps(damaged) + "\n")
                with pytest.warns(RuntimeWarning, match=f"left out.*{name}|left out: it is not a record"):
                    assert list(trace.read(path)) == []
                if name in ("compile_id", "kind", "spans", "nodes", "counters", "calls", "line"):
                    path.write_text(json.dumps({**record, name: [1.5]}) + "\n")
                    with pytest.warns(RuntimeWarning, match="left out"):
                        assert list(trace.read(path)) == []

    def test_a_record_of_the_wrong_shape_inside(self, tmp_path):
        path, _ = traced(tmp_path / "trace", lambda: stator.compile(model)(torch.ones(3)))
        end = json.loads(path.read_text().splitlines()[-1])
        for name, value in (("counters", {"a": 3}), ("calls", [{"hits": 1}]), ("peak_memory_bytes", {"process": "1"})):
            path.write_text(json.dumps({**end, name: value}) + "\n")
            with pytest.warns(RuntimeWarning, match=f"left out: '{name}' is not"):
                html.write_report(path.parent, tmp_path / "r.html")

    def test_peak_memory_of_several_processes(self, tmp_path):
        path, _ = traced(tmp_path, lambda: None)
        end = json.loads(path.read_text().splitlines()[-1])
        peaks = {"process": 1, "cuda:0": 5}, {"process": 3}, {"process": 2, "cuda:0": 4}
        path.write_text("".join(json.dumps({**end, "peak_memory_bytes": peak}) + "\n" for peak in peaks))
        assert html.collect(path)["memory"] == {"process": 3, "cuda:0": 5}

    def test_a_compile_id_of_another_form(self, tmp_path):
        _, records = traced(tmp_path, lambda: trace._writer.write("guards", "mine", payload="a\nb", count=2))
        assert trace.to_torch(tmp_path, tmp_path / "torch.log") == 1

    def test_damaged_files_of_all_kinds(self, tmp_path):
        path, _ = traced(tmp_path / "trace", lambda: stator.compile(model)(torch.ones(3)))
        whole, chance = path.read_bytes(), random.Random(0)
        for _ in range(60):
            text = bytearray(whole)
            for _ in range(chance.randrange(1, 20)):
                at = chance.randrange(len(text))
                text[at : at + chance.randrange(40)] = chance.randbytes(chance.randrange(30))
            path.write_bytes(text)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    html.write_report(path.parent, tmp_path / "r.html")
                    trace.to_torch(path, tmp_path / "torch.log")
                except ValueError as error:
                    assert "has version" in str(error)

    def test_two_processes_of_one_number(self, tmp_path, monkeypatch):
        monkeypatch.setattr(trace.time, "strftime", lambda form: "now")
        first, second = trace.Writer(tmp_path), trace.Writer(tmp_path)
        assert first.path != second.path
        first.close(), second.close()
        assert [record["kind"] for record in trace.read(tmp_path)] == ["header", "end_of_process"] * 2

    def test_an_object_that_compiles_while_its_text_is_made(self, tmp_path):
        class Value:
            def __str__(self):
                return str(stator.compile(lambda x: x + 1)(torch.ones(1)).item())

        _, records = traced(tmp_path, lambda: trace.artifact("mine", "text", value=Value()))
        kinds = [record["kind"] for record in records]
        assert kinds.count("graph") == 1 and next(r for r in records if r["kind"] == "artifact")["value"] == "2.0"

    def test_other_threads_write_while_the_text_of_an_object_is_made(self, tmp_path):
        """That text may wait for them: it may compile, while another thread compiles and writes."""

        class Value:
            def __str__(self):
                thread = threading.Thread(target=trace.artifact, args=("of the thread", "text"))
                thread.start()
                thread.join(60)
                return str(thread.is_alive())

        _, records = traced(tmp_path, lambda: trace.artifact("mine", "text", value=Value()))
        names = [record["name"] for record in records if record["kind"] == "artifact"]
        assert names == ["of the thread", "mine"]
        assert next(record for record in records if record.get("name") == "mine")["value"] == "False"

    def test_the_disk_is_full_for_several_threads(self, tmp_path):
        path = trace.start(tmp_path)
        writer, file = trace._writer, trace._writer._file
        barrier = threading.Barrier(4)

        class Full:
            def write(self, text):
                raise OSError(28, "No space left on device")

            def close(self):
                file.close()

        def write():
            barrier.wait(60)
            for _ in range(50):
                try:
                    trace.artifact("mine", "text")
                except Exception as error:
                    failed.append(error)

        failed = []
        writer._file = Full()
        with pytest.warns(RuntimeWarning, match="No space left") as told:
            threads = [threading.Thread(target=write) for _ in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        trace.stop()
        assert failed == [] and len(told) == 1
        assert [record["kind"] for record in trace.read(path)] == ["header"]


class TestLogs:
    def told(self, capsys, names, f=model, *args):
        stator.set_logs(names)
        try:
            capsys.readouterr()
            stator.compile(f)(*(args or (torch.ones(3),)))
            return capsys.readouterr().err
        finally:
            stator.set_logs("")

    def test_graph_as_table(self, capsys):
        text = self.told(capsys, "graph", lambda x: x.relu() + 1)
        rows = text.splitlines()
        assert "[0/0]" in rows[0] and rows[1].split() == ["kind", "name", "target", "args", "kwargs"]
        assert [row.split()[0] for row in rows[3:7]] == ["input", "call", "call", "output"]

    def test_graph_as_code(self, capsys):
        text = self.told(capsys, "graph_code", lambda x: x.relu() + 1)
        assert "relu = aten.relu(x)  # float32[3]" in text and "add = aten.add.Tensor(relu, 1)" in text
        compile(text.split("\n", 1)[1], "graph", "exec")

    def test_guards_as_tree(self, capsys):
        text = self.told(capsys, "guards", torch.nn.Linear(3, 3))
        assert "+- self" in text and "|  +- .weight" in text
        head = re.search(
            r"^(\d+) guards, one check took \d+\.\d us\nrepeated, it takes (\d+) ns; (\d+) ns", text, re.MULTILINE
        )
        assert head is not None
        guards, whole, reading = map(int, head.groups())
        costs = [int(cost) for cost in re.findall(r"\[(\d+) ns\]", text)]
        assert len(costs) == guards and any(costs) and 0 < reading < whole
        assert abs(sum(costs) + reading - whole) <= guards + 2, "the parts make up the whole"

    def test_costs_of_guards_change_nothing(self, capsys):
        """They are measured by running each guard alone; later calls see every change all the same."""
        table = {"scale": 2}
        f, x = stator.compile(lambda x: x * table["scale"]), torch.ones(1)
        stator.set_logs("guards")
        try:
            assert [f(x).item(), table.update(scale=3), f(x).item(), f(x).item()] == [2, None, 3, 3]
            table["more"] = 1
            assert f(x).item() == 3
        finally:
            stator.set_logs("")
        assert "ns]" in capsys.readouterr().err

    def test_the_page_lists_all_names(self):
        page = (Path(__file__).parents[3] / "docs" / "observability.md").read_text()
        section = page.partition("## Logs")[2].partition("## ")[0]
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
        assert set(logs._NAMES) | set(logs._ALIASES) == listed

    def test_parts_have_one_order(self, capsys):
        text = self.told(capsys, "perf,plans,guards,graph,bytecode,graph_code", lambda x: x + 1)
        names = re.findall(r"^\[stator\.(\w+)\]", text, re.MULTILINE)
        assert names == ["graph", "graph_code", "guards", "bytecode", "plans", "perf"]

    def test_bytecode_and_plan(self, capsys):
        text = self.told(capsys, "bytecode,plans")
        assert "ORIGINAL BYTECODE model" in text and f"line {model.__code__.co_firstlineno}" in text
        assert "outputs = graph(x)  # 2 operators" in text and "resume(offset=" in text
        assert "return v" in text

    def test_dynamic_and_perf(self, capsys):
        stator.set_logs("dynamic,perf")
        try:
            f = stator.compile(lambda x: x + 1, dynamic=True)
            f(torch.ones(5))
        finally:
            stator.set_logs("")
        text = capsys.readouterr().err
        assert "symbolic: x: [s0]" in text and "interpret" in text and "ms" in text

    def test_texts_are_made_only_if_wanted(self, capsys, monkeypatch):
        made = []
        monkeypatch.setattr(show, "graph_table", lambda graph: made.append(graph) or "")
        stator.compile(lambda x: x + 1)(torch.ones(3))
        assert made == []
        self.told(capsys, "graph", lambda x: x + 2)
        assert len(made) == 1

    def test_unknown_name(self, capsys):
        with pytest.raises(stator.InvalidOption, match="'grph'"):
            stator.set_logs("graph,grph")

    def test_a_break_is_told_once(self, capsys):
        def loop(x):
            for _ in range(3):
                x = x + 1
                print("")
            return x

        assert self.told(capsys, "graph_breaks", loop).count("graph break in") == 1


class TestShow:
    def test_count_of_calls(self):
        f = stator.compile(lambda x: x.relu() + 1)
        f(torch.ones(3))
        assert show.count_calls(stator.cache_entries(f)[0]["graph"]) == 2

    def test_source_range(self, tmp_path):
        file = tmp_path / "program.py"
        file.write_text("z = a  +  b[1]\nz = é + b\ny = f(\n  1)\nz = 1 if a else b\n")
        assert show.source_range(str(file), 1, 4, 1, 14) == "z = a  +  b[1]\n    ~~~^~~~~~~\n"
        assert show.source_range(str(file), 2, 4, 2, 10) == "z = é + b\n    ~~^~~\n"
        assert show.source_range(str(file), 1, 10, 1, 14) == "z = a  +  b[1]\n          ~^^^\n"
        assert show.source_range(str(file), 3, 4, 4, 4) == "y = f(\n    ~^\n  1)\n  ^^\n"
        assert show.source_range(str(file), 5, 4, 5, 17) == "z = 1 if a else b\n    ^^^^^^^^^^^^^\n"
        assert show.source_range(str(tmp_path / "none.py"), 1, 0, 1, 4) == ""

    def test_function_tag(self):
        assert (
            show.function_tag(model.__code__)
            == f"'model' ({os.path.relpath(__file__)}:{model.__code__.co_firstlineno})"
        )


class TestOnce:
    def test_memory_is_bounded(self):
        once = stator.once.Once(2)
        assert [once.first(key) for key in "aabcab"] == [True, False, True, True, True, True]

    def test_warnings(self):
        stator.once.reset()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            stator.once.warn_once("careful")
            stator.once.warn_once("careful")
        assert len(told) == 1 and told[0].filename == __file__

    def test_printing(self, capsys):
        stator.once.reset()
        stator.once.print_once("a", 1)
        stator.once.print_once("a", 1)
        assert capsys.readouterr().out == "a 1\n"

    def test_colour(self):
        assert stator.once.strip_color("\x1b[31mred\x1b[0m") == "red"
