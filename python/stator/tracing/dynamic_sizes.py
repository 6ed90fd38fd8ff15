"""Fake kernels of operators of the program that ask torch for a size which depends on data
(`torch.library.get_ctx().new_dynamic_size()`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._library import fake_impl

from .current import current_tracer
from .replaced import replace_in_traces


class _Context:
    """What a fake kernel gets in a trace."""

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> Any:
        warnings.warn("use `new_dynamic_size` instead of `create_unbacked_symint`", FutureWarning, stacklevel=2)
        return self.new_dynamic_size(min=min, max=max)

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        if isinstance(min, torch.SymInt) or isinstance(max, torch.SymInt):
            raise ValueError(f"new_dynamic_size(min={min}, max={max}): the bounds must be plain integers")
        if min < 0:
            raise ValueError(f"new_dynamic_size(min={min}): a size is not negative")
        size = _unbacked()
        environment = size.node.env
        environment.assume((size >= min).node)
        if max is not None:
            environment.assume((size <= max).node)
        return size


def _unbacked() -> Any:
    recording: Any = current_tracer()
    if recording.env is None:  # a symbol knows its environment
        recording.env = recording.tracer.symbol(2, "torch.library.get_ctx()").node.env
    return torch.SymInt(recording.env.add_unbacked())


_set_getter = fake_impl.set_ctx_getter


def _set_getter_in_traces(getter: Callable[[], Any]) -> Any:
    # Meta kernels that torch makes of fake kernels refuse to give a context.
    return _set_getter(_Context if getter.__name__ == "error_on_ctx" else getter)


replace_in_traces(fake_impl, "set_ctx_getter", _set_getter, _set_getter_in_traces)
