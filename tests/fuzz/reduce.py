"""Shrinks a failing program: removes statements as long as it still fails."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def reduced(source: str, fails: Callable[[str], bool], attempts: int = 400) -> str:
    """The smallest source found in at most `attempts` trials for which `fails` holds; only `program` is changed."""
    tries = 0
    best = source
    progress = True
    while progress and tries < attempts:
        progress = False
        for candidate in _smaller(best):
            tries += 1
            if tries > attempts:
                break
            if fails(candidate):
                best, progress = candidate, True
                break
    return best


def _smaller(source: str) -> Iterator[str]:
    """Sources with one statement removed, or a compound statement replaced by its body."""
    count = sum(1 for _ in _places(ast.parse(source)))
    for index in range(count):
        for replace in (_nothing, _inner):
            tree = ast.parse(source)
            block, position = list(_places(tree))[index]
            new = replace(block[position])
            if new is None:
                continue
            block[position : position + 1] = new
            if not block:
                block.append(ast.Pass())
            try:
                text = ast.unparse(ast.fix_missing_locations(tree))
                compile(text, "<reduced>", "exec")
            except (SyntaxError, ValueError, AttributeError):
                continue
            if text != source:
                yield text


def _places(tree: ast.Module) -> Iterator[tuple[list, int]]:
    """Every statement of `program`, as a block and a position in it; large ones first."""
    (program,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "program")
    for node in ast.walk(program):
        for name in BODIES:
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from ((block, position) for position in range(len(block)))


def _nothing(node: ast.AST) -> list | None:
    return None if isinstance(node, ast.Pass) else []


def _inner(node: ast.AST) -> list | None:
    body = getattr(node, "body", None)
    return list(body) if isinstance(body, list) and not isinstance(node, ast.FunctionDef) else None
