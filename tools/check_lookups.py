#!/usr/bin/env python3
"""The interpreter looks names up on classes by the functions of capture/values/class_lookups.h and in no other way.

They record the name. A lookup that is not recorded is not guarded: the capture would not notice that the class changed.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

# What goes around the recording functions, and the files that may use it, with the reason.
FORBIDDEN: dict[str, dict[str, str]] = {
    r"\b_PyType_Lookup(Ref|Id)?\b": {
        "state/known_types": "finds functions of libraries by their path, once per process",
    },
    r"\btp_dict\b": {
        "state/guard_recorder": "makes the source of a class's dict",
        "state/torch_session": "reads the name of a module's class for a graph's metadata",
        "attributes/descriptors": "looks through prototype classes, which no guard refers to",
        "attributes/set_attributes": "compares the address of the dict only",
        "classes/made_classes": "looks through prototype classes, which no guard refers to",
        "classes/surrogates": "looks through prototype classes, which no guard refers to",
        "models/class_statement_models": "looks through bases, all names of which are guarded",
        "models/table": "lists the methods of built-in classes, which never change",
    },
}
COMMENT = re.compile(r"//.*")


def problems_of(folder: Path, path: Path) -> list[str]:
    relative = path.relative_to(folder)
    stem = relative.with_suffix("").as_posix()
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = COMMENT.sub("", line)
        for pattern, allowed in FORBIDDEN.items():
            if (match := re.search(pattern, code)) and stem not in allowed:
                found.append(f"{relative}:{number}: {match.group()}: look names up by capture/values/class_lookups.h")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    folder: Path = parser.parse_args().root / "src" / "capture" / "interpreter"
    sources = sorted(path for path in folder.rglob("*") if path.suffix in {".h", ".cpp"})
    problems = [problem for path in sources for problem in problems_of(folder, path)]
    for problem in problems:
        print(problem)
    print(f"check_lookups: {len(sources)} files, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
