#!/usr/bin/env python3
"""Runs clang-tidy over the C++ sources that changed. `--all`: over all of them, which takes an hour on two cores.

Changed means: different from the main branch of the remote, or from the last commit where there is no remote. A build
must have been configured before: it tells how each source is compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def changed_sources() -> set[str]:
    base = output_of("git", "merge-base", "HEAD", "origin/main").strip() or "HEAD"
    changed = output_of("git", "diff", "--name-only", base) + output_of("git", "ls-files", "-o", "--exclude-standard")
    return set(changed.split())


def clang_command(command: str) -> str:
    """A command for g++ as clang accepts it: without the launcher and the precompiled header, which only g++ reads."""
    return re.sub(r"^.*?(?<=/)([cg]\+\+) ", r"\1 ", re.sub(r" -include \S+cmake_pch\.\S+| -Winvalid-pch", "", command))


def separate(command: dict[str, str]) -> list[dict[str, str]]:
    """The commands of the sources that one command compiles: a joined source includes several."""
    joined = Path(command["file"])
    if joined.parent.name != "Unity":
        return [command]
    sources = re.findall(r'^#include "(.*)"', joined.read_text(), re.MULTILINE)
    return [
        {**command, "file": source, "command": command["command"].replace(str(joined), source)} for source in sources
    ]


def write_database(build: Path, folder: Path) -> list[str]:
    """Writes the commands into the folder; returns the C++ sources below src/, relative to the root."""
    found = json.loads((build / "compile_commands.json").read_text())
    commands = [one for command in found for one in separate(command)]
    sources = []
    for command in commands:
        command["command"] = clang_command(command["command"])
        if command["file"].startswith(str(ROOT / "src")) and command["file"].endswith(".cpp"):
            sources.append(os.path.relpath(command["file"], ROOT))
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(commands))
    return sources


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--limit", type=int, help="check at most so many sources")
    parser.add_argument("--venv", default=".venv")
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    build = ROOT / options.build
    if not (build / "compile_commands.json").exists():
        print("tidy: no build is configured, nothing is checked")
        return 0
    sources = write_database(build, build / "tidy")
    if not options.all:
        changed = changed_sources()
        sources = [source for source in sources if source in changed]
    left_out = len(sources[options.limit :]) if options.limit is not None else 0
    sources = sources[: options.limit]
    # The package has no headers of its own compiler; those of g++ serve as well.
    headers = output_of("g++", "-print-file-name=include").strip()
    arguments = ["-p", str(build / "tidy"), "--quiet", "--extra-arg=-Wno-unknown-warning-option"]
    tidy = [str(ROOT / options.venv / "bin/clang-tidy"), *arguments, f"--extra-arg=-isystem{headers}"]

    def check(source: str) -> str:
        done = subprocess.run([*tidy, source], cwd=ROOT, capture_output=True, text=True)
        return done.stdout if done.returncode else ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [text for text in pool.map(check, sources) if text]
    print("".join(findings), end="")
    print(f"tidy: {len(sources)} sources, {len(findings)} with findings, {left_out} left out")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
