"""What objects of C classes hold: how it is read and put back, exactly and without running code of subclasses.

A class that is not listed here has a state that Stator does not know, and its objects cannot be saved.
"""

from __future__ import annotations

import _thread
import array
import collections
import contextlib
import contextvars
import datetime
import decimal
import functools
import gc
import operator
import re
import struct
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from .. import _C


class Unsavable(Exception):
    """The state has a part that cannot be put back. The text names it."""


def reason_of(problem: Exception) -> str:
    """Why a state cannot be put back, from an error of any object of the program."""
    is_known = isinstance(problem, Unsavable)
    return str(problem) if is_known else f"its state cannot be read: {type(problem).__name__}"


# The text after the owner's name, the object, and a function that puts another object in its place, if there is one.
Item = tuple[str, Any, Callable[[Any], None] | None]


class Kind(NamedTuple):
    """Objects of one C class. `read` gives what can change (None: nothing can), `write` puts it back."""

    items: Callable[[Any], Iterator[Item]]
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any, Any], None] | None = None


PLAIN: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes, type(...), range)
# Objects that never change and hold no others.
ATOMS = frozenset(
    (
        *(*PLAIN, type(NotImplemented), types.CodeType, types.TracebackType),
        *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo),
        *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone, decimal.Decimal),
        *(re.Pattern, re.Match, types.UnionType, types.MemberDescriptorType, types.GetSetDescriptorType),
        *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    )
)


_FIELD = type(vars(collections.namedtuple("_", "x"))["x"])


def _nothing(value: Any) -> Iterator[Item]:
    return iter(())


def _referents(value: Any) -> Iterator[Item]:
    """What an object holds that never changes itself."""
    kind = type(value)
    return (("", item, None) for item in gc.get_referents(value) if item is not kind)


def _of_dict(value: Any) -> Iterator[Item]:
    yield from _pairs(value, dict.items(value), dict.__setitem__)


def _pairs(value: Any, items: Any, put: Any) -> Iterator[Item]:
    for key, item in list(items):
        yield f"[{key_text(key)}]", item, functools.partial(put, value, key)
    for key, _ in list(items):
        if type(key) not in ATOMS:
            yield f"[{key_text(key)}] (key)", key, None


def key_text(key: Any) -> str:
    return repr(key) if type(key) in ATOMS else f"<{type(key).__name__}>"


def write_dict(value: Any, old: dict[Any, Any]) -> None:
    dict.clear(value)
    dict.update(value, old)


def _write_ordered(value: Any, old: dict[Any, Any]) -> None:
    ordered = collections.OrderedDict
    ordered.clear(value)
    for key, item in old.items():
        ordered.__setitem__(value, key, item)


def _of_list(value: Any) -> Iterator[Item]:
    for i, item in enumerate(list.copy(value)):
        yield f"[{i}]", item, functools.partial(list.__setitem__, value, i)


def _of_deque(value: Any) -> Iterator[Item]:
    deque = collections.deque
    for i, item in enumerate(list(deque.__iter__(value))):
        yield f"[{i}]", item, functools.partial(deque.__setitem__, value, i)


def _write_deque(value: Any, old: list[Any]) -> None:
    collections.deque.clear(value)
    collections.deque.extend(value, old)


def _of_sequence(value: Any) -> Iterator[Item]:
    kind = tuple if isinstance(value, tuple) else frozenset if isinstance(value, frozenset) else set
    return ((f"[{i}]", item, None) for i, item in enumerate(list(kind.__iter__(value))))


def _write_set(value: Any, old: list[Any]) -> None:
    set.clear(value)
    set.update(value, old)


def keeps_order(value: Any) -> bool:
    """Whether a set that is filled again gives its elements in the same order, as far as a program can rely on it: the
    hash of a text, or of an object, is another one in each process."""
    items = list(set.__iter__(value))
    return list(set(items)) == items or not all(isinstance(one, (int, float, complex, tuple)) for one in items)


def _write_bytes(value: Any, old: bytes) -> None:
    if len(value) == len(old):
        with memoryview(value) as view:  # others may share the memory
            view[:] = old
    else:
        bytearray.clear(value)
        bytearray.extend(value, old)


def _write_array(value: Any, old: bytes) -> None:
    if len(value) * value.itemsize == len(old):
        with memoryview(value) as view, view.cast("B") as plain:
            plain[:] = old
    else:
        del value[:]
        value.frombytes(old)


def _of_error(value: Any) -> Iterator[Item]:
    for name in _OF_ERRORS:
        yield f".{name}", getattr(value, name), None


_OF_ERRORS = ("args", "__cause__", "__context__", "__suppress_context__", "__traceback__")


def _write_error(value: Any, old: dict[str, Any]) -> None:
    for name in _OF_ERRORS:  # the cause sets `__suppress_context__`, which comes later
        setattr(value, name, old[name])


def _read_error(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _OF_ERRORS}


def _of_proxy(value: Any) -> Iterator[Item]:
    (mapping,) = gc.get_referents(value)
    if type(mapping) is dict and "__module__" in mapping:
        raise Unsavable("the namespace of a class")
    yield "", mapping, None


def _of_builtin(value: Any) -> Iterator[Item]:
    if not isinstance(value.__self__, type):
        yield "", value.__self__, None


def _of_context_variable(value: Any) -> Iterator[Item]:
    with contextlib.suppress(LookupError):
        yield "", value.get(), None


