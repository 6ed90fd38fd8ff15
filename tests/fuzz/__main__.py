"""`python -m tests.fuzz --seconds 60`: random programs until the time is over; prints each failing one, made small.

The programs run in a child process, which writes down what it is about to run: a crash is a finding like another.
"""

from __future__ import annotations

import argparse
import json
import os
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
    """One round, until a program fails: the one that runs is in `notes`; the last line printed tells what was done."""
    import torch

    from tests.fuzz.execute import Tally, compare
    from tests.fuzz.grammar import random_case
    from tests.fuzz.known import AVOID

    torch.set_num_threads(1)
    ends = time.monotonic() + seconds
    tally = Tally()
    found = None
    while found is None and tally.programs < ROUND and time.monotonic() < ends:
        source, calls = random_case(seed * ROUND + tally.programs, AVOID)
        notes.write_text(json.dumps({"source": source, "calls": [vars(call) for call in calls]}))
        with tally:
            found = compare(source, calls)
    if found is not None:
        small = reduced(source, lambda text: kind_of(compare(text, calls)) == kind_of(found))
        notes.write_text(json.dumps({"source": small, "calls": [vars(call) for call in calls]}))
    print(json.dumps({"found": found, "programs": tally.programs, "captured": tally.captured, "whole": tally.whole}))


def spawn(arguments: list[str], timeout: float) -> tuple[int, str]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python'}:{ROOT}", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "tests.fuzz", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return -1, "took too long"
    lines = done.stdout.strip().splitlines()
    return done.returncode, lines[-1] if lines else done.stderr[-400:]


def replay(notes: Path) -> str | None:
    """What is wrong with the program in `notes`, run in a process of its own."""
    status, line = spawn(["--replay", str(notes)], 60)
    if status != 0:
        return f"the process ends with {status}: {line}"
    return json.loads(line)["found"]


def kind_of(found: str | None) -> str:
    """Where it differs, without values: while a program is made small it must keep failing in the same way."""
    return (found or "").split(": ")[0].split("[")[-1]


def minimise(notes: Path, found: str) -> tuple[str, str]:
    """A program that ends its process is made small by one process a trial; others are small already."""
    told = json.loads(notes.read_text())

    def fails(source: str) -> bool:
        trial = notes.with_suffix(".trial")
        trial.write_text(json.dumps(told | {"source": source}))
        return kind_of(replay(trial)) == kind_of(found)

    small = reduced(told["source"], fails, attempts=80) if found.startswith("the process") else told["source"]
    return small[small.index("def program") :], repr([Inputs(**call) for call in told["calls"]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--round", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.round:
        seed, seconds, notes = options.round
        child(int(seed), float(seconds), Path(notes))
        return 0
    if options.replay:
        from tests.fuzz.execute import compare

        told = json.loads(options.replay.read_text())
        print(json.dumps({"found": compare(told["source"], [Inputs(**call) for call in told["calls"]])}))
        return 0
    return campaign(options.seconds, int(time.time()) if options.seed is None else options.seed)


def campaign(seconds: float, seed: int) -> int:
    ends = time.monotonic() + seconds
    total = {"programs": 0, "captured": 0, "whole": 0}
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
                source, calls = minimise(notes, answer["found"])
                print(f"\n---- seed {seed}: {answer['found']}\n{source}\n# {calls}\n", flush=True)
    told = ", ".join(f"{count} {name}" for name, count in total.items())
    print(f"fuzz: {told}; {findings} findings")
    return findings > 0


if __name__ == "__main__":
    sys.exit(main())
