"""State of the process and the thread that a backend must not change.

The extension restores grad mode, dispatcher keys, autocast and random generators. The facts listed here are read before
a backend runs. Those that can be written are restored afterwards; a change of any other is reported. A backend that
raised leaves nothing: `release` also leaves its modes, and drops its guard objects before the extension restores the
state.
"""

from __future__ import annotations

import contextlib
import gc
import os
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep


class Fact(NamedTuple):
    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None] | None = None
    repair: Callable[[Any], None] | None = None  # restores a fact that is otherwise reported, after an error


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
    Fact("num_threads", torch.get_num_threads, repair=torch.set_num_threads),
    Fact("num_interop_threads", torch.get_num_interop_threads),
    Fact("torch-function modes", torch._C._len_torch_function_stack),
    Fact("torch-dispatch modes", torch._C._len_torch_dispatch_stack),
)


class Ambient:
    """The values of all facts, and the numbers of open modes, when this object was made."""

    __slots__ = ("_modes", "_values")

    def __init__(self) -> None:
        self._values = [fact.read() for fact in FACTS]
        self._modes = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()

    def put_back(self, error: BaseException | None = None) -> list[str]:
        """Restores the writable facts; returns a line for each other fact that has changed. `error`: what the backend
        raised. Then everything is restored that can be."""
        if error is not None:
            release(error, *self._modes)
        changes = []
        for fact, before in zip(FACTS, self._values, strict=True):
            now = fact.read()
            if now == before:
                continue
            write = fact.write or (fact.repair if error is not None else None)
            if write is None:
                changes.append(f"{fact.name} was {before} and is {now}")
            else:
                write(before)
        return changes


def release(error: BaseException, function_modes: int, dispatch_modes: int) -> None:
    """After code of a backend raised `error`: leaves modes beyond those numbers. Clears the frames that hold objects
    which change torch's state when they die."""
    _leave(function_modes, torch._C._len_torch_function_stack, torch._C._get_function_stack_at, _pop_function_mode)
    _leave(dispatch_modes, torch._C._len_torch_dispatch_stack, torch._C._get_dispatch_stack_at, _pop_dispatch_mode)
    while torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        torch._C._autograd._pop_saved_tensors_default_hooks()
    for frame in _frames(error):
        if _holds_guard(frame):
            with contextlib.suppress(RuntimeError):  # the frame is running
                frame.clear()


def call_without_warnings(function: Callable[..., Any], *inputs: Any) -> Any:
    """Calls what a backend made of a graph whose program has changed the warning filters. Raises if torch warns: the
    plain program runs then, under its own filters."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = function(*inputs)
    if seen:
        raise RuntimeError(f"torch warned while the program has changed the warning filters: {seen[0].message}")
    return result


def _pop_function_mode() -> None:
    torch._C._pop_torch_function_stack()


def _pop_dispatch_mode() -> None:
    torch._C._pop_torch_dispatch_stack(None)


def _leave(count: int, length: Callable[[], int], at: Callable[[int], Any], pop: Callable[[], None]) -> None:
    while (before := length()) > count:
        # Calls `__exit__`, because a mode also restores its own variables there.
        with contextlib.suppress(Exception):
            at(before - 1).__exit__(None, None, None)
        if length() >= before:
            pop()


def _frames(error: BaseException) -> Iterator[types.FrameType]:
    """The frames of an error and of those before it, the innermost of each first."""
    chain: list[BaseException] = [error]
    seen = {id(error)}
    for current in chain:
        traceback, frames = current.__traceback__, []
        while traceback is not None:
            frames.append(traceback.tb_frame)
            traceback = traceback.tb_next
        yield from reversed(frames)
        for other in (current.__cause__, current.__context__):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                chain.append(other)


def _holds_guard(frame: types.FrameType) -> bool:
    """Whether the frame is one of torch's own, or holds an object of a class of torch's extension, as guards are."""
    if frame.f_code.co_filename.startswith(_TORCH):
        return True
    # Not `f_locals`, which would hold the objects as well.
    return any(type(value).__module__.startswith("torch._C") for value in gc.get_referents(frame))
