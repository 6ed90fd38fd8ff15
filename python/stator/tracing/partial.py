"""The graph that a trace has when it fails."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger("stator.make_fx")


def log_partial_graph(trace: Any, error: Exception) -> None:
    """Logs the operators before the failure, and gives an error about data their code as `partial_fx_graph`."""
    is_about_data = isinstance(error, RuntimeError) and "data-dependent" in str(error)
    if not is_about_data and not log.isEnabledFor(logging.DEBUG):
        return
    from .module import build_module

    trace.result = None
    try:
        code = build_module(trace, is_partial=True).print_readable(print_output=False, include_stride=True)
    except Exception as problem:  # the trace may have failed in the middle of an operator
        code = f"<no graph: {problem}>"
    if is_about_data:
        error.partial_fx_graph = code  # type: ignore[attr-defined]
    log.debug("the trace of %s failed after\n%s", trace.signature.names, code)
