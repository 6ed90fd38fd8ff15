"""`python -m tests.fuzz --seconds 60`: runs random programs for that time and prints each failing one, shrunk.

The programs run in a child process, which writes each program to a file first, so that a crash is a finding as well.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.grammar import Inputs
from tests.fuzz.reduce import reduced

ROOT = Path(__file__).resolve().parents[2]
ROUND = 1000


def child(seed: int, seconds: float, notes: Path) -> None:
    """Runs programs until one fails. `notes` holds the running program; the last printed line is a JSON summary."""
    import torch

    from tests.fuzz.cases import case_of
    from tests.fuzz.execute import Tally, compare

    torch.set_num_threads(1)
    ends = time.monotonic() + seconds
    tally = Tally()
    found = None
    while found is None and tally.programs < ROUND and time.monotonic() < ends:
        number = seed * ROUND + tally.programs
        source, rounds = case_of(number)
        with tally:
            for calls in rounds:
                notes.write_text(json.dumps({"source": source, "calls": [vars(call) for call in calls]}))
                found = compare(source, calls)
                if found:
                    break
    print(
        json.dumps(
            {"found": found, "programs": tally.programs, "captured": tally.captured, "one_graph": tally.one_graph}
        )
    )


def spawn(arguments: list[str], timeout: float) -> tuple[int, str]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python'}:{ROOT}", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "tests.fuzz", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return -1, "took too long"
    lines = done.stdout.strip().splitlines()
    return done.returncode, lines[-1] if lines else done.stderr[-400:]


def kind_of(found: str | None) -> str:
    """The place of a difference, without values: a program must keep failing in the same way while it is shrunk."""
    return (found or "").split(": ")[0].split("[")[-1]


def forked(source: str, calls: list[Inputs], seconds: int = 30) -> str | None:
    """Runs a program in a child process, because it may crash or hang; returns the failure or None."""
    from tests.fuzz.execute import compare

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(seconds)
        os.write(writer, json.dumps(compare(source, calls)).encode()[:60000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return json.loads(answer) if status == 0 else f"the process ends with {status}: "


def told(notes: Path) -> tuple[str, list[Inputs]]:
    facts = json.loads(notes.read_text())
    return facts["source"], [Inputs(**call | {"lengths": tuple(call["lengths"])}) for call in facts["calls"]]


def shrink(notes: Path) -> None:
    """Shrinks the program in `notes` and prints it."""
    source, calls = told(notes)
    found = forked(source, calls)
    small = reduced(source, lambda text: kind_of(forked(text, calls)) == kind_of(found)) if found else source
    print(json.dumps({"source": small, "again": found}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--oracle", action="store_true", help="each hit is checked against a fresh capture")
    parser.add_argument("--round", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--shrink", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.oracle:
        os.environ["STATOR_ORACLE"] = "1"  # for the child processes, too
    if options.round:
        seed, seconds, notes = options.round
        child(int(seed), float(seconds), Path(notes))
        return 0
    if options.replay:
        from tests.fuzz.execute import compare

        print(json.dumps({"found": compare(*told(options.replay))}))
        return 0
    if options.shrink:
        shrink(options.shrink)
        return 0
    return campaign(options.seconds, int(time.time()) if options.seed is None else options.seed)


def campaign(seconds: float, seed: int) -> int:
    ends = time.monotonic() + seconds
    total = {"programs": 0, "captured": 0, "one_graph": 0}
    findings = 0
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "program.json"
        while (left := ends - time.monotonic()) > 0:
            seed += 1
            status, line = spawn(["--round", str(seed), str(left), str(notes)], left + 300)
            answer = json.loads(line) if status == 0 else {"found": f"the process ends with {status}: {line}"}
            for name in total:
                total[name] += answer.get(name, 0)
            if answer["found"] is not None:
                findings += 1
                print(f"\n---- round {seed}: {answer['found']}", flush=True)
                status, line = spawn(["--shrink", str(notes)], 600)
                small, calls = json.loads(line)["source"] if status == 0 else told(notes)[0], told(notes)[1]
                print(f"{small[small.index('def program') :]}\n# {calls}\n", flush=True)
    counts = ", ".join(f"{count} {name}" for name, count in total.items())
    print(f"fuzz: {counts}; {findings} findings")
    return findings > 0


if __name__ == "__main__":
    sys.exit(main())
