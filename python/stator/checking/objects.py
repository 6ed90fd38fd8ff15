"""Objects that a program reaches, and the parts of the state that they are: what they hold and their attributes."""

from __future__ import annotations

import functools
import io
import logging
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import reach
from .contents import ATOMS, KINDS, LOCKS, Unsavable, is_of_c, keeps_order, key_text, kind_of, write_dict
from .parts import ABSENT, Part, attributes_of, numpy_state, seed, set_numpy_state, slots
from .tensor_state import later_hooks, set_later_hooks

# Dicts of a module that hold its parameters, buffers and submodules; it gives their items as attributes.
_OF_MODULES = ("_parameters", "_buffers", "_modules")
_HANDLERS = (logging.StreamHandler, logging.FileHandler, logging.NullHandler, type(logging.lastResort))


class Objects:
    """The parts that were found, and the objects whose visit is due."""

    def __init__(self, roots: dict[str, Any]):
        self.tensors: dict[str, torch.Tensor] = {}
        self.parts: list[Part] = []
        # Where tensors with a history are held: a function that puts another tensor there.
        self.holders: list[tuple[torch.Tensor, Callable[[torch.Tensor], None]]] = []
        self._seen: dict[int, Any] = {}  # keeps the objects, so that ids stay theirs
        self._locks: list[str] = []
        self._names = reach.Names()
        self._todo = [(name, value) for name, value in reversed(roots.items())]

    def _visit(self, name: str, value: Any) -> None:
        raise NotImplementedError

    def _visit_tensor(self, name: str, tensor: torch.Tensor) -> None:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
            raise Unsavable(f"a tensor of the class {type(tensor).__name__}, {tensor.layout}: {name}")
        if tensor.is_meta or tensor.is_quantized:
            raise Unsavable(f"a tensor without plain data: {name}")
        if tensor.grad_fn is not None and (tensor.__dict__ or tensor._backward_hooks):
            raise Unsavable(f"a tensor with a history, and with hooks or attributes: {name}")
        while name in self.tensors:
            name += "'"
        self.tensors[name] = tensor
        if tensor.grad_fn is not None:
            return
        self._dict(name, tensor.__dict__, ".")
        self._add(f"{name} (hooks)", lambda: later_hooks(tensor), lambda old: set_later_hooks(tensor, old))
        hooks = (tensor._backward_hooks, *later_hooks(tensor).values(), tensor._base)
        self._later(*((f"{name} (hooks)", hook) for hook in hooks if hook is not None and not _has_history(hook)))
        if tensor.grad is not None:
            self._later((f"{name}.grad", tensor.grad))

    def _visit_object(self, name: str, value: Any) -> None:
        cls = type(value)
        if _is_outside(value):
            return
        if issubclass(cls, logging.Logger):
            self._visit_logger(name, value)
            return
        if _is_generator(cls):
            self._visit_generator(value)
            return
        if issubclass(cls, weakref.ref):
            self._visit_reference(name, value)
            return
        if cls.__name__ == "cython_function_or_method" and reach.is_library_name(value.__module__):
            self._later((name, getattr(value, "__self__", None)))
            return
        if reach.is_cached_by_package(value):
            self._later((name, value.__wrapped__))
            return
        if issubclass(cls, io.IOBase):
            raise Unsavable(f"an open file: {name}")
        if issubclass(cls, (threading.Thread, weakref.finalize)):
            raise Unsavable(f"an object of the class {cls.__name__}: {name}")
        advance = getattr(cls, "__next__", None)
        if advance is not None and not isinstance(advance, types.FunctionType):
            raise Unsavable(f"an iterator, whose position cannot be saved: {name}")
        self._visit_contents(name, value)
        attributes = attributes_of(value)
        if attributes is not None and id(attributes) not in self._seen:
            self._seen[id(attributes)] = attributes
            self._dict(name, attributes, ".")
        for slot, member in slots(cls):
            self._slot(f"{name}.{slot}", value, member)
        if cls.__module__.startswith("torch.backends"):
            self._add_properties(value, self._names)
        self._later((cls.__name__, cls))

    def _visit_contents(self, name: str, value: Any) -> None:
        """What the C classes of an object hold."""
        covered: set[type] = {object}
        for base in type(value).__mro__:
            if base in covered or not is_of_c(base):
                continue
            covered |= set(base.__mro__)
            kind = kind_of(base)
            if kind is None:
                raise Unsavable(f"an object of the class {base.__module__}.{base.__qualname__}: {name}")
            if base in LOCKS:
                self._locks.append(name)
            if base is set and not keeps_order(value):
                raise Unsavable(f"a set whose order cannot be put back: {name}")
            if kind is KINDS[types.BuiltinFunctionType] and isinstance(value.__self__, types.ModuleType):
                if not reach.is_library_name(value.__self__.__name__):
                    raise Unsavable(f"a function of the C module {value.__self__.__name__}: {name}")
                continue
            self._add_kind(name, value, kind)

    def _add_kind(self, name: str, value: Any, kind: Any) -> None:
        if kind.read is not None:
            self._add(name, functools.partial(kind.read, value), functools.partial(kind.write, value))
        owner, _, last = name.rpartition(".")
        for suffix, item, put in kind.items(value):
            if put is not None:
                self._held(item, put)
            if last in _OF_MODULES and suffix.startswith("['"):
                self._later((f"{owner}.{suffix[2:-2]}", item))
            else:
                self._later((name + suffix, item))

    def _dict(self, name: str, value: dict[Any, Any], kind: str, but: tuple[str, ...] = ()) -> None:
        self._add(name, lambda: dict(value), lambda old: write_dict(value, old))
        for key, item in list(value.items()):
            if key in but:
                continue
            self._held(item, functools.partial(value.__setitem__, key))
            self._later((f"{name}.{key}" if kind == "." else f"{name}[{key_text(key)}]", item))
            if type(key) not in ATOMS:
                self._later((f"key of {name}", key))

    def _slot(self, name: str, owner: Any, member: Any) -> None:
        def read() -> Any:
            try:
                return member.__get__(owner)
            except AttributeError:
                return ABSENT

        def write(old: Any) -> None:
            if old is ABSENT:
                member.__delete__(owner)
            else:
                member.__set__(owner, old)

        self._add(name, read, write)
        self._held(read(), write)
        self._later((name, read()))

    def _visit_logger(self, name: str, logger: Any) -> None:
        """What a logger prints is outside of the process, if all of its handlers are of the standard library."""
        self._add(f"<{name}>", lambda: dict(logger.__dict__), lambda old: write_dict(logger.__dict__, old))
        self._add(f"<{name}>", lambda: list(logger.handlers), lambda old: logger.handlers.__setitem__(slice(None), old))
        for handler in logger.handlers:
            if type(handler) not in _HANDLERS or handler.filters:
                raise Unsavable(f"a log handler of the class {type(handler).__name__}: {name}")
            if not reach.is_outside(getattr(handler, "stream", None)):
                raise Unsavable(f"a log that stays in the process: {name}")
        self._later(
            (f"{name}.filters", logger.filters),
            *(((name, logger.parent),) if logger.parent and logger.propagate else ()),
        )

    def _visit_reference(self, name: str, value: Any) -> None:
        target = value()
        if value.__callback__ is not None or not isinstance(
            target, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor, dict, type(None))
        ):
            raise Unsavable(f"a weak reference: {name}")
        self._later((name, target))

    def _visit_generator(self, value: Any) -> None:
        if isinstance(value, random.Random):
            own = random.Random
            self._add("<random>", functools.partial(own.getstate, value), functools.partial(own.setstate, value))
        elif isinstance(value, torch.Generator):
            self._add("<generator>", lambda: value.get_state().numpy().tobytes(), lambda old: seed(value, old))
        elif (owner := getattr(value, "bit_generator", value if hasattr(value, "get_state") else None)) is not None:
            self._add("<numpy>", lambda: numpy_state(owner), lambda old: set_numpy_state(owner, old))

    def _add_generators(self) -> None:
        self._visit("<random>", random._inst)
        self._visit("<torch>", torch.default_generator)
        if (numpy := sys.modules.get("numpy")) is not None:
            self._visit("<numpy>", numpy.random.mtrand._rand)
        if torch.cuda.is_initialized():
            for generator in torch.cuda.default_generators:
                self._visit("<cuda>", generator)

    def _add_globals_of_torch(self) -> None:
        """The hooks of all modules and all optimizers."""
        for owner in (torch.nn.modules.module, sys.modules.get("torch.optim.optimizer")):
            for name, value in vars(owner).items() if owner is not None else ():
                if name.startswith("_global_") and isinstance(value, dict):
                    self._todo.append((name, value))

    def _held(self, value: Any, put: Callable[[torch.Tensor], None]) -> None:
        if isinstance(value, torch.Tensor) and value.grad_fn is not None:
            self.holders.append((value, put))

    def _add_properties(self, owner: Any, names: reach.Names) -> None:
        """Attributes that code of torch keeps elsewhere, as those of `torch.backends` are."""
        for key in sorted(names.stored - vars(owner).keys()):
            if hasattr(owner, key):
                self._add(key, functools.partial(getattr, owner, key), functools.partial(setattr, owner, key))

    def _add(self, name: str, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        self.parts.append(Part(name, read, write))

    def _later(self, *items: tuple[str, Any]) -> None:
        self._todo += reversed(items)


def _is_outside(value: Any) -> bool:
    """Whether an object is not part of the state: streams of the process, Stator's own objects, operators of torch."""
    cls = type(value)
    if cls in (torch._ops.OpOverload, torch._ops.OpOverloadPacket):
        space = (value._schema.name if cls is torch._ops.OpOverload else value._qualified_op_name).split("::")[0]
        if space not in reach.OPERATORS:
            raise Unsavable(f"an operator that torch does not define: {value}")
        return True
    if hasattr(cls, "__members__") and reach.is_library_name(cls.__module__):
        return True  # an enumeration of pybind11
    is_stream = value in (sys.__stdout__, sys.__stderr__, sys.__stdin__) if issubclass(cls, io.IOBase) else False
    return is_stream or (cls.__module__.split(".")[0] == "stator" and not is_of_c(cls))  # type: ignore[arg-type]


def _has_history(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.grad_fn is not None


def _is_generator(cls: Any) -> bool:
    is_numpy = cls.__module__.startswith("numpy.random") and is_of_c(cls)
    return issubclass(cls, torch.Generator) or cls is random.Random or is_numpy
