"""Objects that a plan makes by a call, because their class has no constructor from their state."""

from __future__ import annotations

import _random
import random
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def generator(state: tuple[Any, ...]) -> random.Random:
    """A `random.Random` with the state that its C part gave; the plan sets its attributes."""
    made: random.Random = random.Random.__new__(random.Random)
    _random.Random.setstate(made, state)
    return made


class _Answer(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, make: Callable[[], torch.Tensor]) -> None:
        super().__init__()
        self.make = make

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> torch.Tensor:
        return self.make()


def wrapper_view(
    func: Any,
    args: tuple[Any, ...] | None,
    kwargs: dict[str, Any] | None,
    grad_mode: bool,
    same_storage: torch.Tensor | None,
    cls: type,
    *size: Any,
    **options: Any,
) -> torch.Tensor:
    """A new tensor of a class with a `__torch_dispatch__` that autograd takes for what the operator gives: the operator
    is called, and gets this tensor where it would call the class. Without an operator the tensor is no view. It has the
    storage of another tensor if that is given."""

    def make() -> torch.Tensor:
        made = torch.Tensor._make_wrapper_subclass(cls, *size, **options)
        if same_storage is not None:
            torch._functionalize_unsafe_set(made, same_storage)
        return made

    if func is None:
        return make()
    assert args is not None and kwargs is not None
    with torch.set_grad_enabled(grad_mode), torch._C.DisableTorchFunction(), _Answer(make):
        return func(*args, **kwargs)


def untracked(view: torch.Tensor) -> torch.Tensor:
    """The same memory in a tensor that is no view to autograd: what operators give inside of a `__torch_dispatch__`."""
    with torch._C._AutoDispatchBelowADInplaceOrView():
        return torch.ops.aten.alias.default(view)
