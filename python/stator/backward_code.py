"""Decides whether the backward of a `torch.autograd.Function` may be traced ahead of time.

Some backends (those of AOTAutograd) run the Python backward once, on fake tensors while they compile, and keep the
operators that it called. That is right only if backward computes from its context and its arguments alone. So the code
of backward, and of the functions that it calls, is read: each name that it takes from outside must be an operator or a
type of torch, a pure builtin, or a function with such code. The capture guards these names.
"""

from __future__ import annotations

import builtins
import dis
import functools
import math
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from .functions import Slot

# How backward reaches an object: ("global" | "cell" | "attribute", name), from the function itself.
Path = tuple[tuple[str, str], ...]
Read = tuple[Path, Any]

_PURE = {
    AssertionError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    abs,
    all,
    any,
    bool,
    complex,
    dict,
    enumerate,
    float,
    int,
    isinstance,
    len,
    list,
    max,
    min,
    range,
    reversed,
    round,
    slice,
    sorted,
    sum,
    tuple,
    type,
    zip,
}
_TYPES = (torch.dtype, torch.layout, torch.memory_format)
_CLASSES = (
    torch.Tensor,
    torch.Size,
    torch.device,
    torch.autocast,
    torch.amp.autocast,
    torch.no_grad,
    torch.enable_grad,
)
# Python functions of torch that call operators with their arguments, and wrappers that call what they enclose.
_TORCH_CODE = {
    "torch._jit_internal",
    "torch.amp.autocast_mode",
    "torch.autograd.function",
    "torch.functional",
    "torch.nn.functional",
    "torch.nn.grad",
}
_OPERATOR_MODULES = {f"torch._C._{name}" for name in ("fft", "linalg", "nested", "nn", "sparse", "special")}
_PLAIN = (type(None), bool, int, float, complex, str, type(...), torch.device, torch.Size, *_TYPES)
_REFUSED = {
    "STORE_GLOBAL": "it writes a global",
    "DELETE_GLOBAL": "it writes a global",
    "STORE_ATTR": "it sets an attribute",
    "DELETE_ATTR": "it deletes an attribute",
    "IMPORT_NAME": "it imports a module",
    "LOAD_BUILD_CLASS": "it makes a class",
    "LOAD_NAME": "it reads names of a class body",
    "LOAD_SUPER_ATTR": "it uses super()",
    "YIELD_VALUE": "it is a generator",
}
_CHANGES = frozenset({"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "reverse"})
_CHANGES_MORE = frozenset({"setdefault", "sort", "update"})
_MISSING = object()


class Open(Exception):
    """Why backward may not be traced."""


def examine(function: type, context: dict[str, Any]) -> str | tuple[str, list[Read]]:
    """Why the backward of an autograd function may not be traced ahead of time; or the name of the method, and what its
    code reads from outside. `context`: what forward kept, with slots in place of tensors."""
    base = torch.autograd.Function
    name = "backward" if getattr(function, "backward", None) is not base.backward else "vjp"
    method = getattr(function, name, None)
    if not isinstance(method, types.FunctionType):
        return "it is not a Python function"
    try:
        has_containers = _check_context(tuple(context.values()))
        return name, list(_reads_of(method, (), set(), has_containers))
    except Open as why:
        return str(why)


def _check_context(values: tuple[Any, ...]) -> bool:
    """Whether the context holds containers, which backward may change."""
    found = False
    for value in values:
        if type(value) in (list, dict):
            _check_context(tuple(value.values()) if type(value) is dict else tuple(value))
            found = True
        elif type(value) is tuple:
            found |= _check_context(value)
        elif type(value) not in (*_PLAIN, Slot):
            raise Open(f"its context holds a {type(value).__name__}")
    return found


def _reads_of(function: types.FunctionType, path: Path, known: set[Any], has_containers: bool) -> Iterator[Read]:
    """What a function's code reads from outside, and the functions among that."""
    if function.__code__ in known:
        return
    known.add(function.__code__)
    if function.__dict__ and not _is_torch_code(function):
        raise Open(f"it calls {function.__name__}, a function with attributes")
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(type(value) in _PLAIN for value in defaults):
        raise Open(f"{function.__name__} has a default that may change")
    if _is_torch_code(function):
        reads = _enclosed(function, path)
    else:
        reads = _reads_of_code(function, function.__code__, path, frozenset(), has_containers)
    for place, found in reads:
        yield place, found
        if isinstance(found, types.FunctionType):
            yield from _reads_of(found, place, known, has_containers)


def _is_torch_code(function: types.FunctionType) -> bool:
    return function.__globals__.get("__name__") in _TORCH_CODE


def _enclosed(function: types.FunctionType, path: Path) -> Iterator[Read]:
    """The functions that a wrapper of torch's encloses."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        found = cell.cell_contents
        if isinstance(found, types.FunctionType):
            yield (*path, ("cell", name)), found
        elif not (type(found) in _PLAIN or _is_allowed(found)):
            raise Open(f"a wrapper of torch's encloses a {type(found).__name__}")


def _reads_of_code(
    function: types.FunctionType, code: types.CodeType, path: Path, outer: frozenset[str], has_containers: bool
) -> Iterator[Read]:
    """`outer`: names of cells that the enclosing code makes."""
    inside = frozenset(code.co_cellvars) | (outer & set(code.co_freevars))
    instructions = list(dis.get_instructions(code))
    index = 0
    while index < len(instructions):
        instruction = instructions[index]
        name, argument = instruction.opname, instruction.argval
        index += 1
        _check_instruction(name, argument, code, inside, has_containers)
        is_cell = name in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF") and argument not in inside
        if name != "LOAD_GLOBAL" and not is_cell:
            continue
        chain = []
        while index < len(instructions) and instructions[index].opname in ("LOAD_ATTR", "LOAD_METHOD"):
            chain.append(instructions[index].argval)
            index += 1
        yield _resolved(function, "cell" if is_cell else "global", argument, chain, path)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _reads_of_code(function, constant, path, inside, has_containers)


def _check_instruction(
    name: str, argument: Any, code: types.CodeType, inside: frozenset[str], has_containers: bool
) -> None:
    is_expression = code.co_name.startswith("<")  # a generator expression hands its values to the code around it
    if name in _REFUSED and not (name == "YIELD_VALUE" and is_expression):
        raise Open(f"{_REFUSED[name]}: {argument}" if isinstance(argument, str) else _REFUSED[name])
    if name in ("STORE_DEREF", "DELETE_DEREF") and argument not in inside:
        raise Open(f"it writes the variable {argument!r} of an enclosing function")
    if not has_containers:
        return
    is_change = name in ("LOAD_ATTR", "LOAD_METHOD") and argument in _CHANGES | _CHANGES_MORE
    if is_change or name in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"):
        raise Open("it may change a container of its context")


def _resolved(function: types.FunctionType, kind: str, name: str, chain: list[str], path: Path) -> Read:
    """The object that a name and attributes behind it lead to, if the code may use it."""
    found = _variable(function, kind, name)
    place: Path = (*path, (kind, name))
    text = name
    owner: Any = None
    while not (isinstance(found, types.FunctionType) or _is_allowed(found, owner)):
        if found is _MISSING or (not isinstance(found, (types.ModuleType, type)) and not _is_namespace(found)):
            raise Open(f"it reads {text}")
        if not chain:
            raise Open(f"it uses the {'module' if isinstance(found, types.ModuleType) else 'class'} {text} as a value")
        attribute = chain.pop(0)
        owner, found = found, getattr(found, attribute, _MISSING)
        place, text = (*place, ("attribute", attribute)), f"{text}.{attribute}"
    if chain and isinstance(found, (types.FunctionType, type)):
        inner = getattr(found, chain[0], None)
        if not isinstance(found, type) or not _is_allowed(inner):
            raise Open(f"it reads {text}.{chain[0]}")
    return place, found


def _variable(function: types.FunctionType, kind: str, name: str) -> Any:
    if kind == "global":
        return function.__globals__.get(name, getattr(builtins, name, _MISSING))
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    try:
        return cells[name].cell_contents
    except (KeyError, ValueError):
        return _MISSING


def _is_namespace(found: Any) -> bool:
    """torch.ops and its namespaces."""
    return isinstance(found, (type(torch.ops), type(torch.ops.aten)))


def _is_allowed(found: Any, owner: Any = None) -> bool:
    """Whether it is an operator or a type of torch, or a pure builtin. `owner`: the module that it is read from."""
    if isinstance(found, (torch._ops.OpOverload, torch._ops.OpOverloadPacket, *_TYPES)):
        return True
    if isinstance(found, type):
        return found in _CLASSES or found in _PURE or found is FunctionCtx
    if isinstance(found, types.BuiltinFunctionType):
        return found in _PURE or found in _operators() or found.__module__ in (*_OPERATOR_MODULES, "math")
    if isinstance(found, types.MethodDescriptorType):
        return getattr(torch._C.TensorBase, found.__name__, None) is found
    return isinstance(found, float) and owner in (torch, math)


@functools.cache
def _operators() -> frozenset[Any]:
    functions = torch._C._VariableFunctions
    return frozenset(getattr(functions, name) for name in dir(functions) if not name.startswith("__"))
