#!/usr/bin/env python3
"""Checks the docs: every path they name exists, and the table of break reasons matches break_reasons.def.

`--fix` rewrites the table.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOPS = ("src/", "python/", "tests/", "benchmarks/", "docs/", "examples/", "tools/", ".ci/", "cmake/")
QUOTED = re.compile(r"`([\w./-]+)`")
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)[^)]*\)")

BREAKS_DEF = ROOT / "src/capture/call/break_reasons.def"
BREAKS_DOC = ROOT / "docs/breaks.md"
BREAK = re.compile(r'STATOR_BREAK\(\s*(\w+)\s*,\s*"([^"]*)"\s*,\s*"([^"]*)"\s*\)')
BEGIN, END = "<!-- reasons: begin -->", "<!-- reasons: end -->"


def missing_paths() -> list[str]:
    problems = []
    for page in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            named = [ROOT / name for name in QUOTED.findall(line) if name.startswith(TOPS)]
            linked = [page.parent / name for name in LINK.findall(line)]
            missing = [p for p in named + linked if not p.exists()]
            problems += [f"{page.relative_to(ROOT)}:{number}: {p} does not exist" for p in missing]
    return problems


def break_table() -> str:
    rows = BREAK.findall(BREAKS_DEF.read_text())
    lines = ["| code | why the capture ends | what to do |", "|---|---|---|"]
    return "\n".join(lines + [f"| `{code}` | {title} | {hint} |" for code, title, hint in rows])


def check_breaks(fix: bool) -> list[str]:
    if not BREAKS_DEF.exists():
        return []
    text = BREAKS_DOC.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    wanted = f"{before}{BEGIN}\n{break_table()}\n{END}{after}"
    if wanted == text:
        return []
    if fix:
        BREAKS_DOC.write_text(wanted)
        return []
    return ["docs/breaks.md: the table does not match break_reasons.def; run tools/check_docs.py --fix"]


def main() -> int:
    problems = check_breaks("--fix" in sys.argv) + missing_paths()
    for problem in problems:
        print(problem)
    print(f"check_docs: {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
