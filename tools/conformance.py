#!/usr/bin/env python3
"""Runs the programs of tests/python/parity/corpus plain, under Stator and under torch.compile(backend="eager"), and
prints a table by category: programs that are correct and in one graph, graphs and operators; then lists the failures.

A program is correct if everything observable of every call equals the plain run. It is in one graph if it is correct
with fullgraph=True. Stator must be bitwise equal. torch.compile may differ by rounding, and its tracebacks are not
compared. Each category runs in its own process; a program that crashes the process is a row of the report.

The programs of the category `backends` run with torch's backends aot_eager and inductor, by name, on both sides; there
Stator may differ by rounding too. The programs of the category `operators` are the entries of PyTorch's operator
database (tests/python/parity/op_database.py), each with a few of its samples. Those of the category `sizes` are called
with twenty sizes (tests/python/parity/size_programs.py): there, Stator must not make more graphs than torch.compile.
In the categories `make_fx real`, `make_fx fake` and `make_fx symbolic` the operators are traced, by stator.make_fx and
by torch's make_fx, with all of their samples (tests/python/make_fx/op_database.py); an entry is in one graph if each is
traced and its graph is right.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = ("stator", "peer")
NEAR = {"numpy_interop"}  # torch rounds differently from NumPy, so Stator may differ by rounding as well
PATIENCE = 120  # seconds for one program
BACKENDS = ("aot_eager", "inductor")  # of the category `backends`
OPERATORS = "operators"  # the category of the operator database
SIZES = "sizes"  # the category of programs whose inputs change in size
# The operator database, traced: float32 with all samples, other dtypes with a few.
DTYPES = ("complex64", "int64", "bool", "bfloat16")
FEW_SAMPLES = 2
TRACES = tuple(
    f"make_fx {mode}{dtype}" for mode in ("real", "fake", "symbolic") for dtype in ("", *(f" {d}" for d in DTYPES))
)

Row = dict[str, Any]


# ---- one process: one category under one system


def work(system: str, category: str, skipped: set[str]) -> None:
    """Prints one line of JSON when a program begins, and one with its row when it ends."""
    import faulthandler
    import warnings

    faulthandler.enable()
    warnings.simplefilter("ignore")
    import torch

    from tests.python.parity.corpus import run

    torch.set_num_threads(1)
    judge = _judge_stator if system == "stator" else _judge_peer
    by_backend = functools.partial(_judge_backend, system)
    if category == OPERATORS:
        from tests.python.parity import op_database

        judge, names = functools.partial(_judge_operator, system), op_database.names()
    elif category == SIZES:
        from tests.python.parity import size_programs

        judge, names = functools.partial(_judge_sizes, system), [program.name for program in size_programs.PROGRAMS]
    elif category in TRACES:
        from tests.python.make_fx import op_database as traced

        kind = getattr(torch, category.split()[2]) if len(category.split()) > 2 else torch.float32
        judge, names = functools.partial(_judge_trace, system), list(traced.entries(kind))
    else:
        names = run.names(category)
    for name in names:
        # With backends, a row for each of them: its name is that of the program and of the backend.
        kinds = [(f"{name}.{backend}", by_backend, backend) for backend in BACKENDS]
        for title, how, what in kinds if category == "backends" else [(name, judge, category)]:
            if title in skipped:
                continue
            print(json.dumps({"begin": title}), flush=True)
            began = time.perf_counter()
            row = {"category": category, "name": title} | how(what, name)
            print(json.dumps(row | {"seconds": round(time.perf_counter() - began, 3)}), flush=True)


def _judge_stator(category: str, name: str) -> Row:
    import stator
    from stator import _C
    from tests.python.parity.corpus import run
    from tests.python.parity.corpus.observe import difference

    expected = run.run(category, name)
    exact = category not in NEAR
    records: list[dict] = []
    stator.reset()
    before = _C.set_capture_listener(records.append)
    try:
        found = difference(run.run(category, name, stator.compile), expected, exact)
    finally:
        _C.set_capture_listener(before)
    breaks = [record["break_reason"] for record in records if record.get("break_reason")]
    stator.reset()
    one_graph = found is None and not difference(
        run.run(category, name, lambda target: stator.compile(target, fullgraph=True)), expected, exact
    )
    stator.reset()
    return {
        "correct": found is None,
        "difference": found,
        "one_graph": one_graph,
        "graphs": sum(record.get("graph") is not None for record in records),
        "ops": sum(record.get("ops") or 0 for record in records),
        "reason": f"{breaks[0]['id']}: {breaks[0]['text']}" if breaks else "",
        "place": f"{Path(breaks[0].get('file', '')).name}:{breaks[0].get('line', 0)}" if breaks else "",
    }


def _twice(attempt: Callable[[bool], Row]) -> Row:
    """`attempt(fullgraph)` with it; if that is not right, without."""
    strict = attempt(True)
    if strict["correct"]:
        return strict | {"one_graph": True, "reason": ""}
    return attempt(False) | {"one_graph": False, "reason": (strict["difference"] or "").split("\n")[0][:200]}


def _reset_both() -> None:
    import torch._dynamo

    import stator

    stator.reset()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def _counted(system: str) -> Row:
    """What the system captured since `_reset_both`."""
    import torch._dynamo

    import stator

    if system == "stator":
        captures = stator.counters().get("captures", {})
        return {"graphs": captures.get("graphs", 0), "ops": captures.get("ops", 0)}
    stats = torch._dynamo.utils.counters["stats"]
    return {"graphs": stats["unique_graphs"], "ops": stats["calls_captured"]}


def _judge_peer(category: str, name: str) -> Row:
    import logging

    import torch
    import torch._dynamo

    from tests.python.parity.corpus import run
    from tests.python.parity.corpus.observe import difference

    logging.disable(logging.CRITICAL)
    expected = run.run(category, name, exact=False)

    def attempt(fullgraph: bool) -> Row:
        counted = {"graphs": 0, "ops": 0}

        def backend(gm: Any, example_inputs: Any) -> Any:
            counted["graphs"] += 1
            counted["ops"] += sum(node.op.startswith("call") for node in gm.graph.nodes)
            return gm.forward

        torch._dynamo.reset()
        try:
            seen = run.run(
                category,
                name,
                lambda target: torch.compile(target, backend=backend, fullgraph=fullgraph),
                exact=False,
            )
            found = difference(seen, expected, exact=False)
        except Exception as error:  # of the compiler itself, outside a program's call
            found = f"{type(error).__name__}: {error}"
        return {"correct": found is None, "difference": found, **counted}

    return _twice(attempt)


def _judge_backend(system: str, backend: str, name: str) -> Row:
    """A program of the category `backends` with one of torch's backends."""
    import logging

    import torch
    import torch._dynamo

    import stator
    from tests.python.parity.corpus import run
    from tests.python.parity.corpus.observe import difference

    logging.disable(logging.CRITICAL)
    compiler = stator.compile if system == "stator" else torch.compile
    compiler(lambda x: x + 1, backend=backend)(torch.ones(1))  # inductor sets the recursion limit of the process
    expected = run.run("backends", name, exact=False)

    def attempt(fullgraph: bool) -> Row:
        _reset_both()
        try:
            seen = run.run(
                "backends", name, lambda target: compiler(target, backend=backend, fullgraph=fullgraph), exact=False
            )
            found = difference(seen, expected, exact=False)
        except Exception as error:  # of the compiler itself, outside a program's call
            found = f"{type(error).__name__}: {error}"
        return {"correct": found is None, "difference": found, **_counted(system)}

    return _twice(attempt)


