#!/usr/bin/env python3
"""tests/rows.toml: each capability row names tests that exist, or says what it waits for.

A row has `title` and at least one of `tests` (list of `path::test`, or `path::Suite.Name` for GoogleTest), `open`
(what is missing and what it waits for) and `answered` (a page of docs/ that says how Stator differs).
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Frames: sections A, B, D to J, O, Q and R. Observation: all.
REQUIRED = [f"F{n:02d}" for n in (*range(1, 23), *range(31, 75), 98, *range(101, 106))]
REQUIRED += [f"O{n:02d}" for n in range(1, 114)]
GTEST = re.compile(r"\bTEST(?:_F|_P)?\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)")


@cache
def tests_in(path: Path) -> frozenset[str]:
    """Names of the tests that a file defines."""
    text = path.read_text()
    if path.suffix != ".py":
        return frozenset(f"{suite}.{name}" for suite, name in GTEST.findall(text))
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return frozenset(found)


def check_row(name: str, row: dict) -> list[str]:
    problems = []
    if not row.get("title"):
        problems.append(f"{name}: no title")
    if unknown := row.keys() - {"title", "tests", "open", "answered"}:
        problems.append(f"{name}: unknown keys {sorted(unknown)}")
    if not (row.get("tests") or row.get("open") or row.get("answered")):
        problems.append(f"{name}: neither tests, nor open, nor answered")
    for test in row.get("tests", []):
        file, _, test_name = test.partition("::")
        path = ROOT / file
        if not path.is_file():
            problems.append(f"{name}: {file} does not exist")
        elif test_name not in tests_in(path):
            problems.append(f"{name}: {file} has no test {test_name}")
    if (page := row.get("answered")) and not (ROOT / page.split("#")[0]).is_file():
        problems.append(f"{name}: {page} does not exist")
    return problems


def main() -> int:
    rows = tomllib.loads((ROOT / "tests" / "rows.toml").read_text())
    problems = [f"{name}: missing" for name in REQUIRED if name not in rows]
    for name, row in rows.items():
        problems += check_row(name, row)
    for problem in problems:
        print(problem)
    shown = sum(bool(row.get("tests")) for row in rows.values())
    waiting = sum(bool(row.get("open")) for row in rows.values())
    print(f"check_rows: {len(rows)} rows, {shown} with tests, {waiting} with something open, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
