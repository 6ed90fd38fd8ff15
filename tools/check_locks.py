#!/usr/bin/env python3
"""Locks in src/ are the two classes of core/base/fork_safe.h, which work in the child of a fork.

Any other lock could be held by a thread that the child of a fork does not have. `pthread_atfork` elsewhere would be a
second list beside the one of all locks; pycompat is C without locks, and its handler only counts the users of the hook.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

FORBIDDEN = {
    r"\bstd::(recursive_|timed_|recursive_timed_|shared_|shared_timed_)?mutex\b": {"core/base/fork_safe"},
    r"\bstd::(condition_variable(_any)?|counting_semaphore|binary_semaphore|latch|barrier|atomic_flag)\b": set(),
    r"\bpthread_(mutex|rwlock|spin|cond|once|barrier)\w*": set(),
    r"\bsem_(init|open|wait)\b": set(),
    r"\b(call_once|once_flag|mtx_t|PyThread_allocate_lock|PyMutex)\b": set(),
    r"\bpthread_atfork\b": {"core/base/fork_safe", "capture/pycompat/hook"},
}
COMMENT = re.compile(r"//.*")


def problems_of(src: Path, path: Path) -> list[str]:
    relative = path.relative_to(src)
    stem = relative.with_suffix("").as_posix()
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = COMMENT.sub("", line)
        for pattern, allowed in FORBIDDEN.items():
            if (match := re.search(pattern, code)) and stem not in allowed:
                found.append(f"{relative}:{number}: {match.group()}: use the locks of core/base/fork_safe.h")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    src: Path = parser.parse_args().root / "src"
    sources = sorted(path for path in src.rglob("*") if path.suffix in {".h", ".c", ".cpp"})
    problems = [problem for path in sources for problem in problems_of(src, path)]
    for problem in problems:
        print(problem)
    print(f"check_locks: {len(sources)} files, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