def _judge_operator(system: str, category: str, name: str) -> Row:
    """An entry of the operator database: in one graph if all of its samples are."""
    import logging

    import torch
    import torch._dynamo

    import stator
    from tests.python.parity import op_database

    logging.disable(logging.CRITICAL)

    def attempt(fullgraph: bool) -> Row:
        _reset_both()
        if system == "stator":
            compiler = functools.partial(stator.compile, fullgraph=fullgraph)
        else:
            compiler = functools.partial(torch.compile, backend="eager", fullgraph=fullgraph)
        found = [text for text in op_database.differences(name, compiler, exact=system == "stator") if text]
        return {"correct": not found, "difference": found[0] if found else None, **_counted(system)}

    return _twice(attempt)


def _judge_sizes(system: str, category: str, name: str) -> Row:
    """A program of the category `sizes`. Its graphs are the captures that all calls need together."""
    import logging

    import torch
    import torch._dynamo

    import stator
    from tests.python.parity import size_programs
    from tests.python.parity.corpus.observe import Walk, difference

    logging.disable(logging.CRITICAL)
    program = next(program for program in size_programs.PROGRAMS if program.name == name)
    compiler = functools.partial(stator.compile if system == "stator" else torch.compile, backend="eager")
    exact = system == "stator"

    def attempt(fullgraph: bool) -> Row:
        _reset_both()
        target = program.make()
        compiled = compiler(target, fullgraph=fullgraph)
        found = None
        try:
            for n in program.sizes:
                seen, expected = (Walk().describe(fn(*program.args(n))) for fn in (compiled, target))
                found = found or difference(seen, expected, exact)
        except Exception as error:  # of the compiler itself
            found = f"{type(error).__name__}: {error}"
        return {"correct": found is None, "difference": found, **_counted(system)}

    return _twice(attempt)


