"""Everything observable of a call, as plain data: two runs behaved the same if their data is equal.

Tensors are described by type, dtype, shape, strides, offset, flags, bits, gradient, the memory they share and their
identity; containers and objects by kind, contents and identity. Memory and identities are numbers in the order of the
traversal, so that aliasing is compared without comparing addresses. Iterators are drained; no other user code runs.
"""

from __future__ import annotations

import collections
import collections.abc
import enum
import functools
import itertools
import types
from typing import Any

import numpy
import torch

ATOMS = (int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented), range, slice)
TORCH_ATOMS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
DRAINED = (types.GeneratorType, map, filter, zip, enumerate, reversed)
DRAINED += tuple(kind for kind in vars(itertools).values() if isinstance(kind, type) and hasattr(kind, "__next__"))
DRAINED += tuple(type(iter(kind())) for kind in (list, tuple, dict, set, str))
DRAINED += (itertools.count, itertools.repeat, itertools.cycle, itertools.compress, itertools.takewhile)
DRAINED += (itertools.dropwhile, itertools.filterfalse, itertools.starmap, itertools.zip_longest, itertools.pairwise)
DRAINED += (itertools.accumulate,)
CALLABLES = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)

# Attributes that torch.compile sets on what it compiles; they are not counted as differences.
MARKS = ("_dynamo", "_torchdynamo", "_is_torch_compile")


class Bits:
    """A tensor's data: compared bitwise, shown as numbers; `numbers` of inexact dtypes may also be compared closely."""

    def __init__(self, data: bytes, text: str, numbers: torch.Tensor | None = None):
        self.data, self.text, self.numbers = data, text, numbers

    def near(self, other: Bits) -> bool:
        if self.numbers is None or other.numbers is None or self.numbers.shape != other.numbers.shape:
            return self == other
        return torch.allclose(self.numbers, other.numbers, rtol=1e-4, atol=1e-5, equal_nan=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bits) and self.data == other.data

    __hash__ = None

    def __repr__(self) -> str:
        return self.text


