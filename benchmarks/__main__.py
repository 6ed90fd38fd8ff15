"""python -m benchmarks [topic ...] [--quick] [--update-readme]"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time
import warnings
from pathlib import Path

import torch

from .measure import Table

# startup runs first: it starts processes, and the later topics warm up the machine. observe collects garbage in each
# round, which takes long once the other topics have made many objects.
TOPICS = [
    "startup",
    "observe",
    "capture",
    "calls",
    "instances",
    "breaks",
    "misses",
    "steady",
    "shapes",
    "make_fx",
    "phases",
    "memory",
    "inductor",
]
# Run only if named: they take minutes.
ON_DEMAND = ["graphs", "endurance", "gpu"]
ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Stator beside torch.compile, in one process.")
    parser.add_argument(
        "topics",
        nargs="*",
        metavar="topic",
        help=f"of {', '.join(TOPICS)}; default: all; also {', '.join(ON_DEMAND)}",
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--update-readme", action="store_true", help="write the tables to README.md")
    options = parser.parse_args()
    unknown = set(options.topics) - {*TOPICS, *ON_DEMAND}
    if unknown:
        parser.error(f"unknown topic {', '.join(sorted(unknown))}; there are {', '.join(TOPICS + ON_DEMAND)}")
    if options.topics and options.update_readme:
        parser.error("--update-readme writes all tables, so it takes no topics")
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

    header = (
        f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads; the fastest of several runs, both sides in one process."
    )
    print(header, flush=True)
    tables: list[Table] = []
    for topic in options.topics or TOPICS:
        start = time.perf_counter()
        made = importlib.import_module(f"benchmarks.{topic}").run(options.quick)
        tables += made
        for table in made:
            print("\n" + table.markdown(), flush=True)
        print(f"\n({topic}: {time.perf_counter() - start:.0f} s)", flush=True)
    missed = [row.name for table in tables for row in table.rows if row.ok is False]
    if missed:
        print("\nTargets missed: " + "; ".join(missed))
    if options.update_readme:
        update_readme("\n\n".join([header, *(table.markdown() for table in tables)]))
    return 0


def update_readme(text: str) -> None:
    path = ROOT / "README.md"
    readme = path.read_text()
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    print(f"\n{path} updated")


if __name__ == "__main__":
    sys.exit(main())
