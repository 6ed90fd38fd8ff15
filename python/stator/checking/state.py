"""The state that a program can reach: saved, compared and put back in place, so that the program can run twice.

Reached are the arguments, what functions find in closures, defaults and globals, attributes of instances and of the
user's own classes, and elements of containers. Objects stay the same ones: containers get their old contents, tensors
their old data, version, size and gradient. Only a tensor with a history (`grad_fn`) cannot get that back after a write:
where it is held, a copy takes its place (`hidden`).
"""

from __future__ import annotations

import collections
import functools
import io
import pickle
import random
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

from .. import places
from .outcomes import Leaf, TensorFacts, tensor_facts

# The most objects that are visited.
_MOST = 200_000
_PLAIN: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes, type(...), slice, range)
_ATOMS = (*_PLAIN, torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format)
# Dicts of a module that hold its parameters, buffers and submodules; it gives their items as attributes.
_OF_MODULES = ("_parameters", "_buffers", "_modules")
_CELL_EMPTY = object()
_ABSENT = object()


class Unsavable(Exception):
    """The state has a part that cannot be put back. The text names it."""


@dataclass(frozen=True)
class SavedTensor:
    alias: torch.Tensor  # shares the tensor's memory; has its size and strides at the time of saving
    data: torch.Tensor
    version: int
    requires_grad: bool
    grad_fn: Any
    grad: Any


