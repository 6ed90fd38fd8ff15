"""What code names: globals, attributes, imports. And what belongs to a library, whose own state is not visited."""

from __future__ import annotations

import builtins
import dis
import functools
import gc
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import places
from .contents import Unsavable

# Libraries whose functions are taken to keep no state of their own, apart from the facts of `surroundings`.
_LIBRARIES = frozenset({"torch", "numpy", "stator"}) | (sys.stdlib_module_names - {"__main__"})
# Functions that reach what no name says.
_OPAQUE_BUILTINS = frozenset({"eval", "exec", "__import__"})
_OPAQUE_ATTRIBUTES = frozenset(
    (
        *("import_module", "_getframe", "currentframe", "get_objects", "get_referrers", "get_referents"),
        *("next_functions", "get_gradient_edge", "register_multi_grad_hook", "register_prehook"),
        *("settrace", "setprofile", "setlocale", "Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor"),
    )
)
# Namespaces of operators that torch defines.
OPERATORS = frozenset({"aten", "prims", "prim", "inductor", "quantized", "mkldnn", "mkl", "profiler", "static"})
# Modules whose functions change what is not an object of the program.
OPAQUE_MODULES = frozenset({"_thread", "asyncio", "atexit", "ctypes", "multiprocessing", "signal", "weakref"})
_BY_TEXT = frozenset({"getattr", "setattr", "delattr", "hasattr", "vars", "__dict__", "attrgetter"})


@dataclass
class Names:
    read: set[str] = field(default_factory=set)  # globals
    attributes: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)  # those of `attributes` that are written
    imports: set[str] = field(default_factory=set)

    def add(self, other: Names) -> None:
        for mine, more in zip(vars(self).values(), vars(other).values(), strict=True):
            mine |= more

    def without(self, other: Names) -> Names:
        return Names(*(mine - more for mine, more in zip(vars(self).values(), vars(other).values(), strict=True)))


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> Names:
    names, texts = Names(), set()
    for step in dis.get_instructions(code):
        kind, what = step.opname, step.argval
        if kind.endswith(("_GLOBAL", "_NAME")) and kind != "IMPORT_NAME":
            names.read.add(what)
        elif kind.endswith(("_ATTR", "_METHOD", "IMPORT_FROM")):
            names.attributes.add(what)
            if kind.startswith(("STORE", "DELETE")):
                names.stored.add(what)
        elif kind == "IMPORT_NAME":
            names.imports.add(what)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.add(names_of(constant))
        elif isinstance(constant, (str, tuple)):
            texts |= {one for one in (constant if isinstance(constant, tuple) else (constant,)) if isinstance(one, str)}
    if (names.read | names.attributes) & _BY_TEXT:
        found = {part for text in texts for part in text.split(".") if part.isidentifier()}
        names.attributes |= found
        names.stored |= found
    return names


def check(names: Names, space: dict[str, Any], name: str) -> None:
    """Raises for code that reaches objects in a way that names do not tell."""
    own = {one for one in names.read if one not in space and hasattr(builtins, one)}
    found = (own & _OPAQUE_BUILTINS) | ((names.attributes | names.imports | names.read) & _OPAQUE_ATTRIBUTES)
    if found:
        raise Unsavable(f"code that uses {sorted(found)[0]}, which reaches what cannot be seen: {name}")
    if "print" in own and not is_outside(sys.stdout):
        raise Unsavable(f"what is printed stays in the process: {name}")


def is_outside(stream: Any) -> bool:
    """Whether what is written to a stream leaves the process."""
    try:
        return stream is None or stream.fileno() >= 0
    except Exception:
        return False


def modules_of(names: Names, space: dict[str, Any], file: str) -> list[types.ModuleType]:
    """The modules that code of a file imports when it runs."""
    found = []
    parents = (space.get("__package__") or space.get("__name__") or "").split(".")
    for name in names.imports:
        tries = [name, *(".".join((*parents[:i], name)).rstrip(".") for i in range(len(parents), 0, -1))]
        known = [sys.modules[one] for one in tries if one in sys.modules]
        if not known and places.is_of_user(file):
            raise Unsavable(f"an import of a module for the first time: {name}")
        found += known
        found += [sys.modules[name.split(".")[0]]] if name.split(".")[0] in sys.modules else []
    return found


@functools.cache
def is_library_file(file: str) -> bool:
    numpy = getattr(sys.modules.get("numpy"), "__file__", None)
    is_numpy = numpy is not None and file.startswith(numpy.removesuffix("__init__.py"))
    return is_numpy or places.distance_of(file) == 2


@functools.cache
def is_own_file(file: str) -> bool:
    """Whether a file is Stator's."""
    return file.startswith(places.__file__.removesuffix("places.py"))


def is_library_name(module: Any) -> bool:
    """Whether a name of a module is that of a library's."""
    return isinstance(module, str) and module.split(".")[0] in _LIBRARIES


def is_library_module(module: types.ModuleType) -> bool:
    name = getattr(module, "__name__", None)
    if not isinstance(name, str) or not is_library_name(name):
        return False
    return sys.modules.get(name) is module or type(module) is not types.ModuleType or not hasattr(module, "__file__")


def is_library_class(cls: type) -> bool:
    """Whether a class is a name of a library's module: not one that the program made under the library's name."""
    if not is_library_name(cls.__module__):
        return False
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found is cls


def is_package_class(cls: type) -> bool:
    """Whether a class is of an installed package. Its methods are visited as far as code names them."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return file is not None and places.distance_of(file) == 1


def called_by_libraries(cls: type) -> frozenset[str]:
    """The names of a class that code of libraries may use: those with a meaning in Python, and those of its bases."""
    bases = [vars(base).keys() for base in cls.__mro__ if is_library_class(base)]
    return frozenset(name for name in vars(cls) if name.startswith("__") or any(name in base for base in bases))


def is_cached_by_package(value: Any) -> bool:
    """Whether an object is a cached function of an installed package: it is taken to have no effect."""
    if type(value) is not functools._lru_cache_wrapper:
        return False
    code = getattr(value.__wrapped__, "__code__", None)
    return code is not None and not places.is_of_user(code.co_filename)


def is_library_function(value: Any) -> bool:
    inner = getattr(value, "__wrapped__", value) if type(value) is functools._lru_cache_wrapper else value
    return isinstance(inner, types.FunctionType) and is_library_file(inner.__code__.co_filename)


def functions_by_code() -> dict[int, list[types.FunctionType]]:
    """All functions of installed packages and of the program, by the id of their code."""
    found: dict[int, list[types.FunctionType]] = {}
    for value in gc.get_objects():
        if type(value) is types.FunctionType and not is_library_file(value.__code__.co_filename):
            found.setdefault(id(value.__code__), []).append(value)
    return found


def operators_of_others() -> set[tuple[str, str]]:
    """The operators that torch does not define: namespace and name."""
    parts = (one.split(".")[0].split("::") for one in torch._C._dispatch_get_all_op_names())
    return {(space, name) for space, name in parts if space not in OPERATORS}
