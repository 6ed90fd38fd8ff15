"""State of the process and the thread that a backend must not change.

The extension restores grad mode, dispatcher keys, autocast and random generators. The facts listed here are read before
a backend runs. Those that can be written are restored afterwards; a change of any other is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Fact(NamedTuple):
    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None] | None = None


def _matmul_precision() -> str | None:
    try:
        return torch._C._get_float32_matmul_precision()
    except RuntimeError:  # the separate flags have a combination that the single setting cannot express
        return None


def _set_matmul_precision(value: str | None) -> None:
    if value is not None:
        torch._C._set_float32_matmul_precision(value)


def _deterministic() -> tuple[bool, bool]:
    return torch._C._get_deterministic_algorithms(), torch._C._get_deterministic_algorithms_warn_only()


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch._C._set_deterministic_algorithms(value[0], warn_only=value[1])


def _accelerator_random_state() -> tuple[bytes, ...]:
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return ()
    with torch._C.DisableTorchFunction():  # a mode that the backend left open must not intercept this
        return tuple(bytes(state.tolist()) for state in torch.cuda.get_rng_state_all())


def _set_accelerator_random_state(states: tuple[bytes, ...]) -> None:
    with torch._C.DisableTorchFunction():
        for device, state in enumerate(states):
            torch.cuda.set_rng_state(torch.tensor(list(state), dtype=torch.uint8), device)


FACTS = (
    Fact("default_dtype", torch.get_default_dtype, torch.set_default_dtype),
    Fact("deterministic_algorithms", _deterministic, _set_deterministic),
    Fact("float32_matmul_precision", _matmul_precision, _set_matmul_precision),
    Fact("random state of accelerators", _accelerator_random_state, _set_accelerator_random_state),
    Fact("num_threads", torch.get_num_threads),
    Fact("num_interop_threads", torch.get_num_interop_threads),
    Fact("torch-function modes", torch._C._len_torch_function_stack),
    Fact("torch-dispatch modes", torch._C._len_torch_dispatch_stack),
)


class Ambient:
    """The values of all facts when this object was made."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = [fact.read() for fact in FACTS]

    def put_back(self) -> list[str]:
        """Restores the writable facts; returns a line for each other fact that has changed."""
        changes = []
        for fact, before in zip(FACTS, self._values, strict=True):
            now = fact.read()
            if now == before:
                continue
            if fact.write is None:
                changes.append(f"{fact.name} was {before} and is {now}")
            else:
                fact.write(before)
        return changes
