"""Runs a program's source plain and compiled, and reports the first difference."""

from __future__ import annotations

import linecache
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

from tests.fuzz.grammar import Inputs
from tests.python.parity.corpus.observe import difference
from tests.python.parity.corpus.registry import Call
from tests.python.parity.corpus.run import observe_call, state_kept

FILE = "<fuzzed program>"


def outcomes(source: str, calls: list[Inputs], compile_with: Callable | None = None) -> list[dict[str, Any]]:
    """Observations of every call, in a new namespace and with new code objects."""
    code = compile(source, FILE, "exec", dont_inherit=True)
    module = types.ModuleType("fuzzed")
    module.__file__ = FILE
    with state_kept(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, module.__dict__)
        target = module.program
        callable_ = target if compile_with is None else compile_with(target)
        return [observe_call(module, target, callable_, arguments(module, call), call.seed) for call in calls]


def arguments(module: types.ModuleType, call: Inputs) -> Call:
    numbers = torch.Generator().manual_seed(call.seed)

    def vector() -> torch.Tensor:
        values = torch.rand(6, generator=numbers) * 4 - 2
        if call.form == "double":
            return values[:3].double()
        return values[::2] if call.form == "strided" else values[: 5 if call.form == "long" else 3].clone()

    x = vector().requires_grad_(call.grad)
    y = x if call.alias else vector()
    xs = [vector() for _ in range(call.lengths[0])]
    ns = list(range(call.lengths[1]))
    n = {"int": int, "float": float, "bool": bool}[call.number](call.n)
    obj = module.Obj(call.n, vector())
    return Call((x, y, n, call.flag, xs, ns, {"a": call.n, "b": 2}, obj), before=lambda _: change(module, call.world))


def change(module: types.ModuleType, world: int) -> None:
    """Changes a global of the module between two calls."""
    if world == 1:
        module.SCALE = 5
    elif world == 2:
        module.g_table["b"] = 9
        module.Obj.kind = "changed"
    elif world == 3:
        module.helper = lambda t, k=1, *more, scale=3, **rest: t * scale - k


def compare(
    source: str,
    calls: list[Inputs],
    compile_with: Callable | None = None,
) -> str | None:
    """The first difference between the plain and the compiled program, or None."""
    import stator

    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    expected = outcomes(source, calls)
    stator.reset()
    try:
        return difference(outcomes(source, calls, compile_with or stator.compile), expected)
    finally:
        stator.reset()


class Tally:
    """Counts programs, one per `with` block: how many were captured, and how many without a break."""

    def __init__(self) -> None:
        self.programs = self.captured = self.one_graph = 0

    def __enter__(self) -> None:
        from stator import _C

        self._records: list[dict] = []
        self._before = _C.set_capture_listener(self._records.append)

    def __exit__(self, *exc: object) -> None:
        from stator import _C

        _C.set_capture_listener(self._before)
        graphs = any(record.get("graph") is not None for record in self._records)
        breaks = any(record.get("break_reason") for record in self._records)
        self.programs += 1
        self.captured += graphs
        self.one_graph += graphs and not breaks
