"""Runs a program's source plain and compiled, and reports the first difference."""

from __future__ import annotations

import functools
import linecache
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

from stator import marks
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
        size = call.size + 2 if call.form == "long" else call.size
        values = torch.rand(2 * size, generator=numbers) * 4 - 2
        if call.form == "double":
            return values[:size].double()
        return values[::2] if call.form == "strided" else values[:size].clone()

    x = vector().requires_grad_(call.grad)
    y = x if call.alias else vector()
    if call.sizes == "marked":
        marks.maybe_mark_dynamic(x, 0)
        marks.mark_static(y, 0)
    xs = [vector() for _ in range(call.lengths[0])]
    ns = list(range(call.lengths[1]))
    n = {"int": int, "float": float, "bool": bool}[call.number](call.n)
    obj = module.Obj(call.n, vector())
    objs, layers = family(module, call, vector, x)
    given = (x, y, n, call.flag, xs, ns, {"a": call.n, "b": 2}, obj, objs, layers, call.w)
    taken = module.program.__code__.co_argcount  # a program that was found earlier may take fewer

    def before(_: Any) -> None:
        change(module, call.world)
        if call.size != len(module.g_tensor):
            module.g_tensor = torch.zeros(call.size)

    return Call(given[:taken], before=before)


def family(module: types.ModuleType, call: Inputs, vector: Callable, x: torch.Tensor) -> tuple[list, list]:
    """Several instances of the program's classes."""
    pool = vars(module).setdefault("_pool", {})
    if not call.kept or "layers" not in pool:
        pool["objs"] = [module.Obj(call.n, vector()), module.Obj(call.n + 1, vector())]
        pool["layers"] = [module.Layer(2), module.Layer(2)]
    objs, layers = list(pool["objs"]), list(pool["layers"])
    if call.family == "same":
        objs[1], layers[1] = objs[0], layers[0]
    elif call.family == "tied":
        objs[1].t, layers[1].weight = objs[0].t, layers[0].weight
    elif call.family == "patched":
        objs[1].step, layers[1].forward = (lambda k=1: vector_like(x, k)), (lambda t: t * 3)
    elif call.family == "shadowed":
        objs[1].kind, layers[1].scale = "own", 0.25
    elif call.family == "other class":
        objs[1] = module.Other(call.n, vector())
        layers[1]._forward_hooks[0] = lambda module, args, out: out * 2  # registering counts in the process
    elif call.family == "other dtype":
        objs[1].t = vector().double()
        layers[1].double().eval()
    elif call.family == "tied to an argument":
        objs[1].t, layers[1].seen = x, objs[0].t.sum()
    return objs, layers


def vector_like(x: torch.Tensor, k: int) -> torch.Tensor:
    return torch.ones_like(x) * k


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
    dynamic = {"static": False, "symbolic": True}.get(calls[0].sizes)
    try:
        return difference(
            outcomes(source, calls, compile_with or functools.partial(stator.compile, dynamic=dynamic)), expected
        )
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
