#!/usr/bin/env python3
"""Runs clang-tidy over the C++ sources that changed. `--all`: over all of them, which takes an hour on two cores.

Changed means: different from the main branch of the remote, or from the last commit where there is no remote. A header
that changed is checked through its like-named source, or through a source that includes it. `--limit` keeps the sources
with the largest changes. A build must have been configured before: it tells how each source is compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def changed_lines() -> dict[str, int]:
    """How many lines of each changed file were added or removed."""
    base = output_of("git", "merge-base", "HEAD", "origin/main").strip() or "HEAD"
    lines = {}
    for row in output_of("git", "diff", "--numstat", "--no-renames", base).splitlines():
        added, removed, file = row.split("\t")
        lines[file] = int(added) + int(removed) if added.isdigit() else 0
    for file in output_of("git", "ls-files", "-o", "--exclude-standard").split():
        lines[file] = (ROOT / file).read_bytes().count(b"\n")
    return lines


def includers(files: list[str], root: Path = ROOT) -> dict[str, list[str]]:
    """For each header below src/, by its path: the files that include it."""
    found: dict[str, list[str]] = {}
    for file in files:
        for header in re.findall(r'^#include "(.*)"', (root / file).read_text(), re.MULTILINE):
            found.setdefault(f"src/{header}", []).append(file)
    return found


def source_of(header: str, sources: set[str], included_by: dict[str, list[str]]) -> str | None:
    """The source through which a header is checked: the like-named one, or the nearest that includes it."""
    if (like_named := str(Path(header).with_suffix(".cpp"))) in sources:
        return like_named
    seen, waiting = {header}, [header]
    for file in waiting:
        for includer in included_by.get(file, ()):
            if includer in sources:
                return includer
            if includer not in seen:
                seen.add(includer)
                waiting.append(includer)
    return None


def select(sources: set[str], lines: dict[str, int], included_by: dict[str, list[str]]) -> list[str]:
    """The sources to check, those with the largest changes first. Lines of a header count for its source."""
    sizes: Counter[str] = Counter()
    for file, count in lines.items():
        source = file if file in sources else None
        if file.endswith(".h"):
            source = source_of(file, sources, included_by)
        if source is not None:
            sizes[source] += count
    return sorted(sizes, key=lambda source: (-sizes[source], source))


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
        files = [
            str(path.relative_to(ROOT)) for path in sorted((ROOT / "src").rglob("*")) if path.suffix in {".h", ".cpp"}
        ]
        sources = select(set(sources), changed_lines(), includers(files))
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
