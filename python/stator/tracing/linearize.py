"""`torch.func.linearize` in a trace. Torch traces the derivative into a module of its own; here its operators are those
of the trace, so the derivative is computed where the program asks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._functorch import eager_transforms

from .replaced import replace_in_traces


class _Derivative:
    """What torch takes for the module: a function of the tangents."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *tangents: torch.Tensor) -> Any:
        names = inspect.getclosurevars(self.function).nonlocals
        if not {"func", "flat_primals", "primals_argspec"} <= names.keys():  # another version of torch
            return self.function(tangents)

        def flat(*primals: torch.Tensor) -> Any:
            return names["func"](*pytree.tree_unflatten(primals, names["primals_argspec"]))

        return pytree.tree_leaves(torch.func.jvp(flat, tuple(names["flat_primals"]), tangents)[1])


_disallow = eager_transforms.lazy_dynamo_disallow


def _in_a_trace(function: Callable[..., Any]) -> Callable[..., Any]:
    if function is eager_transforms.make_fx:
        return lambda derivative: lambda _tangents: _Derivative(derivative)
    if function is eager_transforms.const_fold.split_const_subgraphs:
        return lambda derivative: derivative
    return _disallow(function)


replace_in_traces(eager_transforms, "lazy_dynamo_disallow", _disallow, _in_a_trace)
