"""Tracing of functions by the operators that they call: `stator.make_fx`."""

from .entry import make_fx, wrapper_and_args_for_make_fx

__all__ = ["make_fx", "wrapper_and_args_for_make_fx"]
