"""Gradients of the functions that operators take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from .parts import Tensors


def vector_jacobian(function: Callable[..., Any], count: int, captured: Tensors) -> Callable[..., Any]:
    """A function of `count` inputs and of gradients of the results: the gradients of the inputs and of the captured
    tensors, zeros where there are none. A gradient of a result may be None."""

    def gradients(*args: Any) -> tuple[torch.Tensor, ...]:
        given, grads = args[:count], args[count:]
        again = torch.is_grad_enabled()  # these gradients are differentiated themselves

        def input_of(tensor: torch.Tensor) -> torch.Tensor:
            if again and tensor.requires_grad:
                return tensor.view_as(tensor)
            return tensor.detach().requires_grad_(tensor.is_floating_point() or tensor.is_complex())

        with torch.enable_grad():
            inputs = [input_of(tensor) for tensor in given]
            results = [r for r in pytree.tree_leaves(function(*inputs)) if isinstance(r, torch.Tensor)]
            pairs = [(r, g) for r, g in zip(results, grads, strict=True) if r.requires_grad and g is not None]
            wanted = [t for t in (*inputs, *captured) if t.requires_grad]
            found: Any = [None] * len(wanted)
            if pairs and wanted:
                found = torch.autograd.grad(
                    [r for r, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True, create_graph=again
                )
        by = {id(t): g for t, g in zip(wanted, found, strict=True)}
        made = [by.get(id(t)) for t in (*inputs, *captured)]
        return tuple(
            torch.zeros_like(t) if g is None else g.clone() for t, g in zip((*given, *captured), made, strict=True)
        )

    return gradients