def _judge_trace(system: str, category: str, name: str) -> Row:
    """An entry of the operator database, traced. One that is not traced is not wrong."""
    import torch

    from tests.python.make_fx import op_database

    if system == "stator":
        from stator import make_fx
    else:
        from torch.fx.experimental.proxy_tensor import make_fx
    mode, _, dtype = category.removeprefix("make_fx ").partition(" ")
    kind = getattr(torch, dtype or "float32")
    limit = FEW_SAMPLES if dtype else None
    found, graphs = op_database.judge(make_fx, op_database.entries(kind)[name], mode, limit, kind)
    correct = found is None or "not traced: " in found
    return {
        "correct": correct,
        "difference": None if correct else found,
        "one_graph": found is None,
        "reason": found or "",
        "graphs": sum(graph is not None for graph in graphs.values()),
        "ops": sum(len((graph or "").split()) for graph in graphs.values()),
        "operators": graphs,
    }


# ---- the parent: processes, table, lists


def judge_category(system: str, category: str) -> list[Row]:
    """Rows of all programs of a category; after a crash a new process continues after the program that crashed."""
    rows: list[Row] = []
    while True:
        found, lost = _run_worker(system, category, {row["name"] for row in rows})
        rows += found
        if lost is None:
            return rows
        rows.append(lost)


def _run_worker(system: str, category: str, done: set[str]) -> tuple[list[Row], Row | None]:
    """Rows that a worker printed, and the row of the program during which it died."""
    command = [sys.executable, __file__, "--worker", system, "--category", category, "--skip", ",".join(done)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python'}:{ROOT}", "PYTHONHASHSEED": "0"}
    rows: list[Row] = []
    pending = ""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        watchdog = threading.Timer(PATIENCE, process.kill)
        for line in process.stdout or ():
            watchdog.cancel()
            if line.startswith('{"begin"'):
                pending = json.loads(line)["begin"]
                watchdog = threading.Timer(PATIENCE, process.kill)
                watchdog.start()
            elif line.startswith('{"category"'):
                rows.append(json.loads(line))
        watchdog.cancel()
        status = process.wait()
        errors.seek(0)
        text = errors.read()[-800:]
    if status == 0:
        return rows, None
    if not pending or any(row["name"] == pending for row in rows):
        raise SystemExit(f"{category} cannot be run under {system}: {text}")
    why = f"took more than {PATIENCE} s" if status == -9 else f"exit status {status}: {text}"
    lost = {"category": category, "name": pending, "correct": False, "one_graph": False, "difference": why, "graphs": 0}
    return rows, lost | {"ops": 0, "reason": why.split("\n")[0], "crashed": True}


def judge(categories: list[str], systems: tuple[str, ...], jobs: int) -> dict[str, dict[str, list[Row]]]:
    """system -> category -> rows."""
    tasks = [(system, category) for category in categories for system in systems]
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda task: judge_category(*task), tasks)
        found: dict[str, dict[str, list[Row]]] = {system: {} for system in systems}
        for (system, category), rows in zip(tasks, results, strict=True):
            print(f"\r{system} {category}".ljust(60), end="", file=sys.stderr, flush=True)
            found[system][category] = rows
    print("\r".ljust(61) + "\r", end="", file=sys.stderr, flush=True)
    return found