@dataclass
class Part:
    """One object whose state is saved. `read` gives its state, `write` puts one back."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None]


class State:
    """All parts that are reached from `roots`, a dict of names and objects."""

    def __init__(self, roots: dict[str, Any]):
        self.tensors: dict[str, torch.Tensor] = {}
        self._parts: list[Part] = []
        # Where tensors with a history are held: a function that puts another tensor there.
        self._holders: list[tuple[torch.Tensor, Callable[[torch.Tensor], None]]] = []
        self._copies: dict[int, torch.Tensor] = {}  # those in their places now
        self._seen: dict[int, Any] = {}  # keeps the objects, so that ids stay theirs
        self._todo = [(name, value) for name, value in reversed(roots.items())]
        while self._todo:
            self._visit(*self._todo.pop())
        self._add_generators()
        known = {id(tensor) for tensor, _ in self._holders} | {id(leaf) for leaf in pytree.tree_leaves(roots)}
        for name, tensor in self.tensors.items():
            if tensor.grad_fn is not None and id(tensor) not in known:
                raise Unsavable(f"a tensor with a history that is held in another way: {name}")

    def hidden(self) -> list[Any]:
        """Puts copies in the place of tensors with a history, and returns the state with them. `restore` puts the
        tensors back."""
        for tensor, put in self._holders:
            if id(tensor) not in self._copies:
                self._copies[id(tensor)] = with_history(tensor)
            put(self._copies[id(tensor)])
        return self.save()

    def save(self) -> list[Any]:
        """The state now."""
        return [*map(_save_tensor, self.tensors.values()), *(part.read() for part in self._parts), _modes()]

    def restore(self, saved: list[Any]) -> None:
        """Puts a saved state back. What did not change is not touched."""
        self._copies.clear()
        rest = iter(saved)
        for tensor in self.tensors.values():
            _restore_tensor(tensor, next(rest))
        for part in self._parts:
            old = next(rest)
            if not _is_same_state(old, part.read()):
                part.write(old)
        torch.set_grad_enabled(next(rest))

    def changes(self, saved: list[Any]) -> list[Leaf]:
        """What differs from the saved state, as leaves for a comparison."""
        found: list[Leaf] = []
        rest = iter(saved)
        for name, tensor in self.tensors.items():
            old = next(rest)
            if (held := self._copies.get(id(tensor))) is not None:
                if not _is_equal(held.detach(), old.data):
                    found.append((name, tensor_facts(held)))
            elif _has_changed(tensor, old):
                found.append((name, tensor_facts(tensor)))
            if tensor.is_leaf and tensor.grad is not old.grad:
                found.append((f"{name}.grad", _described(tensor.grad)))
        for part in self._parts:
            old, new = next(rest), part.read()
            if not part.name.startswith("<") and not _is_same_state(old, new):
                found.append((part.name, str(_described(new)) if not isinstance(new, dict) else None))
                found += _items(part.name, new)
        return [leaf for leaf in found if leaf[1] is not None]

    # ---- what is reached

    def _visit(self, name: str, value: Any) -> None:
        if isinstance(value, _ATOMS) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if len(self._seen) > _MOST:
            raise Unsavable("the program reaches too many objects")
        if isinstance(value, torch.Tensor):
            self._visit_tensor(name, value)
        elif isinstance(value, types.FunctionType):
            self._visit_function(name, value)
        elif isinstance(value, types.MethodType):
            self._later((name, value.__self__), (name, value.__func__))
        elif isinstance(value, functools.partial):
            self._later((name, value.func), *((name, part) for part in (*value.args, *value.keywords.values())))
        elif isinstance(value, types.CellType):
            self._add(name, lambda: _contents(value), lambda old: _fill(value, old))
            self._held(_contents(value), lambda new: _fill(value, new))
            self._later((name, _contents(value)))
        elif isinstance(value, (staticmethod, classmethod)):
            self._later((name, value.__func__))
        elif isinstance(value, property):
            self._later((name, value.fget), (name, value.fset))
        elif isinstance(value, type):
            self._visit_class(name, value)
        elif not isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
            self._visit_object(name, value)

    def _visit_tensor(self, name: str, tensor: torch.Tensor) -> None:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
            raise Unsavable(f"a tensor of the class {type(tensor).__name__}, {tensor.layout}: {name}")
        if tensor.is_meta or tensor.is_quantized:
            raise Unsavable(f"a tensor without plain data: {name}")
        while name in self.tensors:
            name += "'"
        self.tensors[name] = tensor
        if tensor.is_leaf and tensor.grad is not None:
            self._later((f"{name}.grad", tensor.grad))

    def _visit_function(self, name: str, function: types.FunctionType) -> None:
        if not places.is_of_user(function.__code__.co_filename):
            return
        for cell, variable in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            self._later((variable, cell))
        self._later(*((name, value) for value in function.__defaults__ or ()))
        self._later(*((name, value) for value in (function.__kwdefaults__ or {}).values()))
        self._later((name, function.__dict__))
        self._bindings(function.__globals__, _names_of(function.__code__))

    def _bindings(self, space: dict[str, Any], names: set[str]) -> None:
        def write(old: dict[str, Any]) -> None:
            for key, value in old.items():
                if value is _ABSENT:
                    space.pop(key, None)
                elif space.get(key, _ABSENT) is not value:
                    space[key] = value

        own = sorted(names)
        self._add("globals", lambda: {key: space.get(key, _ABSENT) for key in own}, write)
        for key in own:
            value = space.get(key)
            if isinstance(value, types.ModuleType):
                if places.is_of_user(getattr(value, "__file__", None) or "<frozen"):
                    inner = names & vars(value).keys()
                    if id(value) not in self._seen:
                        self._seen[id(value)] = value
                        self._bindings(vars(value), inner)
            else:
                self._held(value, functools.partial(space.__setitem__, key))
                self._later((key, value))

    def _visit_class(self, name: str, cls: type) -> None:
        file = getattr(sys.modules.get(cls.__module__), "__file__", None) or "<frozen"
        if not places.is_of_user(file) and cls.__module__ != "__main__":
            return
        own = {key: value for key, value in vars(cls).items() if not key.startswith("__") or callable(value)}
        plain = sorted(key for key, value in own.items() if not callable(value) and not hasattr(value, "__get__"))

        def write(old: dict[str, Any]) -> None:
            for key, value in old.items():
                if vars(cls).get(key, _ABSENT) is not value:
                    setattr(cls, key, value)

        if plain:
            self._add(cls.__name__, lambda: {key: vars(cls).get(key, _ABSENT) for key in plain}, write)
        self._later(*((f"{cls.__name__}.{key}", value) for key, value in own.items()))
        self._later(*((base.__name__, base) for base in cls.__bases__))

    def _visit_object(self, name: str, value: Any) -> None:
        if isinstance(value, (random.Random, torch.Generator)) or type(value).__module__.startswith("numpy.random"):
            self._visit_generator(value)
            return
        if isinstance(value, io.IOBase):
            raise Unsavable(f"an open file: {name}")
        advance = getattr(type(value), "__next__", None)
        if advance is not None and not isinstance(advance, types.FunctionType):
            raise Unsavable(f"an iterator, whose position cannot be saved: {name}")
        self._visit_contents(name, value)
        if _is_of_standard_library(type(value)):
            return
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._seen[id(attributes)] = attributes
            self._dict(name, attributes, ".")
        for slot, member in _slots(type(value)):
            self._slot(f"{name}.{slot}", value, member)
        self._later((type(value).__name__, type(value)))

    def _visit_contents(self, name: str, value: Any) -> None:
        if isinstance(value, dict):
            self._dict(name, value, "[")
        elif isinstance(value, list):
            self._add(name, lambda: list(value), lambda old: value.__setitem__(slice(None), old))
            for i, item in enumerate(value):
                self._held(item, functools.partial(value.__setitem__, i))
                self._later((f"{name}[{i}]", item))
        elif isinstance(value, (tuple, frozenset)):
            self._later(*((f"{name}[{i}]", item) for i, item in enumerate(value)))
        elif isinstance(value, (set, collections.deque)):
            self._add(name, lambda: list(value), lambda old: _refill(value, old))
            self._later(*((f"{name}[{i}]", item) for i, item in enumerate(value)))
        elif isinstance(value, bytearray):
            self._add(name, lambda: bytes(value), lambda old: value.__setitem__(slice(None), old))
        elif (numpy := sys.modules.get("numpy")) is not None and isinstance(value, numpy.ndarray):
            self._add(name, lambda: value.copy(), lambda old: value.__setitem__(..., old))

    def _dict(self, name: str, value: dict[Any, Any], kind: str) -> None:
        def write(old: dict[Any, Any]) -> None:
            value.clear()
            value.update(old)

        self._add(name, lambda: dict(value), write)
        owner, _, last = name.rpartition(".")
        for key, item in value.items():
            self._held(item, functools.partial(value.__setitem__, key))
            if last in _OF_MODULES:
                self._later((f"{owner}.{key}", item))
            else:
                self._later((f"{name}.{key}" if kind == "." else f"{name}[{_key(key)}]", item))
            if not isinstance(key, _ATOMS):
                self._later((f"key of {name}", key))

    def _slot(self, name: str, owner: Any, member: Any) -> None:
        def read() -> Any:
            return getattr(owner, member, _ABSENT)

        def write(old: Any) -> None:
            if old is _ABSENT:
                delattr(owner, member)
            else:
                setattr(owner, member, old)

        self._add(name, read, write)
        self._later((name, read()))

    def _visit_generator(self, value: Any) -> None:
        if isinstance(value, random.Random):
            self._add("<random>", value.getstate, value.setstate)
        elif isinstance(value, torch.Generator):
            self._add("<generator>", lambda: value.get_state().numpy().tobytes(), lambda old: _seed(value, old))
        elif (owner := getattr(value, "bit_generator", value if hasattr(value, "get_state") else None)) is not None:
            self._add("<numpy>", lambda: _numpy_state(owner), lambda old: _set_numpy_state(owner, old))

    def _add_generators(self) -> None:
        self._visit("<random>", random._inst)
        self._visit("<torch>", torch.default_generator)
        if (numpy := sys.modules.get("numpy")) is not None:
            self._visit("<numpy>", numpy.random.mtrand._rand)
        if torch.cuda.is_initialized():
            for generator in torch.cuda.default_generators:
                self._visit("<cuda>", generator)

    def _held(self, value: Any, put: Callable[[torch.Tensor], None]) -> None:
        if isinstance(value, torch.Tensor) and value.grad_fn is not None:
            self._holders.append((value, put))

    def _add(self, name: str, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        self._parts.append(Part(name, read, write))

    def _later(self, *items: tuple[str, Any]) -> None:
        self._todo += reversed(items)


def _numpy_state(owner: Any) -> bytes:
    return pickle.dumps(owner.state if hasattr(owner, "state") else owner.get_state())


def _set_numpy_state(owner: Any, old: bytes) -> None:
    state = pickle.loads(old)  # made by `_numpy_state`
    if hasattr(owner, "state"):
        owner.state = state
    else:
        owner.set_state(state)


def _seed(generator: torch.Generator, state: bytes) -> None:
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _modes() -> bool:
    return torch.is_grad_enabled()


def _is_of_standard_library(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    return cls.__module__ == "builtins" or places.is_standard(getattr(module, "__file__", None) or "<frozen")


def _names_of(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names


def _slots(cls: type) -> Iterator[tuple[str, str]]:
    for base in cls.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType) and not _is_of_standard_library(base):
                yield name, name


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _CELL_EMPTY


def _fill(cell: types.CellType, old: Any) -> None:
    if old is _CELL_EMPTY:
        del cell.cell_contents
    else:
        cell.cell_contents = old


def _refill(value: Any, old: list[Any]) -> None:
    value.clear()
    value.update(old) if isinstance(value, set) else value.extend(old)


def _key(key: Any) -> str:
    return repr(key) if isinstance(key, _ATOMS) else f"<{type(key).__name__}>"


def _is_same_state(old: Any, new: Any) -> bool:
    """Whether two states hold the same objects, or equal bytes."""
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        pairs = zip(old.items(), new.items(), strict=False)
        return len(old) == len(new) and all(a is b and _is_one(x, y) for (a, x), (b, y) in pairs)
    if isinstance(old, list):
        return len(old) == len(new) and all(map(_is_one, old, new))
    if type(old).__module__ == "numpy":
        return bool(old.tobytes() == new.tobytes())
    return _is_one(old, new) or (isinstance(old, (bytes, str, tuple)) and old == new)


def _is_one(old: Any, new: Any) -> bool:
    return old is new or (type(old) is type(new) and isinstance(old, (int, float, str, bytes)) and old == new)


# ---- tensors


def with_history(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor that an operator with gradients made, which was made by an operator as well."""
    with torch.no_grad():
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        made.copy_(tensor)
    return _Made.apply(made.requires_grad_())


