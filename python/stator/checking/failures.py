"""Whether a compiled program fails where the plain one does not, and how. Each run is made in a child process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import _C
from ..api import compile, reset
from .graphs import GraphCall
from .outcomes import Leaf, Outcome, first_difference, leaves_of, outcome_of
from .trials import in_child

WRONG, ERROR, CRASH, HANG, SLOW = "wrong result", "error", "crash", "hang", "slow capture"


@dataclass(frozen=True)
class Failure:
    """`kind`: one of the names above; `what`: what was seen; `error`: the type of an error."""

    kind: str
    what: str
    error: str | None = None

    def is_like(self, other: Failure | None) -> bool:
        """Whether both are the same failure, as far as that can be told."""
        return other is not None and (self.kind, self.error) == (other.kind, other.error)


@dataclass(frozen=True)
class Checks:
    """How runs are made and compared. `settings`: arguments of `stator.compile`. `slower_than`: a capture that takes
    more milliseconds is a failure."""

    settings: dict[str, Any] = field(default_factory=dict)
    tol: float = 1e-4
    seconds: float = 60.0
    slower_than: float | None = None


@dataclass(frozen=True)
class Limits:
    """`break_after`: as in `config`; `captures`: after this many, captures break at every instruction. 0: no limit."""

    break_after: int = 0
    captures: int = 0


def program_failure(fn: Any, args: Any, kwargs: Any, checks: Checks, limits: Limits | None = None) -> Failure | None:
    """How `fn` fails when it is compiled."""

    def plain() -> Outcome:
        return outcome_of(lambda: _with_gradients(fn, args, kwargs))

    def compiled() -> Outcome:
        reset()
        with limited(limits or Limits()) as times:
            made = outcome_of(lambda: _with_gradients(compile(fn, **checks.settings), args, kwargs, state_of=fn))
        made.ms = max(times, default=0.0)
        return made

    ref = in_child(plain, checks.seconds)
    if ref.ended is not None:
        return None  # the plain program ends this process, or does not end
    return _compared(ref.value, in_child(compiled, checks.seconds), checks, None)


def graph_failure(call: GraphCall, checks: Checks) -> Failure | None:
    """How a graph fails when it is compiled as a program of its own."""

    def plain() -> tuple[Outcome, list[Leaf] | None]:
        made = outcome_of(lambda: _with_gradients(call.module, call.copied_inputs(), {}))
        return made, _exact(call)

    def compiled() -> Outcome:
        reset()
        with limited(Limits()) as times:
            target = compile(call.module, **checks.settings)
            made = outcome_of(lambda: _with_gradients(target, call.copied_inputs(), {}, state_of=call.module))
        made.ms = max(times, default=0.0)
        return made

    ref = in_child(plain, checks.seconds)
    if ref.ended is not None or ref.value[0].error is not None:
        return None
    return _compared(ref.value[0], in_child(compiled, checks.seconds), checks, ref.value[1])


def _compared(ref: Outcome, trial: Any, checks: Checks, exact: list[Leaf] | None) -> Failure | None:
    if trial.ended is not None:
        return Failure(HANG if trial.ended.startswith("did not end") else CRASH, trial.ended)
    res: Outcome = trial.value
    if res.error != ref.error:
        if res.error is None:
            return Failure(WRONG, f"no error, where the plain program raises {ref.error}: {ref.message}")
        return Failure(ERROR, f"{res.error}: {res.message}", res.error)
    if text := first_difference(ref.leaves, res.leaves, checks.tol, exact):
        return Failure(WRONG, text)
    if checks.slower_than is not None and res.ms > checks.slower_than:
        return Failure(SLOW, f"a capture took {res.ms:.0f} ms")
    return None


class limited:
    """Sets the limits for a block, and gives the milliseconds of its captures. Meant for child processes."""

    def __init__(self, limits: Limits, listener: Callable[[dict[str, Any]], None] | None = None):
        self._limits = limits
        self._listener = listener
        self._times: list[float] = []
        self._silenced = logging.root.manager.disable

    def __enter__(self) -> list[float]:
        logging.disable(logging.CRITICAL)
        _C.set_config("break_after", self._limits.break_after)
        _C.set_capture_listener(self._captured)
        return self._times

    def _captured(self, record: dict[str, Any]) -> None:
        self._times.append(record["phases"].get("total", 0.0))
        if self._listener is not None:
            self._listener(record)
        if len(self._times) == self._limits.captures:
            _C.set_config("break_after", -1)

    def __exit__(self, *exc: object) -> None:
        _C.set_capture_listener(None)
        _C.set_config("break_after", 0)
        logging.disable(self._silenced)


def _with_gradients(run: Any, args: Any, kwargs: Any, state_of: Any = None) -> list[Leaf]:
    """What a call gives: results, arguments and state of a module afterwards, and gradients of the results' sum."""
    result = run(*args, **kwargs)
    module = run if state_of is None else state_of
    state: dict[str, torch.Tensor] = {}
    if isinstance(module, torch.nn.Module):
        state = dict((*module.named_parameters(), *module.named_buffers()))
    made = [*leaves_of(result, "result"), *leaves_of(list(args), "arguments"), *leaves_of(kwargs, "arguments")]
    made += leaves_of(state, "state")
    wanted = [leaf for leaf in (*_tensors((args, kwargs)), *state.values()) if leaf.requires_grad]
    ends = [end for end in _tensors(result) if end.grad_fn is not None and end.is_floating_point()]
    if wanted and ends:
        total = sum(end.to(torch.float64).sum() for end in ends)
        gradients = torch.autograd.grad(total, wanted, allow_unused=True)
        made += leaves_of(gradients, "gradients")
    return made


def _tensors(value: Any) -> list[torch.Tensor]:
    import torch.utils._pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _exact(call: GraphCall) -> list[Leaf] | None:
    """The results in double precision, if the graph can be run in it."""
    import copy

    def wide(item: Any) -> Any:
        is_float = isinstance(item, torch.Tensor) and item.is_floating_point()
        return item.detach().double().requires_grad_(item.requires_grad) if is_float else item

    try:
        module = copy.deepcopy(call.module).double()
        return _with_gradients(module, [wide(item) for item in call.copied_inputs()], {})
    except Exception:
        return None
