"""The state that a program can reach: saved, compared and put back in place, so that the program can run twice.

Reached are the arguments, what functions find in closures, defaults, globals and modules, attributes of instances and
classes, and elements of containers. Objects stay the same ones: containers get their old contents, tensors their old
data, version, size, gradient and hooks. Only a tensor with a history (`grad_fn`) cannot get that back after a write:
where it is held, a copy takes its place (`hidden`).

An object of a C class is saved if `contents` knows what it holds. Any other makes the state `Unsavable`.
"""

from __future__ import annotations

import gc
import types
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree

from . import surroundings
from .contents import Array, Unsavable
from .outcomes import Leaf, tensor_facts
from .parts import described_as, is_same_state, items_of
from .tensor_state import SavedTensor, has_changed, is_equal, restore_tensor, save_tensor, with_history
from .visitor import Visitor


class Saved(NamedTuple):
    """What `State.save` found."""

    tensors: list[SavedTensor]
    parts: list[Any]
    surroundings: list[Any]


class State:
    """All parts that are reached from `roots`, a dict of names and objects."""

    def __init__(self, roots: dict[str, Any]):
        found = Visitor(roots)
        self._visited = found  # keeps the objects alive
        self.tensors, self._parts, self._holders = found.tensors, found.parts, found.holders
        self._copies: dict[int, torch.Tensor] = {}  # those in their places now
        known = {id(tensor) for tensor, _ in self._holders} | {id(leaf) for leaf in pytree.tree_leaves(roots)}
        for name, tensor in self.tensors.items():
            if tensor.grad_fn is not None and id(tensor) not in known:
                raise Unsavable(f"a tensor with a history that is held in another way: {name}")

    def hidden(self) -> Saved:
        """Puts copies in the place of tensors with a history, and returns the state with them. `restore` puts the
        tensors back."""
        for tensor, put in self._holders:
            if id(tensor) not in self._copies:
                self._copies[id(tensor)] = with_history(tensor)
            put(self._copies[id(tensor)])
        return self.save()

    def save(self) -> Saved:
        """The state now."""
        tensors = [save_tensor(tensor) for tensor in self.tensors.values()]
        return Saved(tensors, [part.read() for part in self._parts], surroundings.save())

    @property
    def codes(self) -> dict[int, types.CodeType]:
        """The code that was visited, by id."""
        return self._visited.codes

    def grow(self, saved: tuple[Saved, ...], code: types.CodeType, space: dict[str, Any]) -> None:
        """Adds what code reaches that was not visited, and that begins to run now. `saved`: earlier states, to which
        the new parts are added as they are: no code that ran since then reaches them."""
        tensors, parts, holders = len(self.tensors), len(self._parts), len(self._holders)
        try:
            self._visited.begins(code, space)
            new = list(self.tensors.values())[tensors:]
            if len(self._holders) > holders or any(tensor.grad_fn is not None for tensor in new):
                raise Unsavable(f"a tensor with a history that a package holds: {code.co_qualname}")
            states, values = [save_tensor(tensor) for tensor in new], [part.read() for part in self._parts[parts:]]
        except BaseException:  # the parts that were saved before are put back
            for name in list(self.tensors)[tensors:]:
                del self.tensors[name]
            del self._parts[parts:], self._holders[holders:]
            raise
        for one in saved:
            one.tensors.extend(states)
            one.parts.extend(values)

    def restore(self, saved: Saved) -> None:
        """Puts a saved state back. What did not change is not touched."""
        self._copies.clear()
        self._put_back(saved)
        if gc.isenabled():
            gc.collect(1)
        self._put_back(saved)  # objects that were dropped may have run code when they were freed

    def _put_back(self, saved: Saved) -> None:
        surroundings.restore(saved.surroundings)
        for tensor, was in zip(self.tensors.values(), saved.tensors, strict=True):
            restore_tensor(tensor, was)
        # Of two parts that bind the same name, the later one may have been read after a write to it.
        for part, old in zip(reversed(self._parts), reversed(saved.parts), strict=True):
            if not is_same_state(old, part.read()):
                part.write(old)

    def changes(self, saved: Saved) -> list[Leaf]:
        """What differs from the saved state, as leaves for a comparison."""
        found: list[Leaf] = list(surroundings.changes(saved.surroundings))
        for (name, tensor), old in zip(self.tensors.items(), saved.tensors, strict=True):
            if (held := self._copies.get(id(tensor))) is not None:
                if not is_equal(held.detach(), old.data):
                    found.append((name, tensor_facts(held)))
            elif has_changed(tensor, old):
                found.append((name, tensor_facts(tensor)))
            if tensor.is_leaf and tensor.grad is not old.grad:
                found.append((f"{name}.grad", described_as(tensor.grad)))
        for part, was in zip(self._parts, saved.parts, strict=True):
            new = part.read()
            if not part.name.startswith("<") and not is_same_state(was, new):
                described = described_as(new)
                if not isinstance(new, dict):
                    found.append((part.name, described if isinstance(new, Array) else str(described)))
                found += items_of(part.name, new)
        return [leaf for leaf in found if leaf[1] is not None]
