#!/usr/bin/env python3
"""Runs all checks that need no build; exit status 1 if any failed. `--fix` also formats the sources."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_PARTS = ["python", "tests", "benchmarks", "tools", "examples"]


def tracked(*patterns: str) -> list[str]:
    """Files of the working tree that git tracks or would add; outside a git checkout, all files."""
    found = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True, text=True
    )
    if found.returncode == 0:
        return [name for name in found.stdout.split() if (ROOT / name).exists()]
    return [str(p.relative_to(ROOT)) for pattern in patterns for p in ROOT.glob(f"[!.b]*/**/{pattern}")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", default=".venv")
    parser.add_argument("--fix", action="store_true")
    options = parser.parse_args()
    bin_dir = ROOT / options.venv / "bin"
    parts = [part for part in PYTHON_PARTS if (ROOT / part).is_dir()]
    native = tracked("*.cpp", "*.h", "*.c")
    clang = [str(bin_dir / "clang-format"), *(["-i"] if options.fix else ["--dry-run", "-Werror"]), *native]
    ruff = str(bin_dir / "ruff")
    commands = {
        "clang-format": clang,
        "ruff": [ruff, "check", "-q", *(["--fix"] if options.fix else []), *parts],
        "ruff format": [ruff, "format", "-q", *([] if options.fix else ["--check"]), *parts],
        "mypy": [str(bin_dir / "mypy")],
        "check_includes": [sys.executable, "tools/check_includes.py"],
        "check_operators": [sys.executable, "tools/check_operators.py"],
        "check_functions": [sys.executable, "tools/check_functions.py"],
        "check_names": [sys.executable, "tools/check_names.py"],
        "check_rows": [sys.executable, "tools/check_rows.py"],
        "check_docs": [sys.executable, "tools/check_docs.py", *(["--fix"] if options.fix else [])],
        "check_words": [sys.executable, "tools/check_words.py"],
        "clang-tidy": [sys.executable, "tools/tidy.py", "--limit", "20", "--venv", options.venv],
    }
    failed = []
    for name, command in commands.items():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        # clang-tidy says what it did not check, also where nothing was found.
        summary = f"  ({done.stdout.splitlines()[-1]})" if name == "clang-tidy" and done.stdout else ""
        print(f"  {name}: {'ok' if done.returncode == 0 else 'FAILED'}{summary}", flush=True)
        if done.returncode:
            failed.append(name)
            lines = (done.stdout + done.stderr).splitlines()
            print("\n".join(lines[:40]))
            if len(lines) > 40:
                print(f"  ... {len(lines) - 40} more lines")
    if failed:
        print("lint failed: " + ", ".join(failed) + ("" if options.fix else "  (`make format` fixes formatting)"))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
