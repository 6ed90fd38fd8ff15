#!/usr/bin/env python3
"""One operator table: what Stator states about single operators stands in src/core/ops, and nowhere else.

Checks that the rows of each file there are sorted and well-formed, that each file is part of the table and of one
family of shape functions; that the tables of src/core/passes are sorted; and that no other source of the extension or
of the Python package has a list of operator names, except those of EXEMPT. A call that builds a node names its
operator.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/core/ops"
SOURCES = ("src", "python/stator")
MOST_NAMES = 3


class Exempt(NamedTuple):
    path: str
    begins: str  # the first names of the list; empty: all lists of the file
    reason: str


EXEMPT = (
    Exempt(
        "src/core/graph/aliasing.cpp", "", "what schemas leave out about memory, beside the code that answers with it"
    ),
    Exempt("src/core/tracer/function_dispatch.cpp", "", "single operators of which a trace makes other nodes"),
    Exempt(
        "src/core/tracer/function_runs.cpp", "", "what tensors without fakes hold, beside the code that answers with it"
    ),
    Exempt("python/stator/tracing/module.py", "", "single operators that nodes for numbers call"),
    Exempt("python/stator/tracing/sizes.py", "", "operators that are methods of tensors, beside the methods"),
    Exempt("src/capture/interpreter/models/math_models.cpp", "acos, asin", "functions of Python's math module"),
    Exempt("src/capture/interpreter/torch/symbolic_numbers.cpp", "lt, le, eq", "Python's comparisons"),
    Exempt("python/stator/arrays.py", "", "functions of NumPy"),
    Exempt("python/stator/fx_constants.py", "", "operations on symbolic numbers, by the names of shapes::op_name"),
    Exempt("python/stator/fx_export.py", "", "single operators, where their nodes get a form that compilers know"),
    Exempt("python/stator/fx_numbers.py", "lt, le, eq", "functions of Python's operator module"),
    Exempt("python/stator/fx_numbers.py", "sqrt, exp, log", "functions of Python's math module"),
    Exempt("python/stator/fx_targets.py", "lt, le, gt", "functions of Python's operator module"),
)

PASS_ROW = re.compile(r'^STATOR_(TWIN|VIEW)\("([\w.]+)", (.+)\)$', re.M)
BUILT = re.compile(r'(?:operator_named\(|\bcall\(builder, )"aten::[\w.]+"')
ROW = re.compile(r'^STATOR_(OPERATOR|ELEMENTWISE)\("([\w.]+\*?)", ([\w| ]+), (.+)\)$')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
QUALIFIED = re.compile(r'"aten::(\w+)|\bops\.aten\.(\w+)')
STRINGS = r'\s*((?:"[^"\n]*"\s*,\s*)*"[^"\n]*"\s*,?\s*)'
STRING_LIST = re.compile(rf"\{{{STRINGS}\}}|\[{STRINGS}\]|\({STRINGS}\)")
SPLIT_TEXT = re.compile(r'"""([^"]+)"""\.split\(\)|"([^"\n]+)"\.split\(\)')


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


def string_lists(text: str) -> list[list[str]]:
    """The literal lists of texts in a source: between brackets, or one text that is split."""
    lists = [re.findall(r'"([^"]*)"', next(filter(None, match.groups()))) for match in STRING_LIST.finditer(text)]
    return lists + [next(filter(None, match.groups())).split() for match in SPLIT_TEXT.finditer(text)]


def find_lists(text: str, names: set[str], is_python: bool = False) -> list[str]:
    """The lists of operator names in a source that are longer than MOST_NAMES: all names with a namespace, and each
    literal list of which most are operators of the table."""
    text = re.sub(r"#[^\n]*", "", text) if is_python else BUILT.sub("", COMMENT.sub("", text))
    qualified = sorted({name for found in QUALIFIED.findall(text) for name in found if name})
    lists = [qualified] if len(qualified) > MOST_NAMES else []
    for strings in string_lists(text):
        known = sum(base_name(string) in names for string in strings)
        if known > MOST_NAMES and known >= 0.75 * len(strings):
            lists.append(strings)
    return [", ".join(found) for found in lists]


def check_sources(names: set[str], exempt: tuple[Exempt, ...] = EXEMPT) -> list[str]:
    problems, used = [], set()
    paths = sorted(path for place in SOURCES for path in (ROOT / place).rglob("*"))
    for path in paths:
        if path.suffix not in {".cpp", ".h", ".c", ".py"} or path.parent == TABLE:
            continue
        place = path.relative_to(ROOT).as_posix()
        for found in find_lists(path.read_text(), names, path.suffix == ".py"):
            rows = [row for row in exempt if row.path == place and found.startswith(row.begins)]
            used.update(rows)
            if not rows:
                problems.append(f"{place}: a list of operators: {found}")
    return problems + [f"{row.path}: has no list '{row.begins}' that is exempt" for row in exempt if row not in used]


def main() -> int:
    names, problems = check_table()
    for path in sorted((ROOT / "src/core/passes").rglob("*.def")):
        problems += check_rows(path, PASS_ROW, 2)[1]
    problems += check_sources(names)
    for problem in problems:
        print(problem)
    print(f"check_operators: {len(names)} operators, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
