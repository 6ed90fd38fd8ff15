"""A FakeTensorMode of torch that a traced function enters changes nothing: the trace has fakes already, and a mode of
torch's would hide them."""

from __future__ import annotations

import sys
import threading
from typing import Any

import torch

from .. import _C
from .current import current_tracer


class _Thread(threading.local):
    def __init__(self) -> None:
        self.entered: list[Any] = []  # modes that traced functions have entered


_thread = _Thread()


def fake_mode_rows() -> list[tuple[Any, str, Any]]:
    """What torch's class has in traces, if it is loaded: (owner, name, function)."""
    fakes: Any = sys.modules.get("torch._subclasses.fake_tensor")
    mode_class = getattr(fakes, "FakeTensorMode", None)
    if mode_class is None:
        return []
    enter, leave, from_tensor = mode_class.__enter__, mode_class.__exit__, mode_class.from_tensor

    def __enter__(mode: Any) -> Any:
        if current_tracer() is None:
            return enter(mode)
        _thread.entered.append(mode)
        return mode

    def __exit__(mode: Any, *error: Any) -> Any:
        if _thread.entered and _thread.entered[-1] is mode:
            _thread.entered.pop()
            return None
        return leave(mode, *error)

    def fake_of(mode: Any, tensor: torch.Tensor, **options: Any) -> Any:
        is_traced = current_tracer() is not None and _C._fake.is_fake(tensor)
        return tensor if is_traced else from_tensor(mode, tensor, **options)

    return [
        (mode_class, "__enter__", __enter__),
        (mode_class, "__exit__", __exit__),
        (mode_class, "from_tensor", fake_of),
    ]