def _of_compiled(value: Any) -> Iterator[Item]:
    yield "", value.__wrapped__, None


def _fixed(*classes: type) -> dict[type, Kind]:
    return {cls: Kind(_referents) for cls in classes}


KINDS: dict[type, Kind] = {
    **{cls: Kind(_nothing) for cls in ATOMS},
    **_fixed(functools.partial, property, staticmethod, classmethod, types.MethodType, types.GenericAlias, slice),
    **_fixed(operator.itemgetter, operator.attrgetter, operator.methodcaller, type({}.keys()), type({}.values())),
    **_fixed(type({}.items()), type("".__str__), super, _FIELD, struct.Struct),
    dict: Kind(_of_dict, lambda v: dict(dict.items(v)), write_dict),
    collections.defaultdict: Kind(_of_dict, lambda v: dict(dict.items(v)), write_dict),
    collections.OrderedDict: Kind(
        lambda v: _pairs(v, collections.OrderedDict.items(v), collections.OrderedDict.__setitem__),
        lambda v: dict(collections.OrderedDict.items(v)),
        _write_ordered,
    ),
    list: Kind(_of_list, list.copy, lambda v, old: list.__setitem__(v, slice(None), old)),
    tuple: Kind(_of_sequence),
    frozenset: Kind(_of_sequence),
    set: Kind(_of_sequence, lambda v: list(set.__iter__(v)), _write_set),
    collections.deque: Kind(_of_deque, lambda v: list(collections.deque.__iter__(v)), _write_deque),
    bytearray: Kind(
        _nothing,
        lambda v: bytearray.__getitem__(v, slice(None)).hex(),
        lambda v, old: _write_bytes(v, bytes.fromhex(old)),
    ),
    array.array: Kind(_nothing, lambda v: v.tobytes(), _write_array),
    types.SimpleNamespace: Kind(_nothing),
    types.MappingProxyType: Kind(_of_proxy),
    types.BuiltinFunctionType: Kind(_of_builtin),
    _thread.LockType: Kind(_nothing),
    _thread.RLock: Kind(_nothing),
    contextvars.ContextVar: Kind(_of_context_variable),
    BaseException: Kind(_of_error, _read_error, _write_error),
    _C.CompiledFunction: Kind(_of_compiled),
}
LOCKS = (_thread.LockType, _thread.RLock)


def kind_of(cls: type) -> Kind | None:
    """How objects of a C class are saved; None if Stator does not know."""
    if (kind := KINDS.get(cls)) is not None:
        return kind
    if issubclass(cls, BaseException):
        return KINDS[BaseException]
    if issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields"):
        return KINDS[tuple]
    if (numpy := sys.modules.get("numpy")) is not None:
        if issubclass(cls, numpy.ndarray):
            return Kind(_of_ndarray, _read_ndarray, _write_ndarray)
        if issubclass(cls, (numpy.generic, numpy.dtype, numpy.ufunc)) and not issubclass(cls, numpy.void):
            return Kind(_nothing)
        if cls is type(numpy.mean):
            return Kind(_nothing)
    return None


def _of_ndarray(value: Any) -> Iterator[Item]:
    if value.dtype.hasobject:
        yield from ((f"[{i}]", item, None) for i, item in enumerate(value.reshape(-1).tolist()))
    if value.base is not None and hasattr(value.base, "__array_interface__"):
        yield ".base", value.base, None


class Array(NamedTuple):
    """The state of a numpy array. Two states are the same if their texts and bytes are."""

    text: str
    content: bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_writeable: bool
    data: Any


def _read_ndarray(value: Any) -> Array:
    plain = value.view(sys.modules["numpy"].ndarray)
    shape, strides, is_writeable = plain.shape, plain.strides, bool(plain.flags.writeable)
    text = f"{shape} {strides} {is_writeable} {plain.dtype!r}"
    return Array(text, plain.tobytes(), shape, strides, is_writeable, plain.copy())


def _write_ndarray(value: Any, old: Array) -> None:
    base, dtype = sys.modules["numpy"].ndarray, old.data.dtype
    if not value.flags.writeable:
        value.flags.writeable = True
    if value.nbytes != old.data.nbytes:
        base.resize(value, old.data.nbytes // value.dtype.itemsize, refcheck=False)
    if value.dtype != dtype:
        value.dtype = dtype
    if (value.shape, value.strides) != (old.shape, old.strides):
        value.shape = old.shape
        value.strides = old.strides
    value.view(base)[...] = old.data
    value.flags.writeable = old.is_writeable


_HEAP, _FIXED, _MADE_IN_C = 1 << 9, 1 << 8, 1 << 7


@functools.cache
def is_of_c(cls: type) -> bool:
    """Whether a class is made by C code, so that its objects may hold what Python does not see."""
    if not cls.__flags__ & _HEAP or cls.__flags__ & (_FIXED | _MADE_IN_C):
        return True
    own = vars(cls)
    new = own.get("__new__")
    if isinstance(new, types.BuiltinFunctionType) and new.__self__ is cls:
        return True
    pointers = sum(isinstance(item, types.MemberDescriptorType) for item in own.values())
    pointers += ("__dict__" in own) + ("__weakref__" in own)
    base = cls.__base__
    return base is not None and cls.__basicsize__ - base.__basicsize__ > 8 * pointers