class Walk:
    """One description; a mutable object that is met again is described by its number."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # keeps objects alive, so that no address is used twice
        self.memory: list[tuple[int, int]] = []
        self.leaves: list[torch.Tensor] = []
        self.outputs: list[torch.Tensor] = []

    def describe(self, value: Any) -> Any:
        kind = type(value)
        if kind in (float, complex):
            return repr(value)
        if kind in ATOMS:
            return value
        if isinstance(value, TORCH_ATOMS):
            return str(value)
        if isinstance(value, enum.Enum):
            return f"{kind.__qualname__}.{value.name}"
        if isinstance(value, type):
            return f"class {value.__qualname__}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if kind in (tuple, frozenset, torch.Size):
            return {"type": kind.__qualname__, **self.contents(value)}
        if id(value) in self.seen:
            return f"<{self.seen[id(value)]}>"
        number = self.seen[id(value)] = len(self.seen)
        self.kept.append(value)
        return {"object": number, "type": kind.__qualname__, **self.contents(value)}

    def contents(self, value: Any) -> dict[str, Any]:
        if isinstance(value, torch.Tensor):
            with torch._C.DisableTorchFunctionSubclass():
                return self.tensor(value)
        if isinstance(value, numpy.ndarray):
            return self.array(value)
        if isinstance(value, numpy.generic):
            array = numpy.asarray(value)
            return {"dtype": str(array.dtype), "bits": Bits(array.tobytes(), repr(value), _inexact(array))}
        if isinstance(value, BaseException):
            return self.exception(value)
        if isinstance(value, CALLABLES):
            return self.function(value)
        if isinstance(value, types.MethodType):
            return {"self": self.describe(value.__self__), "function": self.describe(value.__func__)}
        if isinstance(value, functools.partial):
            return {"partial": self.describe([value.func, value.args, value.keywords]), **self.attributes(value)}
        if isinstance(value, types.MappingProxyType):
            return self.contents(dict(value))
        if isinstance(value, (collections.abc.KeysView, collections.abc.ValuesView, collections.abc.ItemsView)):
            return {"items": [self.describe(item) for item in value]}
        if isinstance(value, DRAINED):
            return self.drained(value)
        if isinstance(value, torch.Generator):
            return {"state": Bits(bytes(value.get_state().tolist()), "generator state")}
        if isinstance(value, types.CellType):
            return {"cell": self.cell(value)}
        return {**self.elements(value), **self.attributes(value)}

    def drained(self, value: Any) -> dict[str, Any]:
        """The remaining items of an iterator, at most 100, and the exception it raises."""
        items = []
        try:
            for item in itertools.islice(value, 100):
                items.append(self.describe(item))
        except Exception as error:
            return {"items": items, "raised": self.describe(error)}
        return {"items": items}

    def elements(self, value: Any) -> dict[str, Any]:
        """The contents of a container or of an instance of a subclass, read by the built-in class's methods."""
        if isinstance(value, dict):
            kind = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
            found = [(self.describe(key), self.describe(dict.__getitem__(value, key))) for key in kind.__iter__(value)]
            if isinstance(value, collections.defaultdict):
                return {"default_factory": self.describe(value.default_factory), "items": found}
            return {"items": found}
        for kind in (list, tuple):
            if isinstance(value, kind):
                return {"items": [self.describe(item) for item in kind.__iter__(value)]}
        for kind in (set, frozenset):
            if isinstance(value, kind):
                return {"items": sorted((self.describe(item) for item in kind.__iter__(value)), key=repr)}
        if isinstance(value, collections.deque):
            return {
                "maxlen": value.maxlen,
                "items": [self.describe(item) for item in collections.deque.__iter__(value)],
            }
        for kind in (int, float, str, bytes):
            if isinstance(value, kind):
                return {"value": kind.__repr__(value)}
        if isinstance(value, bytearray):
            return {"value": bytes(value)}
        return {}

    def attributes(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        try:
            found.update(object.__getattribute__(value, "__dict__"))
        except AttributeError:
            pass
        for base in type(value).__mro__:
            for name, slot in base.__dict__.items() if "__slots__" in base.__dict__ else ():
                if isinstance(slot, types.MemberDescriptorType):
                    try:
                        found[name] = slot.__get__(value)
                    except AttributeError:
                        found[name] = "unset"
        found = {name: item for name, item in found.items() if not name.startswith(MARKS)}
        return {"attributes": {name: self.describe(item) for name, item in found.items()}} if found else {}

    def function(self, value: Any) -> dict[str, Any]:
        found = {"name": getattr(value, "__qualname__", str(value))}
        if isinstance(value, types.FunctionType):
            found["defaults"] = self.describe(value.__defaults__)
            found["keyword_defaults"] = self.describe(value.__kwdefaults__)
            found["closure"] = [self.cell(cell) for cell in value.__closure__ or ()]
            found.update(self.attributes(value))
        return found

    def cell(self, cell: types.CellType) -> Any:
        try:
            return self.describe(cell.cell_contents)
        except ValueError:
            return "empty cell"

    def exception(self, error: BaseException) -> dict[str, Any]:
        found = {
            "text": str(error) if not isinstance(error, KeyError) else repr(error.args),
            "arguments": [self.describe(item) for item in error.args],
            "cause": self.describe(error.__cause__),
            "context": None if error.__suppress_context__ else self.describe(error.__context__),
            "notes": list(getattr(error, "__notes__", ())),
        }
        return found

    def tensor(self, value: torch.Tensor) -> dict[str, Any]:
        if torch.nn.parameter.is_lazy(value):
            return {"dtype": str(value.dtype), "requires_grad": value.requires_grad}
        if value.layout is not torch.strided or value.is_nested or value.is_quantized:
            return {"dtype": str(value.dtype), "text": repr(value)}
        try:
            leaf = value.is_leaf
        except RuntimeError as error:  # a view whose grad_fn autograd refuses to compute
            leaf = str(error)
        found = {
            "dtype": str(value.dtype),
            "shape": tuple(value.shape),
            "strides": value.stride(),
            "offset": value.storage_offset(),
            "requires_grad": value.requires_grad,
            "leaf": leaf,
            "inference": value.is_inference(),
            "device": str(value.device),
        }
        if value.requires_grad and isinstance(leaf, bool):
            (self.leaves if leaf else self.outputs).append(value)
        plain = value.detach()
        if type(plain) is not torch.Tensor:
            plain = plain.as_subclass(torch.Tensor)
        if value.device.type == "cpu":
            found["bits"] = bits(plain)
            storage = value.untyped_storage()
            found["memory"] = self.region(storage.data_ptr(), storage.nbytes())
        if leaf is True and value.grad is not None:
            found["grad"] = self.describe(value.grad)
        return found | self.attributes(value)

    def array(self, value: numpy.ndarray) -> dict[str, Any]:
        low, high = numpy.lib.array_utils.byte_bounds(value)
        return {
            "dtype": str(value.dtype),
            "shape": value.shape,
            "strides": value.strides,
            "writeable": value.flags.writeable,
            "bits": Bits(value.tobytes(), str(value.tolist()), _inexact(value)),
            "memory": self.region(low, high - low if value.size else 0),
        }

    def region(self, start: int, size: int) -> int:
        """The number of the memory block that [start, start + size) overlaps; -1 for none."""
        if size == 0:
            return -1
        for number, (low, high) in enumerate(self.memory):
            if start < high and low < start + size:
                return number
        self.memory.append((start, start + size))
        return len(self.memory) - 1


def _inexact(value: numpy.ndarray) -> torch.Tensor | None:
    return torch.from_numpy(value.astype(numpy.float64)) if value.dtype.kind == "f" else None


def bits(value: torch.Tensor) -> Bits:
    flat = value.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).reshape(-1)
    shown = str(value.tolist()) if value.numel() <= 32 else f"{value.numel()} values, sum {value.double().sum().item()}"
    if value.dtype.is_complex:
        flat = torch.view_as_real(flat).reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return Bits(data, shown, flat.double() if flat.is_floating_point() else None)


