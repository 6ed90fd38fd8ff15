#!/usr/bin/env python3
"""One operator table: what Stator states about single operators stands in src/core/ops, and nowhere else.

Checks that the rows of each file there are sorted and well-formed, that each file is part of the table and of one
family of shape functions; that the tables of src/core/passes are sorted; and that no other source has a list of
operator names, except the table of what schemas leave out about memory. A call that builds a node names its operator.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/core/ops"
MOST_NAMES = 3
# Its place is beside the functions that answer with it.
EXEMPT = ("src/core/graph/aliasing.cpp",)

PASS_ROW = re.compile(r'^STATOR_(TWIN|VIEW)\("([\w.]+)", (.+)\)$', re.M)
BUILT = re.compile(r'(?:operator_named\(|\bcall\(builder, )"aten::[\w.]+"')
ROW = re.compile(r'^STATOR_(OPERATOR|ELEMENTWISE)\("([\w.]+\*?)", ([\w| ]+), (.+)\)$')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
QUALIFIED = re.compile(r'"aten::(\w+)')
STRING_LIST = re.compile(r'\{\s*((?:"[^"\n]*"\s*,\s*)*"[^"\n]*"\s*,?\s*)\}')


def base_name(row: str) -> str:
    """`add` for `add_.Tensor`."""
    name = row.split(".")[0]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def sort_key(row: str) -> tuple[str, str]:
    return (base_name(row.rstrip("*")), row)


def check_rows(path: Path, row: re.Pattern[str], place: int) -> tuple[list[str], list[str]]:
    """The names of the rows, each in the group `place` of the pattern, and what is wrong with them."""
    names, problems = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("//"):
            continue
        match = row.match(line)
        if not match:
            problems.append(f"{path.name}:{number}: not a row: {line}")
            continue
        if names and sort_key(names[-1]) > sort_key(match[place]):
            problems.append(f"{path.name}:{number}: {match[place]} comes before {names[-1]}")
        names.append(match[place])
    return names, problems


def check_table() -> tuple[set[str], list[str]]:
    """The base names in the table, and what is wrong with its files."""
    names: set[str] = set()
    problems = []
    parts = sorted(path for path in TABLE.glob("*.def") if path.name != "operators.def")
    table = (TABLE / "operators.def").read_text()
    families = "\n".join(path.read_text() for path in (ROOT / "src/core/fake/families").glob("*.cpp"))
    for path in parts:
        rows, wrong = check_rows(path, ROW, 2)
        problems += wrong
        names.update(base_name(row.rstrip("*")) for row in rows)
        include = f'#include "core/ops/{path.name}"'
        if table.count(include) != 1:
            problems.append(f"operators.def: includes {path.name} {table.count(include)} times")
        if families.count(include) != 1:
            problems.append(f"{path.name}: included by {families.count(include)} files of core/fake/families")
    return names, problems


def find_lists(text: str, names: set[str]) -> list[str]:
    """Lists of operator names in a source, as far as they are longer than MOST_NAMES."""
    text = BUILT.sub("", COMMENT.sub("", text))
    found = sorted(set(QUALIFIED.findall(text)))
    problems = [f"names {len(found)} operators: {', '.join(found)}"] if len(found) > MOST_NAMES else []
    for match in STRING_LIST.finditer(text):
        strings = re.findall(r'"([^"]*)"', match[1])
        if len(strings) > MOST_NAMES and all(base_name(s) in names for s in strings):
            problems.append(f"a list of operators: {', '.join(strings)}")
    return problems


def main() -> int:
    names, problems = check_table()
    for path in sorted((ROOT / "src/core/passes").rglob("*.def")):
        problems += check_rows(path, PASS_ROW, 2)[1]
    for path in sorted((ROOT / "src/core").rglob("*")):
        is_exempt = path.relative_to(ROOT).as_posix().startswith(EXEMPT)
        if path.suffix in {".cpp", ".h"} and path.parent != TABLE and not is_exempt:
            problems += [f"{path.relative_to(ROOT)}: {problem}" for problem in find_lists(path.read_text(), names)]
    for problem in problems:
        print(problem)
    print(f"check_operators: {len(names)} operators, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
