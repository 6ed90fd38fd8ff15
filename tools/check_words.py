#!/usr/bin/env python3
"""Retired words do not come back: each row names a pattern and the term of docs/glossary.md to use instead.

Names are checked like prose: `StandIn`, `stand_in` and "stand-in" are the same word.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PLACES = (
    "src",
    "python",
    "docs",
    "tests",
    "tools",
    "benchmarks",
    "examples",
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
)
SUFFIXES = {".h", ".cpp", ".c", ".def", ".py", ".pyi", ".md", ".toml", ".sh", ""}
# These files name the retired words.
EXEMPT = {"docs/glossary.md", "tools/check_words.py", "tests/python/tools/test_tools.py"}
PROJECT = ("src/", "python/", "docs/", "tools/", "README.md", "CONTRIBUTING.md", "Makefile")


class Retired(NamedTuple):
    word: str
    pattern: str  # matched on lower-case text, as written and with identifiers split into words
    use: str
    within: tuple[str, ...] = ()  # path prefixes; empty: all places

    def applies_to(self, path: str) -> bool:
        return not self.within or path.startswith(self.within)


RETIRED = [
    Retired("stand-in", r"stand[-_]?ins?", "surrogate, trial argument, probe argument, sample argument or model"),
    Retired("aloud", r"aloud", "observable (of finalization); runs user code (of a hash or comparison)"),
    Retired("way back", r"way[- ]back", "undo log; unrecoverable write"),
    Retired("rewind", r"rewind(s|ing)?", "undo log; undo"),
    Retired("let go", r"let(s|ting)? (it |them |all )?go", "drop a reference; release"),
    Retired("outside object", r"outside objects?", "external object"),
    Retired("known by who it is, known by identity", r"known by (who|identity|what)", "guarded by identity"),
    Retired("misfit", r"misfits?", "argument error"),
    Retired("image (of a frame)", r"(frame images?|images? of (a |the )?frames?)", "frame state"),
    Retired("captured whole, recorded whole", r"(captured?|recorded|inlined) whole", "in one graph; as one node"),
    Retired("restless", r"restless", "varying"),
    Retired("walk (of the bytecode)", r"walk(s|ed|ing)?", "capture attempt; interpret; traverse", within=PROJECT[:3]),
    Retired("manner", r"manner", "attempt options"),
    Retired(
        "words (of an error), in words", r"(in|its own|the same|in its|other) words", "message; text", within=PROJECT
    ),
    Retired("acquainted", r"acquainted", "accepts the operand"),
    Retired("anew", r"anew", "again; new"),
    Retired("heed", r"heed(s|ed|ing)?", "honour; have the same effect"),
    Retired("whom", r"whom", "which function; which object"),
    Retired("whoever", r"whoever", "the caller; the code that"),
    Retired("nobody", r"nobody", "no code; no thread; nothing", within=PROJECT),
    Retired("stranger", r"strangers?", "another tool; an unrelated class", within=PROJECT),
    Retired("half-way", r"half-way", "partway; suspended (of a generator)"),
    Retired("beforehand", r"beforehand", "before; in advance"),
    Retired("by way of", r"by way of", "through; by"),
    Retired("own rule, shape rule", r"(own|shape) rules?", "shape function"),
    Retired(
        "quiet (of finalization)",
        r"(quiet drops?|(drop(s|ped)?|ends?) quiet(ly)?|quiet(ly)? (drop(s|ped)?|ends?)|(is|require) quiet)",
        "observable finalization; unobservable",
        within=("src/", "tests/native/", "docs/"),
    ),
    Retired("pin (a dtype)", r"pin(s|ned|ning)? dtypes?", "fix"),
    Retired(
        "depth (of nesting, of recursion)",
        r"((inline|hook|nesting|max|kmax) depth|int depth\)|depth [-+] 1|(\+\+|--)(\w+(->|\.))?depth)",
        "nesting; level; `depth` is the number of values on a frame's stack",
        within=("src/capture/", "src/compile/"),
    ),
    Retired("element_of", r"element_of", "a name that says which element", within=PROJECT),
    Retired("Plan (of the fallback)", r"(struct|class) plan", "fallback call", within=("src/core/",)),
]


def split_words(line: str) -> str:
    """The line with identifiers split into words, so that names are found like prose."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", " ", line).lower()


def check_text(path: str, text: str, retired: list[Retired]) -> list[str]:
    rows = [(re.compile(rf"(?<![a-z0-9-]){row.pattern}(?![a-z0-9])"), row) for row in retired if row.applies_to(path)]
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        words = split_words(line)
        for pattern, row in rows:
            if found := pattern.search(line.lower()) or pattern.search(words):
                problems.append(f"{path}:{number}: '{found.group()}' is retired; use: {row.use}")
    return problems


def missing_in_glossary(glossary: str, retired: list[Retired]) -> list[str]:
    """Rows that the glossary's table of retired words does not have."""
    rows = [f"| {row.word} | {row.use} |" for row in retired]
    return [f"docs/glossary.md: no row '{row}'" for row in rows if row not in glossary.splitlines()]


def files() -> list[Path]:
    found: list[Path] = []
    for place in PLACES:
        top = ROOT / place
        found += sorted(top.rglob("*")) if top.is_dir() else [top]
    return [p for p in found if p.is_file() and p.suffix in SUFFIXES and "__pycache__" not in p.parts]


def main() -> int:
    problems = missing_in_glossary((ROOT / "docs/glossary.md").read_text(), RETIRED)
    for file in files():
        path = file.relative_to(ROOT).as_posix()
        if path not in EXEMPT:
            problems += check_text(path, file.read_text(), RETIRED)
    for problem in problems:
        print(problem)
    print(f"check_words: {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
