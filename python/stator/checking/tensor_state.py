"""The state of a tensor: data, version, size, place in memory, gradient and hooks; saved and put back in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class SavedTensor:
    alias: torch.Tensor  # shares the tensor's memory; has its size and strides at the time of saving
    data: torch.Tensor | None  # None: the memory was given back
    size: int  # of the storage, in bytes
    rest: torch.Tensor | None  # the whole storage, if the tensor does not have all of it
    version: int
    requires_grad: bool
    grad_fn: Any
    grad: Any
    hooks: Any


def with_history(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor that an operator with gradients made, which was made by an operator as well."""
    with torch.no_grad():
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        made.copy_(tensor)
    with torch.enable_grad():
        return _Made.apply(made.requires_grad_())


class _Made(torch.autograd.Function):  # type: ignore[misc]
    """Gives a tensor a history, without a copy."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads


def save_tensor(tensor: torch.Tensor) -> SavedTensor:
    with torch.no_grad():
        alias = tensor.detach()
        data = alias.clone() if has_memory(tensor) else None
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        rest = _bytes_of(storage).clone() if size > tensor.numel() * tensor.element_size() else None
    grad = tensor.grad if tensor.is_leaf else None
    version = -1 if tensor.is_inference() else tensor._version
    hooks = tensor._backward_hooks
    return SavedTensor(alias, data, size, rest, version, tensor.requires_grad, tensor.grad_fn, grad, hooks)


def has_changed(tensor: torch.Tensor, old: SavedTensor) -> bool:
    if _has_other_memory(tensor, old) or tensor.requires_grad != old.requires_grad:
        return True
    return not is_equal(tensor.detach(), old.data)


def is_equal(one: torch.Tensor, other: torch.Tensor | None) -> bool:
    """Whether all values are equal; two NaNs are. `other`: the data of a saved tensor."""
    if other is None or not has_memory(one):
        return other is None and not has_memory(one)
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


def restore_tensor(tensor: torch.Tensor, old: SavedTensor) -> None:
    with torch.no_grad():
        if tensor.grad_fn is not old.grad_fn and old.grad_fn is None:
            tensor.detach_()
        storage = old.alias.untyped_storage()
        if storage.nbytes() != old.size:
            storage.resize_(old.size)
        if _has_other_memory(tensor, old):
            tensor.data = old.alias
        if old.data is not None and not is_equal(old.alias, old.data):
            old.alias.copy_(old.data)
        if old.rest is not None and not torch.equal(memory := _bytes_of(storage), old.rest):
            memory.copy_(old.rest)
        if tensor.requires_grad != old.requires_grad:
            tensor.requires_grad_(old.requires_grad)
    if tensor.is_leaf and tensor.grad is not old.grad:
        tensor.grad = old.grad
    if tensor._backward_hooks is not old.hooks:
        tensor._backward_hooks = old.hooks
    if old.version >= 0 and tensor._version != old.version:
        torch._C._autograd._unsafe_set_version_counter((tensor,), (old.version,))


def later_hooks(tensor: torch.Tensor) -> Any:
    """The hooks that run after a gradient was added up, by their numbers."""
    return dict(tensor._post_accumulate_grad_hooks or {})


def set_later_hooks(tensor: torch.Tensor, old: Any) -> None:
    hooks = tensor._post_accumulate_grad_hooks  # torch keeps this dict for good, once it was set
    if hooks is not None:
        hooks.clear()
        hooks.update(old)


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether the storage has all elements of the tensor: a program can give its memory back."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return True
    if tensor.numel() == 0 or tensor.is_meta:
        return True
    last = tensor.storage_offset() + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _has_other_memory(tensor: torch.Tensor, old: SavedTensor) -> bool:
    def key(one: torch.Tensor) -> tuple[Any, ...]:
        return one.data_ptr(), one.shape, one.stride(), one.dtype, one.device

    return key(tensor.detach()) != key(old.alias)