def table(found: dict[str, dict[str, list[Row]]]) -> list[str]:
    systems = list(found)
    titles = {"stator": "Stator", "peer": "torch.compile"}
    columns = ("correct", "one_graph", "breaks", "graphs", "ops")
    lines = [
        "| category | programs | "
        + " | ".join(f"{titles[system]}: {name.replace('_', ' ')}" for system in systems for name in columns)
        + " |"
    ]
    lines.append("|---|" + "---:|" * (1 + len(systems) * len(columns)))
    totals: Counter = Counter()
    for category, rows in found[systems[0]].items():
        counts: Counter = Counter(programs=len(rows))
        for system in systems:
            for row in found[system][category]:
                counts[system, "correct"] += row["correct"]
                counts[system, "one_graph"] += row["one_graph"]
                counts[system, "breaks"] += row["correct"] and not row["one_graph"]
                counts[system, "graphs"] += row["graphs"]
                counts[system, "ops"] += row["ops"]
        totals += counts
        lines.append(_table_line(category, counts, systems, columns))
    return [*lines, _table_line("**all**", totals, systems, columns)]


def _table_line(title: str, counts: Counter, systems: list[str], columns: tuple[str, ...]) -> str:
    cells = [str(counts["programs"])] + [str(counts[system, name]) for system in systems for name in columns]
    return f"| {title} | " + " | ".join(cells) + " |"


def lists(found: dict[str, dict[str, list[Row]]]) -> list[str]:
    """Wrong programs, then those that break, by reason: first those that the peer captures in one graph."""
    mine = [row for rows in found["stator"].values() for row in rows]
    peer = {(row["category"], row["name"]): row for rows in found.get("peer", {}).values() for row in rows}
    lines = ["", "## WRONG or crashed", ""]
    lines += [
        f"- {row['category']}.{row['name']}: {_one_line(row['difference'])}" for row in mine if not row["correct"]
    ]
    if all(row["correct"] for row in mine):
        lines.append("none")
    broken = [row for row in mine if row["correct"] and not row["one_graph"]]

    def peer_in_one_graph(row: Row) -> bool:
        return peer.get((row["category"], row["name"]), {}).get("one_graph", False)

    for title, rows in (
        ("in one graph by torch.compile, not by Stator", [row for row in broken if peer_in_one_graph(row)]),
        ("in one graph by neither", [row for row in broken if not peer_in_one_graph(row)]),
    ):
        lines += ["", f"## {title}: {len(rows)}", "", "| reason | program | place |", "|---|---|---|"]
        rows.sort(key=lambda row: (row["reason"], row["category"], row["name"]))
        for row in rows:
            lines.append(f"| {_one_line(row['reason'])} | {row['category']}.{row['name']} | {row.get('place', '')} |")
    wrong = [row for row in peer.values() if not row["correct"]]
    lines += ["", f"## torch.compile differs from eager: {len(wrong)}", ""]
    lines += [f"- {row['category']}.{row['name']}: {_one_line(row['difference'])}" for row in wrong]
    return lines


def _one_line(text: str | None) -> str:
    return " ".join((text or "").replace("|", "/").split())[:180]


def behind(found: dict[str, dict[str, list[Row]]]) -> list[str]:
    """Programs that are correct, or in one graph, under the peer and not under Stator; of the category `sizes`, also
    those that need more captures."""
    peer = {(row["category"], row["name"]): row for rows in found.get("peer", {}).values() for row in rows}
    mine = [row for rows in found["stator"].values() for row in rows]
    return [
        f"{row['category']}.{row['name']}"
        for row in mine
        for other in [peer.get((row["category"], row["name"]), {"correct": False, "one_graph": False})]
        if (other["correct"] and not row["correct"])
        or (other["one_graph"] and not row["one_graph"])
        or (row["category"] == SIZES and other["one_graph"] and row["graphs"] > other["graphs"])
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="categories, separated by commas")
    parser.add_argument("--no-peer", action="store_true", help="do not run torch.compile")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, help="also write the report to this file")
    parser.add_argument("--json", type=Path, help="write every program's row to this file")
    parser.add_argument("--worker", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--category", help=argparse.SUPPRESS)
    parser.add_argument("--skip", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.category, set(options.skip.split(",")))
        return 0
    sys.path[:0] = [str(ROOT / "python"), str(ROOT)]
    from tests.python.parity.corpus import run

    categories = options.only.split(",") if options.only else [*run.categories(), OPERATORS, SIZES, *TRACES]
    found = judge(categories, SYSTEMS[:1] if options.no_peer else SYSTEMS, options.jobs)
    late = behind(found)
    report = "\n".join([*table(found), "", f"behind torch.compile: {len(late)} programs", *lists(found)])
    print(report)
    if options.output:
        options.output.write_text(report + "\n")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return any(not row["correct"] for rows in found["stator"].values() for row in rows)


if __name__ == "__main__":
    sys.exit(main())
