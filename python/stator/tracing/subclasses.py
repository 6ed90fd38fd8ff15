"""Tensor subclasses with `__torch_dispatch__` among the arguments of a trace: operators on them are nodes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _C

_VALUES = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)


def is_subclass(leaf: Any) -> bool:
    """Whether its operators are dispatched to Python; parameters and other classes of plain tensors are not."""
    return isinstance(leaf, torch.Tensor) and torch._C._dispatch_keys(leaf).has(torch._C.DispatchKey.Python)


class _Below(TorchDispatchMode):  # type: ignore[misc]
    """Is on while autograd's kernel of an operator runs, and gives the trace the operators that it calls."""

    def __init__(self, values: Callable[[], Any]) -> None:
        super().__init__()
        self.values = values

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.values().tracer.call_on_subclass(func, args, kwargs or {})


class SubclassValues:
    """The subclasses that are values of a trace, by the memory of the tensors inside of them.

    Autograd copies what it saves, and `t.data` is a copy: the class makes them by its own operators, unseen by the
    trace. A copy is found by its memory."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.values: dict[Any, int] = {}
        self.storages: list[StorageWeakRef] = []  # no other storage gets the address of one that is in a key

    def add(self, leaf: torch.Tensor, name: str, mode: str) -> torch.Tensor:
        """The tensor that the function gets for an argument."""
        made = leaf if mode == "real" else _over_fakes(self.tracer, leaf, name)
        self.tracer.subclass_input(leaf, made, name)
        if not self.values:
            this: Any = weakref.ref(self)  # the tracer takes no part in garbage collection
            self.tracer.set_subclasses(
                _Below(this), lambda tensor: this().note(tensor), lambda tensor: this().original(tensor)
            )
        for tensor in (leaf, made):
            self.note(tensor, f"the input {name}, a {type(leaf).__name__}")
        return made

    def note(self, tensor: torch.Tensor, what: str | None = None) -> None:
        what = what or f"a {type(tensor).__name__}"
        for inner in _inner(tensor, set()):
            message = f"the program uses a tensor inside of {what}: only operators on the {type(tensor).__name__} "
            self.tracer.forbid(inner, message + "itself can be nodes")
        if self.tracer.has(tensor):
            self.values[self.key(tensor, keep=True)] = self.tracer.output(tensor)

    def original(self, tensor: torch.Tensor) -> int | None:
        return self.values.get(self.key(tensor))

    def key(self, tensor: torch.Tensor, keep: bool = False) -> Any:
        parts: list[Any] = [type(tensor)]
        for inner in _inner(tensor, set()):
            if is_subclass(inner):
                parts.append(type(inner))
                continue
            storage = inner.untyped_storage()
            if keep:
                self.storages.append(StorageWeakRef(storage))
            geometry = inner.dtype, str(inner.size()), str(inner.stride()), str(inner.storage_offset())
            parts.append((storage._cdata, *geometry))
        return tuple(parts)


def with_class_of(leaf: torch.Tensor, made: torch.Tensor, name: str) -> torch.Tensor:
    """The fake of an input, as a tensor of the input's class, which may have a `__torch_function__`."""
    if type(made) is not type(leaf):
        try:
            made.__class__ = type(leaf)
        except TypeError as error:
            raise RuntimeError(
                f"cannot be traced: the input {name} is a {type(leaf).__name__}, which no tensor of a trace can become"
            ) from error
        vars(made).update(vars(leaf))
    return made


class Wrapper:
    """How to make a tensor subclass that the function made of the tensors inside of it. In a graph: an attribute."""

    def __init__(self, tensor: torch.Tensor) -> None:
        flatten = getattr(tensor, "__tensor_flatten__", None)
        self.made: type = type(tensor)
        if flatten is None or getattr(self.made, "__tensor_unflatten__", None) is None:
            raise RuntimeError(
                f"cannot be traced: a result is a {self.made.__name__} that the function made; a graph makes it again "
                "if its class has __tensor_flatten__ and __tensor_unflatten__"
            )
        self.names, self.context = flatten()
        if any(isinstance(leaf, _VALUES) for leaf in pytree.tree_leaves(self.context)):
            raise RuntimeError(
                f"cannot be traced: a result is a {self.made.__name__} whose context has values of the trace"
            )

    def parts(self, tensor: torch.Tensor) -> list[Any]:
        return [*(getattr(tensor, name) for name in self.names), tensor.size(), tensor.stride()]


def wrapped(wrapper: Wrapper, *parts: Any) -> torch.Tensor:
    """The tensor subclass over what `Wrapper.parts` gave. A node calls it."""
    *inner, size, stride = parts
    given = dict(zip(wrapper.names, inner, strict=True))
    return wrapper.made.__tensor_unflatten__(given, wrapper.context, torch.Size(size), tuple(stride))  # type: ignore[attr-defined]


def holds_fakes(tensor: torch.Tensor) -> bool:
    return _C._fake.is_fake(tensor) or any(_C._fake.is_fake(inner) for inner in _inner(tensor, set()))


def _inner(tensor: torch.Tensor, seen: set[int]) -> Iterator[torch.Tensor]:
    """The tensors that it holds, and those that they hold."""
    seen.add(id(tensor))
    for value in vars(tensor).values():
        if isinstance(value, torch.Tensor) and id(value) not in seen:
            yield value
            if is_subclass(value):
                yield from _inner(value, seen)


def _over_fakes(tracer: Any, tensor: torch.Tensor, name: str) -> torch.Tensor:
    if not is_subclass(tensor):
        return tracer.fake_of(tensor, name)
    flatten, unflatten = (getattr(tensor, attr, None) for attr in ("__tensor_flatten__", "__tensor_unflatten__"))
    if flatten is None or unflatten is None:
        raise RuntimeError(
            f"cannot be traced: the input {name} is a {type(tensor).__name__}, which needs __tensor_flatten__ and "
            '__tensor_unflatten__ in this mode; or use tracing_mode="real"'
        )
    names, context = flatten()
    inner = {attr: _over_fakes(tracer, getattr(tensor, attr), f"{name}.{attr}") for attr in names}
    # A size of the instance that equals one of an inner tensor gets the same symbol.
    like = tracer.fake_of(torch.empty_strided(tensor.size(), tensor.stride(), device="meta"), name)
    made = unflatten(inner, context, like.size(), like.stride())
    return made.requires_grad_(tensor.requires_grad)
