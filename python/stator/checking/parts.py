"""Parts of the state of Python objects: attributes, slots, cells, definitions; and how two states are compared."""

from __future__ import annotations

import pickle
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .contents import ATOMS, Array, is_of_c, key_text
from .outcomes import Leaf, TensorFacts, tensor_facts

ABSENT = object()
CELL_EMPTY = object()
# Entries of a class that its instances and its code do not change.
OF_CLASSES = frozenset(
    (
        *("__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__slots__", "__match_args__"),
        *("__dataclass_fields__", "__dataclass_params__", "__parameters__", "__orig_bases__", "__abstractmethods__"),
        *("__qualname__", "__static_attributes__", "__firstlineno__", "__type_params__", "_abc_impl", "__new_member__"),
    )
)


@dataclass
class Part:
    """One object whose state is saved. `read` gives its state, `write` puts one back."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None]


def numpy_state(owner: Any) -> bytes:
    return pickle.dumps(owner.state if hasattr(owner, "state") else owner.get_state())


def set_numpy_state(owner: Any, old: bytes) -> None:
    state = pickle.loads(old)  # made by `numpy_state`
    if hasattr(owner, "state"):
        owner.state = state
    else:
        owner.set_state(state)


def seed(generator: torch.Generator, state: bytes) -> None:
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def attributes_of(value: Any) -> dict[Any, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def slots(cls: type) -> Iterator[tuple[str, Any]]:
    for base in cls.__mro__:
        if is_of_c(base) and not issubclass(base, BaseException) and not hasattr(base, "default_factory"):
            continue
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType) and not name.startswith("__"):
                yield name, member


def write_attributes(owner: Any, old: dict[str, Any]) -> None:
    """Puts attributes of a module or a class back, without code of a metaclass."""
    for key, value in old.items():
        if vars(owner).get(key, ABSENT) is value:
            continue
        if isinstance(owner, type):
            type.__delattr__(owner, key) if value is ABSENT else type.__setattr__(owner, key, value)
        elif value is ABSENT:
            del vars(owner)[key]
        else:
            vars(owner)[key] = value


def definition(function: types.FunctionType) -> dict[str, Any]:
    return {name: getattr(function, name) for name in ("__code__", "__defaults__", "__kwdefaults__")}


def define(function: types.FunctionType, old: dict[str, Any]) -> None:
    for name, value in old.items():
        if getattr(function, name) is not value:
            setattr(function, name, value)


def cell_contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return CELL_EMPTY


def fill_cell(cell: types.CellType, old: Any) -> None:
    if old is CELL_EMPTY:
        del cell.cell_contents
    else:
        cell.cell_contents = old


def is_same_state(old: Any, new: Any) -> bool:
    """Whether two states hold the same objects, or equal bytes."""
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        pairs = zip(old.items(), new.items(), strict=False)
        return len(old) == len(new) and all(a is b and _is_one(x, y) for (a, x), (b, y) in pairs)
    if isinstance(old, list):
        return len(old) == len(new) and all(map(_is_one, old, new))
    if isinstance(old, Array):
        return old.text == new.text and old.content == new.content
    return _is_one(old, new)


def _is_one(old: Any, new: Any) -> bool:
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if type(old) is tuple:
        return len(old) == len(new) and all(map(_is_one, old, new))
    if type(old) in (float, complex):
        return repr(old) == repr(new)
    return type(old) in (bool, int, str, bytes) and bool(old == new)


def described_as(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tensor_facts(value)
    if isinstance(value, Array):
        numbers = value.data.dtype.kind in "biufc" and value.data.dtype.isnative
        return tensor_facts(torch.from_numpy(value.data.copy())) if numbers else value.text
    if isinstance(value, (list, tuple)):
        return f"{len(value)} items"
    return value if type(value) in ATOMS else f"<{type(value).__qualname__}>"


def items_of(name: str, state: Any) -> Iterator[Leaf]:
    items = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    for key, item in items:
        described = described_as(item) if item is not ABSENT else "absent"
        if described is None or isinstance(described, (TensorFacts, bool, int, float, str)):
            yield f"{name}[{key_text(key)}]", described if described is not None else "None"