class _Made(torch.autograd.Function):  # type: ignore[misc]
    """Gives a tensor a history, without a copy."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads


def _save_tensor(tensor: torch.Tensor) -> SavedTensor:
    with torch.no_grad():
        alias = tensor.detach()
        data = alias.clone()
    grad = tensor.grad if tensor.is_leaf else None
    version = -1 if tensor.is_inference() else tensor._version
    return SavedTensor(alias, data, version, tensor.requires_grad, tensor.grad_fn, grad)


def _has_other_memory(tensor: torch.Tensor, old: SavedTensor) -> bool:
    def key(one: torch.Tensor) -> tuple[Any, ...]:
        return one.data_ptr(), one.shape, one.stride(), one.dtype, one.device

    return key(tensor.detach()) != key(old.alias)


def _has_changed(tensor: torch.Tensor, old: SavedTensor) -> bool:
    if _has_other_memory(tensor, old) or tensor.requires_grad != old.requires_grad:
        return True
    return not _is_equal(tensor.detach(), old.data)


def _is_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


def _restore_tensor(tensor: torch.Tensor, old: SavedTensor) -> None:
    with torch.no_grad():
        if tensor.grad_fn is not old.grad_fn and old.grad_fn is None:
            tensor.detach_()
        if _has_other_memory(tensor, old):
            tensor.data = old.alias
        if not _is_equal(old.alias, old.data):
            old.alias.copy_(old.data)
        if tensor.requires_grad != old.requires_grad:
            tensor.requires_grad_(old.requires_grad)
    if tensor.is_leaf and tensor.grad is not old.grad:
        tensor.grad = old.grad
    if old.version >= 0 and tensor._version != old.version:
        torch._C._autograd._unsafe_set_version_counter((tensor,), (old.version,))


def _described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tensor_facts(value)
    if isinstance(value, (list, tuple)):
        return f"{len(value)} items"
    return value if isinstance(value, _ATOMS) else f"<{type(value).__qualname__}>"


def _items(name: str, state: Any) -> Iterator[Leaf]:
    items = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    for key, item in items:
        described = _described(item) if item is not _ABSENT else "absent"
        if described is None or isinstance(described, (TensorFacts, bool, int, float, str)):
            yield f"{name}[{_key(key)}]", described if described is not None else "None"
