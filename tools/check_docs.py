#!/usr/bin/env python3
"""Every path of the repository that README or docs name in backticks or links exists."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOPS = ("src/", "python/", "tests/", "benchmarks/", "docs/", "examples/", "tools/", ".ci/", "cmake/")
QUOTED = re.compile(r"`([\w./-]+)`")
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)[^)]*\)")


def main() -> int:
    problems = []
    pages = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            named = [ROOT / name for name in QUOTED.findall(line) if name.startswith(TOPS)]
            linked = [page.parent / name for name in LINK.findall(line)]
            problems += [
                f"{page.relative_to(ROOT)}:{number}: {p} is not there" for p in named + linked if not p.exists()
            ]
    for problem in problems:
        print(problem)
    print(f"check_docs: {len(pages)} pages, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
