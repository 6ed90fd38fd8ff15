"""Makes torch's operators with sub-graphs call the rows of `table.py` in a trace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._higher_order_ops import utils as torch_utils

from ...fork_safe import ForkSafeLock
from ..current import current_tracer
from .row import apply
from .table import ROWS

_lock = ForkSafeLock()
_installed: set[Any] = set()
_patched: set[Any] = set()


def install() -> None:
    """Makes torch's operators with sub-graphs known to traces, those that were defined since the last call too."""
    collectives: Any = sys.modules.get("torch.distributed._functional_collectives")
    if collectives is not None and collectives not in _patched:
        _patched.add(collectives)
        collectives._are_we_tracing = _or_traced(collectives._are_we_tracing)
    if len(_installed) == len(torch._ops._higher_order_ops):
        return
    with _lock:
        key = torch._C._parse_dispatch_key("DeferredInit")
        if not _installed and hasattr(torch_utils, "_hop_compile_and_call"):
            torch_utils._hop_compile_and_call = _call_or_compile(torch_utils._hop_compile_and_call)
        for op in list(torch._ops._higher_order_ops.values()):
            if op not in _installed:
                _installed.add(op)
                op.py_impl(key)(_handler(op))


def _or_traced(is_tracing: Callable[[], bool]) -> Callable[[], bool]:
    """Torch's own function asks for its tracer: in a trace, collectives wait at once and make no subclass."""
    return lambda: current_tracer() is not None or is_tracing()


def _call_or_compile(compile_and_call: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's own function compiles the operator by Dynamo; a trace calls it."""

    def call(fn: Any, args: Any, kwargs: Any = None) -> Any:
        if current_tracer() is None:
            return compile_and_call(fn, args, kwargs)
        if fn.__name__ == "_cond_op_wrapper":
            return _call_cond(fn, *args)
        return fn(*args, **(kwargs or {}))

    return call


def _call_cond(cond: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
    """The operator's rules for transforms take branches that return tuples."""
    specs: list[Any] = []

    def flat(function: Any) -> Any:
        def branch(*args: Any) -> tuple[Any, ...]:
            leaves, spec = pytree.tree_flatten(function(*args))
            specs.append(spec)
            return tuple(leaves)

        return branch

    leaves = cond(pred, flat(true_fn), flat(false_fn), operands)
    for spec in specs[1:]:
        if spec != specs[0]:
            raise RuntimeError(f"torch.cond: the branches return different structures: {specs[0]} and {spec}")
    return pytree.tree_unflatten(leaves, specs[0])


_AUTOCAST_KEYS = {"cpu": torch._C.DispatchKey.AutocastCPU, "cuda": torch._C.DispatchKey.AutocastCUDA}


def _autocast_kernel(op: Any, args: Any) -> Callable[..., Any] | None:
    """Torch's kernel for autocast, if autocast is on: it casts operands, and calls the operator with the keys of
    autocast excluded."""
    for device, key in _AUTOCAST_KEYS.items():
        if key in op.py_kernels and torch.is_autocast_enabled(device):
            on_device = any(isinstance(arg, torch.Tensor) and arg.device.type == device for arg in args)
            if on_device and not torch._C._dispatch_tls_is_dispatch_key_excluded(key):
                found: Callable[..., Any] = op.py_kernels[key]
                return found
    return None


def _handler(op: Any) -> Callable[..., Any]:
    def handle(*args: Any, **kwargs: Any) -> Any:
        recording = current_tracer()
        if recording is None:  # a trace that is paused: run the program
            return op.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd](*args, **kwargs)
        if (cast := _autocast_kernel(op, args)) is not None:
            return cast(*args, **kwargs)
        row = ROWS.get(op.name())
        if row is None:
            raise NotImplementedError(f"make_fx has no rule for the operator {op.name()}")
        return apply(row(op, recording), args, kwargs)

    return handle