def _gradient(value: torch.Tensor) -> dict[str, Any]:
    return {"shape": tuple(value.shape), "dtype": str(value.dtype), "bits": bits(value)}


def gradients(walk: Walk, result: Any) -> list[Any]:
    """Gradients of the outputs in `result`, with different weights for all elements, for every leaf that was met."""
    found = Walk()
    found.describe(result)
    total: Any = None
    for output in found.outputs:
        if not (output.dtype.is_floating_point or output.dtype.is_complex) or output.is_inference():
            continue
        flat = torch.view_as_real(output).reshape(-1) if output.dtype.is_complex else output.reshape(-1)
        weights = torch.arange(1, flat.numel() + 1, dtype=torch.float32) / 8
        part = (flat.float() * weights).sum() if type(output) in (torch.Tensor, torch.nn.Parameter) else output.sum()
        total = part if total is None else total + part
    if total is None or not walk.leaves:
        return []
    found = torch.autograd.grad(total, walk.leaves, allow_unused=True)
    return [None if item is None else _gradient(item.detach()) for item in found]


def difference(actual: Any, expected: Any, exact: bool = True, path: str = "") -> str | None:
    """The first place where two descriptions differ, or None. Without `exact`, floating-point data may be close."""
    if type(actual) is not type(expected):
        return f"{path}: {shorten(actual)} for {shorten(expected)}"
    if isinstance(expected, dict):
        for key in expected:
            if key not in actual:
                return f"{path}.{key}: missing"
            if found := difference(actual[key], expected[key], exact, f"{path}.{key}"):
                return found
        extra = [key for key in actual if key not in expected]
        return f"{path}: has {extra}" if extra else None
    if isinstance(expected, (list, tuple)):
        for index, (mine, theirs) in enumerate(zip(actual, expected)):
            if found := difference(mine, theirs, exact, f"{path}[{index}]"):
                return found
        return f"{path}: {len(actual)} items for {len(expected)}" if len(actual) != len(expected) else None
    if isinstance(expected, Bits) and not exact and actual.near(expected):
        return None
    return None if actual == expected else f"{path}: {shorten(actual)} for {shorten(expected)}"


def shorten(value: Any) -> str:
    if isinstance(value, dict) and "type" in value:
        value = {"type": value["type"], **{k: value[k] for k in ("text", "bits", "items", "value") if k in value}}
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."


__all__ = ["Bits", "Walk", "bits", "difference", "gradients", "shorten"]
