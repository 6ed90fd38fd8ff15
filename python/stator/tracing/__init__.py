"""Tracing of functions by the operators that they call: `stator.make_fx`."""

from .current import (
    current_tracer,
    decompose,
    disable_tracing,
    get_isolated_graph_module,
    handle_sym_dispatch,
    keep_first_values,
)
from .decompositions import selective_decompose
from .entry import make_fx, trace_native, wrapper_and_args_for_make_fx
from .native import core_aten_decompositions

__all__ = [
    "core_aten_decompositions",
    "current_tracer",
    "decompose",
    "disable_tracing",
    "get_isolated_graph_module",
    "handle_sym_dispatch",
    "keep_first_values",
    "make_fx",
    "selective_decompose",
    "trace_native",
    "wrapper_and_args_for_make_fx",
]
