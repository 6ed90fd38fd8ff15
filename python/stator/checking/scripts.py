"""The scripts that `Repro.write` writes, and what they call.

NAME.py     the script. It exits with 1 if it sees the failure, and with 0 if it does not.
NAME.pt     inputs of a graph. They are read with `weights_only`, which runs no code.
NAME.rec    the program, and what else can only be pickled. Reading it runs code, which the script says.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .. import records
from ..errors import StatorError
from .failures import Checks, Failure, Limits, graph_failure, program_failure
from .graphs import GraphCall

if TYPE_CHECKING:
    from .repro import Repro, SmallGraph

_HEAD = '''"""{what}

stator {stator}, torch {torch}, Python {python}
{notes}
"""
'''

_GRAPH = """
from math import inf, nan
from pathlib import Path

import torch
from torch import device

from stator.checking.scripts import check_graph

{imports}
class Graph(torch.nn.Module):
{code}

if __name__ == "__main__":
    check_graph(Graph(), Path(__file__), {arguments})
"""

_PROGRAM = """
from pathlib import Path

from stator.checking.scripts import check_program

if __name__ == "__main__":
    check_program(Path(__file__), {arguments})
"""


def write(found: Repro, path: Path) -> Path:
    """Writes the files of what `stator.repro` found; returns the script's path."""
    import stator

    if found.kind is None:
        raise StatorError(f"{found.name} does not fail, so there is nothing to write", code="no-failure")
    path = path.with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    graph = found.graph
    failure = graph.failure if graph is not None else Failure(found.kind, found.what)
    arguments: dict[str, Any] = {"kind": found.kind, "tol": found.checks.tol, "seconds": found.checks.seconds}
    if failure.error is not None:
        arguments["error"] = failure.error
    if found.checks.slower_than is not None:
        arguments["slower_than"] = found.checks.slower_than
    if graph is not None:
        text, notes = _graph_script(found, graph, path, arguments)
    else:
        text, notes = _program_script(found, path, arguments)
    if found.line:
        notes.insert(0, f"Program: {found.file}:{found.line}, in {found.function}")
    what = f"{found.kind} of {found.name}: {failure.what}".replace("\\", "/").replace('"""', "'''")
    head = _HEAD.format(
        what=what.splitlines()[0],
        stator=stator.__version__,
        torch=torch.__version__,
        python=sys.version.split()[0],
        notes="\n".join(notes),
    )
    path.write_text(head + text, encoding="utf-8")
    return path


def _graph_script(found: Repro, graph: SmallGraph, path: Path, arguments: dict[str, Any]) -> tuple[str, list[str]]:
    torch.save({"inputs": graph.inputs, "constants": graph.constants}, path.with_suffix(".pt"))
    notes = [f"Running this file runs the code below. It reads {path.stem}.pt as data only."]
    settings, in_file = _split(found.checks.settings)
    arguments |= settings
    if in_file:
        notes.append(_write_record(path, in_file))
        arguments["record"] = True
    code = "\n".join(f"    {line}".rstrip() for line in graph.code.strip().splitlines() if "import" not in line)
    imports = "\n".join(line for line in graph.code.splitlines() if line.startswith(("import ", "from ")))
    return _GRAPH.format(imports=imports and imports + "\n\n", code=code, arguments=_listed(arguments)), notes


def _program_script(found: Repro, path: Path, arguments: dict[str, Any]) -> tuple[str, list[str]]:
    assert found.call is not None
    settings, in_file = _split(found.checks.settings)
    arguments |= {"break_after": found.limits.break_after, "captures": found.limits.captures, **settings}
    fn, args, kwargs = found.call
    notes = ["No graph of the program fails by itself: its capture is the cause, or a graph cannot be text."]
    notes.append(_write_record(path, {"fn": fn, "args": args, "kwargs": kwargs, **in_file}))
    return _PROGRAM.format(arguments=_listed(arguments)), notes


def _split(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings that a script can hold as text, and the others."""
    as_text = {name: value for name, value in settings.items() if _is_literal(value)}
    return as_text, {name: value for name, value in settings.items() if name not in as_text}


def _is_literal(value: Any) -> bool:
    if type(value) is dict:
        return all(_is_literal(part) for part in (*value, *value.values()))
    return type(value) in (str, int, float, bool, type(None))


def _listed(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _write_record(path: Path, values: dict[str, Any]) -> str:
    file = path.with_suffix(".rec")
    try:
        records.write_values(file, values)
    except Exception as error:  # of any object of the program
        raise StatorError(
            f"the program cannot be written to {file}: {error}",
            hint="define its classes at the top level of a module; pass a backend by name, or a function",
            code="not-recordable",
        ) from error
    return f"CAUTION: it reads {file.name}, which runs code that the file holds. Run it only if you trust the file."


# ---- what the scripts call


def check_graph(module: torch.nn.Module, script: Path, *, record: bool = False, **arguments: Any) -> None:
    """Tries a graph as a program of its own. Exits with 1 if it fails in the way that the script names, else with 0."""
    data = torch.load(script.with_suffix(".pt"), weights_only=True)
    for name, value in data["constants"].items():
        module.register_buffer(name, value) if isinstance(value, torch.Tensor) else setattr(module, name, value)
    more = records.read_values(script.with_suffix(".rec")) if record else {}
    checks, wanted, _ = _parsed({**arguments, **more})
    _leave(graph_failure(GraphCall(module, data["inputs"]), checks), wanted)


def check_program(script: Path, **arguments: Any) -> None:
    """Runs a recorded program, plain and compiled. Exits with 1 if it fails in the way that the script names."""
    values = records.read_values(script.with_suffix(".rec"))
    fn, args, kwargs = (values.pop(name) for name in ("fn", "args", "kwargs"))
    checks, wanted, limits = _parsed({**arguments, **values})
    _leave(program_failure(fn, args, kwargs, checks, limits), wanted)


def _parsed(arguments: dict[str, Any]) -> tuple[Checks, Failure, Limits]:
    wanted = Failure(arguments.pop("kind"), "", arguments.pop("error", None))
    limits = Limits(arguments.pop("break_after", 0), arguments.pop("captures", 0))
    own = {name: arguments.pop(name) for name in ("tol", "seconds", "slower_than") if name in arguments}
    return Checks(arguments, **own), wanted, limits


def _leave(seen: Failure | None, wanted: Failure) -> None:
    if seen is None:
        print(f"not seen: {wanted.kind}")
        sys.exit(0)
    print(f"seen: {seen.kind}: {seen.what}" if wanted.is_like(seen) else f"another failure: {seen.kind}: {seen.what}")
    sys.exit(1 if wanted.is_like(seen) else 2)
