"""Where a difference between a compiled call and the plain one starts: the first node of a graph whose value the plain
program does not have, or the first operator that the backend computes differently."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import places, targets
from .graphs import GraphCall, first_failing_prefix, place_of
from .outcomes import first_difference, leaves_of


@dataclass(frozen=True)
class Start:
    """`cause`: "capture" if the graph computes something other than the program; "backend" if the backend computes
    something other than the graph."""

    node: str
    operator: str
    line: places.Line | None
    cause: str


@dataclass(frozen=True)
class _Step:
    """An operator that ran below autograd, and a digest of its results."""

    operator: str
    digest: bytes
    node: torch.fx.Node | None = None


class _Recorder(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, steps: list[_Step], node: Callable[[], torch.fx.Node | None]):
        super().__init__()
        self._steps = steps
        self._node = node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if "empty" not in func.overloadpacket.__name__:  # their memory has no values yet
            self._steps.append(_Step(str(func), _digest(made), self._node()))
        return made


def _digest(value: Any) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for tensor in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not tensor.is_meta:
            plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
            made.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
            made.update(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return made.digest()


@dataclass
class _Graphs:
    """A backend that runs graphs node by node, and records what each node runs."""

    steps: list[_Step] = field(default_factory=list)
    calls: list[GraphCall] = field(default_factory=list)

    def __call__(self, gm: Any, example_inputs: Any) -> Callable[..., Any]:
        steps, calls = self.steps, self.calls

        class Run(torch.fx.Interpreter):  # type: ignore[misc]
            node: torch.fx.Node | None = None

            def run_node(self, n: torch.fx.Node) -> Any:
                self.node = n
                return super().run_node(n)

        def run(*args: Any) -> Any:
            calls.append(GraphCall(gm, GraphCall(gm, list(args)).copied_inputs()))
            interpreter = Run(gm)
            with _Recorder(steps, lambda: interpreter.node):
                return interpreter.run(*args)

        return run


def starts_in_capture(
    plain: Callable[..., Any], function: Any, again: Callable[[Callable[..., Any]], None]
) -> tuple[Start | None, list[GraphCall]]:
    """Compares the operators of a plain run with those of the graphs, in order. Also returns the calls of graphs.

    again: runs a function on the arguments, from the same state."""
    steps: list[_Step] = []

    def recorded(*args: Any, **kwargs: Any) -> Any:
        with _Recorder(steps, lambda: None):
            return plain(*args, **kwargs)

    again(recorded)
    graphs = _Graphs()
    again(targets.compile_function(targets.with_own_code(function), targets.Settings(backend=graphs)))
    position = 0
    for step in graphs.steps:
        # The plain run also has the operators that run between graphs.
        found = next((i for i in range(position, len(steps)) if _is_same(steps[i], step)), None)
        if found is None:
            assert step.node is not None
            return _start(step.node, "capture"), graphs.calls
        position = found + 1
    return None, graphs.calls


def _is_same(one: _Step, other: _Step) -> bool:
    return one.operator == other.operator and one.digest == other.digest


def starts_in_backend(calls: list[GraphCall], settings: Any, tol: float) -> Start | None:
    """Runs each graph and what the backend compiled from it on the same inputs. Returns the first operator after which
    the results differ."""
    own = dataclasses.replace(settings, shadow=0, on_difference=None, fullgraph=False)

    def differs(call: GraphCall) -> bool:
        leaves = []
        grad, random = torch.is_grad_enabled(), torch.get_rng_state()
        for module in (call.module, targets.compile_target(call.module, own)):
            try:
                torch.set_rng_state(random)
                leaves.append(list(leaves_of(module(*call.copied_inputs()))))
            finally:
                torch.set_grad_enabled(grad)
        torch.set_rng_state(random)
        return first_difference(leaves[0], leaves[1], tol) is not None

    for call in calls:
        if call.operators and differs(call):
            return _start(call.operators[first_failing_prefix(call, differs) - 1], "backend")
    return None


def _start(node: torch.fx.Node, cause: str) -> Start:
    return Start(node.name, str(node.target), place_of(node), cause)
