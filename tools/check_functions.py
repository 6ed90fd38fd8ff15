#!/usr/bin/env python3
"""No function in src/ is longer than MAX_FUNCTION lines, and no file of FILE_LIMITS longer than its limit.

There is no C++ parser here. Comments, strings and preprocessor lines are blanked. Then every brace that opens directly
in a namespace or class, after a head with parentheses and no `=`, opens a function.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_FUNCTION = 80
FILE_LIMITS = {"src/compile/pipeline.cpp": 150}  # the compile path on one page

OPAQUE = re.compile(
    r"""R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"   # raw string
      | "(?:[^"\\\n]|\\.)*"                            # string
      | (?<![0-9a-zA-Z_])'(?:[^'\\\n]|\\.)+'           # character, and no separator of digits
      | //[^\n]*
      | /\*.*?\*/
      | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*                 # preprocessor line, with those that it goes on in
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:inline\s+|typedef\s+)?(?:namespace|class|struct|union|enum|extern)\b")
LABEL = re.compile(r"\s*(?:public|private|protected)\s*:(?!:)")
OPERATOR = re.compile(r"operator\s*\(\s*\)|operator[^\s\w(]+")


class Function(NamedTuple):
    name: str
    line: int
    length: int


def blank(text: str) -> str:
    """The text with spaces for everything that may hold braces of no meaning; line numbers stay."""
    return OPAQUE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def opens_function(head: str) -> bool:
    plain = OPERATOR.sub("operator", head)
    before = plain.split("(", 1)[0]
    if "(" not in plain or "=" in before:
        return False
    # A class head has no parameters, unless it is the type that a C function returns.
    return not SCOPE.match(plain) or bool(re.match(r"^(?:struct|union|enum)\s+\w+\s*\**\s*\w+$", before.strip()))


def name_of(head: str) -> str:
    found = re.search(r"([~\w:]+|operator\S*)\s*\(", head)
    return found.group(1) if found else "?"


def functions_in(text: str) -> Iterator[Function]:
    """The outermost functions of a source; what is defined inside of one counts as part of it."""
    text = blank(text)
    scopes: list[str] = []  # "scope" for namespaces and classes, else "body"
    started: tuple[str, int] | None = None  # the function that is open, and its first line
    depth_of_function = 0
    head_start = 0
    line = 1
    for index, char in enumerate(text):
        if char == "\n":
            line += 1
        elif char == "{":
            if "body" not in scopes:
                raw = LABEL.sub("", text[head_start:index], count=1)
                head = raw.strip()
                if opens_function(head):
                    first = line - raw.lstrip().count("\n")
                    started, depth_of_function = (name_of(head), first), len(scopes)
                    scopes.append("body")
                else:
                    scopes.append("scope" if SCOPE.match(head) and "=" not in head else "body")
            else:
                scopes.append("body")
            head_start = index + 1
        elif char == "}":
            if scopes:
                scopes.pop()
            if started and len(scopes) == depth_of_function:
                yield Function(started[0], started[1], line - started[1] + 1)
                started = None
            head_start = index + 1
        elif char == ";" and "body" not in scopes:
            head_start = index + 1


def check(root: Path) -> list[str]:
    problems = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".c", ".cpp"}:
            continue
        name = path.relative_to(root).as_posix()
        text = path.read_text()
        for function in functions_in(text):
            if function.length > MAX_FUNCTION:
                what = f"{function.name} has {function.length} lines, more than {MAX_FUNCTION}"
                problems.append(f"{name}:{function.line}: {what}")
        limit = FILE_LIMITS.get(name)
        if limit and text.count("\n") > limit:
            problems.append(f"{name}: {text.count(chr(10))} lines, more than {limit}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    problems = check(parser.parse_args().root)
    for problem in problems:
        print(problem)
    print(f"check_functions: {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
