"""torch.compile's settings, compile callbacks and counters: used if the program has imported torch.compile's modules.
Nothing here imports them."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

# Torch's settings that have the same meaning here. Stator's own value wins if it is not the default.
SETTINGS = (
    "recompile_limit",
    "accumulated_recompile_limit",
    "fail_on_recompile_limit_hit",
    "suppress_errors",
    "disable",
    "assume_static_by_default",
    "automatic_dynamic_shapes",
    "specialize_int",
    "specialize_float",
    "allow_ignore_mark_dynamic",
    "force_parameter_static_shapes",
)


def setting(name: str) -> Any:
    """The value of torch's setting; None if torch.compile is not imported."""
    assert name in SETTINGS
    settings: Any = sys.modules.get("torch._dynamo.config")
    return getattr(settings, name, None)


def add_backend(backend: Any) -> None:
    """Adds a backend to those that `torch._dynamo.reset()` resets."""
    cached = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", None)
    if cached is not None:
        cached[id(backend)] = backend


def started(compile_id: str) -> AbstractContextManager[None] | bool:
    """Runs torch's callbacks for the start of a compilation; the block whose end runs those for the end, or False."""
    module: Any = sys.modules.get("torch._dynamo.callback")
    handler = getattr(module, "callback_handler", None)
    if handler is None or not (handler.start_callbacks or handler.end_callbacks):
        return False
    block: AbstractContextManager[None] = handler.install_callbacks(module.CallbackTrigger.DYNAMO, compile_id)
    block.__enter__()
    return block


def ended(block: AbstractContextManager[None] | bool, ok: bool, ops: int, broke: str) -> None:
    """The end of the capture that `started` returned `block` for. `broke`: why it ended in a graph break, or empty."""
    module: Any = sys.modules.get("torch._dynamo.utils")
    counters = getattr(module, "counters", None)
    if counters is not None:
        counters["frames"]["total"] += 1
        counters["frames"]["ok"] += ok
        counters["stats"]["calls_captured"] += ops
        counters["stats"]["unique_graphs"] += ops > 0
        if broke:
            counters["graph_break"][broke] += 1
    if not isinstance(block, bool):
        block.__exit__(None, None, None)
