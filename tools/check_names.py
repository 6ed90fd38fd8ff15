#!/usr/bin/env python3
"""Names that sources must not use, except in the files that are listed with them.

One rule for each thing that has a single door: locks, and lookups on classes.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple


class Rule(NamedTuple):
    folder: str
    hint: str
    forbidden: dict[str, dict[str, str]]  # pattern -> files that may use it (paths in the folder), with the reason


# A lock of another kind could be held by a thread that the child of a fork does not have.
LOCKS = Rule(
    "src",
    "use the locks of core/base/fork_safe.h",
    {
        r"\bstd::(recursive_|timed_|recursive_timed_|shared_|shared_timed_)?mutex\b": {
            "core/base/fork_safe": "makes the locks",
        },
        r"\bstd::(condition_variable(_any)?|counting_semaphore|binary_semaphore|latch|barrier|atomic_flag)\b": {},
        r"\bpthread_(mutex|rwlock|spin|cond|once|barrier)\w*": {},
        r"\bsem_(init|open|wait)\b": {},
        r"\b(call_once|once_flag|mtx_t|PyThread_allocate_lock|PyMutex)\b": {},
        r"\bpthread_atfork\b": {
            "core/base/fork_safe": "has the list of all locks",
            "capture/pycompat/hook": "is C without locks: its handler counts the users of the hook",
            "capture/pycompat/evaluation": "is C without locks: its handler counts bans of collections",
        },
    },
)
PYTHON_LOCKS = Rule(
    "python/stator",
    "use the lock of fork_safe.py",
    {
        r"\bthreading\.(R?Lock|Condition|(Bounded)?Semaphore|Barrier)\b": {
            "fork_safe": "makes the locks",
            "trace": "belongs to a file: the child of a fork has another file, and another lock",
        },
    },
)
# A lookup that is not recorded is not guarded: the capture would not notice that the class changed.
LOOKUPS = Rule(
    "src/capture/interpreter",
    "look names up by capture/values/class_lookups.h",
    {
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
    },
)
RULES = [LOCKS, PYTHON_LOCKS, LOOKUPS]
SUFFIXES = {".h", ".c", ".cpp", ".py"}
COMMENT = re.compile(r"//.*")


def problems_of(root: Path, path: Path) -> list[str]:
    found = []
    for rule in RULES:
        folder = root / rule.folder
        if not path.is_relative_to(folder):
            continue
        stem = path.relative_to(folder).with_suffix("").as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = COMMENT.sub("", line)
            for pattern, allowed in rule.forbidden.items():
                if (match := re.search(pattern, code)) and stem not in allowed:
                    found.append(f"{path.relative_to(root)}:{number}: {match.group()}: {rule.hint}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root: Path = parser.parse_args().root
    folders = [root / "src", root / "python/stator"]
    sources = sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in SUFFIXES)
    problems = [problem for path in sources for problem in problems_of(root, path)]
    for problem in problems:
        print(problem)
    print(f"check_names: {len(sources)} files, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
