"""What a program reaches from its function and its arguments, object by object. Each object that can change becomes a
part of the state.

The program's own functions are followed by what they name, before anything runs. Functions of installed packages are
followed when they begin to run (`begins`): a package has far more code than one call uses.
"""

from __future__ import annotations

import functools
import logging
import sys
import types
from dataclasses import dataclass
from typing import Any

import torch

from .. import places
from . import reach, surroundings
from .contents import ATOMS, Unsavable, is_of_c
from .objects import Objects
from .parts import ABSENT, CELL_EMPTY, OF_CLASSES, cell_contents, define, definition, fill_cell, write_attributes

# The most objects that are visited.
_MOST = 200_000
# Attributes by which the program's own code reaches what a function holds, without a call of it.
_INSIDE = frozenset({"__closure__", "__defaults__", "__kwdefaults__", "__globals__", "__getattribute__"})


@dataclass
class _Space:
    """A module, or a class of a library or a package. Only the attributes that the program names are part of the
    state, and `always`."""

    owner: Any
    always: frozenset[str] = frozenset()
    is_bound: bool = False


class Visitor(Objects):
    """Visits all that is reached from `roots`, a dict of names and objects."""

    def __init__(self, roots: dict[str, Any]):
        super().__init__(roots)
        self.codes: dict[int, types.CodeType] = {}  # code that was visited, or belongs to a library
        self._functions = reach.functions_by_code()
        self._new = reach.Names()  # what was named since the spaces were visited
        self._named: set[tuple[int, int]] = set()  # code, and the globals that it was visited with
        self._own_names: set[str] = set()  # attributes that the user's own files name
        self._waiting: list[tuple[str, types.FunctionType]] = []  # functions of packages that did not begin
        self._bound: dict[int, set[str]] = {}
        self._spaces: list[_Space] = []
        self._operators = reach.operators_of_others()
        self._add_globals_of_torch()
        self._visit_all()
        self._add_generators()

    def begins(self, code: types.CodeType, space: dict[str, Any]) -> None:
        """Visits what code that was not visited names, before it runs for the first time."""
        self.codes[id(code)] = code
        if reach.is_library_file(code.co_filename) or reach.is_own_file(code.co_filename):
            return
        for function in self._functions.get(id(code), ()):
            self._seen.setdefault(id(function), function)
            self._visit_whole(code.co_name, function)
        self._visit_names(code, space)
        self._visit_all()

    def _visit_all(self) -> None:
        while self._todo or (self._waiting and self._own_names & _INSIDE) or self._new != reach.Names():
            while self._todo:
                self._visit(*self._todo.pop())
            if self._own_names & _INSIDE:
                waiting, self._waiting = self._waiting, []
                for name, function in waiting:
                    self._visit_whole(name, function)
            new, self._new = self._new, reach.Names()
            for space in list(self._spaces):
                self._visit_space(space, new if space.is_bound else self._names)
                space.is_bound = True
        if self._locks and (self._names.attributes & {"acquire", "release", "__enter__", "__exit__"}):
            raise Unsavable(f"a lock that the program takes or releases by a call: {self._locks[0]}")

    def _visit(self, name: str, value: Any) -> None:
        cls = type(value)
        if cls in ATOMS or id(value) in self._seen or value is CELL_EMPTY or value is ABSENT:
            return
        self._seen[id(value)] = value
        if len(self._seen) > _MOST:
            raise Unsavable("the program reaches too many objects")
        if issubclass(cls, torch.Tensor):
            self._visit_tensor(name, value)
        elif cls is types.FunctionType:
            self._visit_function(name, value)
        elif cls is types.CellType:
            self._add(name, lambda: cell_contents(value), lambda old: fill_cell(value, old))
            self._held(cell_contents(value), lambda new: fill_cell(value, new))
            self._later((name, cell_contents(value)))
        elif issubclass(cls, type):
            self._visit_class(name, value)
        elif issubclass(cls, types.ModuleType):
            self._visit_module(name, value)
        else:
            self._visit_object(name, value)

    def _visit_function(self, name: str, function: types.FunctionType) -> None:
        file = function.__code__.co_filename
        if reach.is_own_file(file):
            self._later((name, function.__dict__.get("__wrapped__")))
            return
        if function.__dict__:
            self._later((name, function.__dict__))
        if places.distance_of(file) != 1 or id(function.__code__) in self.codes:
            self._visit_whole(name, function)
        else:
            self._waiting.append((name, function))

    def _visit_whole(self, name: str, function: types.FunctionType) -> None:
        """What a function holds, and what its code names."""
        code = function.__code__
        for cell, variable in zip(function.__closure__ or (), code.co_freevars, strict=True):
            self._later((variable, cell))
        self._later((name, function.__defaults__), (name, function.__kwdefaults__))
        if reach.is_library_file(code.co_filename):
            return
        self._add(f"<{name}>", lambda: definition(function), lambda old: define(function, old))
        self._later((name, function.__dict__))
        self._visit_names(code, function.__globals__)

    def _visit_names(self, code: types.CodeType, space: dict[str, Any]) -> None:
        names, file, key = reach.names_of(code), code.co_filename, (id(code), id(space))
        if key in self._named:
            return
        self._named.add(key)
        self.codes[id(code)] = code
        if places.is_of_user(file):  # a package is taken to use such code for its own ends
            reach.check(names, space, code.co_name)
            self._own_names |= names.attributes
        self._new.add(names.without(self._names))
        self._names.add(names)
        if "globals" in names.read and "globals" not in space:
            self._dict("globals", space, "[", but=("__builtins__",))
        self._bindings("globals", space, names.read)
        self._later(*((module.__name__, module) for module in reach.modules_of(names, space, file)))

    def _bindings(self, name: str, space: dict[str, Any], names: set[str]) -> None:
        def write(old: dict[str, Any]) -> None:
            for key, value in old.items():
                if value is ABSENT:
                    space.pop(key, None)
                elif space.get(key, ABSENT) is not value:
                    space[key] = value

        own = sorted(names - self._bound_in(space))
        self._bound_in(space).update(own)
        self._add(name, lambda: {key: space.get(key, ABSENT) for key in own}, write)
        for key in own:
            value = space.get(key)
            self._held(value, functools.partial(space.__setitem__, key))
            if not reach.is_library_function(value) or type(value) is types.FunctionType:
                self._later((key, value))

    def _bound_in(self, space: Any) -> set[str]:
        """The names of a namespace or a class that are part of the state already, as they were before any write."""
        return self._bound.setdefault(id(space), set())

    def _visit_module(self, name: str, module: types.ModuleType) -> None:
        if module is logging:
            self._later(("root", logging.root))
        if module is torch.ops:
            self._check_operators()
        self._spaces.append(_Space(module))

    def _check_operators(self) -> None:
        named = self._names.attributes | self._names.read
        for space, name in self._operators:
            if space in named and name in self._names.attributes:
                raise Unsavable(f"an operator that torch does not define: torch.ops.{space}.{name}")

    def _visit_space(self, space: _Space, new: reach.Names) -> None:
        """Saves the attributes of a module or of a library's class that the program names."""
        own = vars(space.owner)
        opaque = self._own_names & own.keys() if vars(space.owner).get("__name__") in reach.OPAQUE_MODULES else ()
        if used := sorted(opaque):
            raise Unsavable(f"a use of {space.owner.__name__}.{used[0]}, which changes what is not put back")
        if space.owner is torch.ops:
            self._check_operators()
        if space.owner is sys:
            new = self._names  # what the user's own files name is visited even if it was bound before
        names = {one for one in new.attributes if one in own} | new.stored
        names |= {one for one in new.read if one in own} | (space.always & own.keys() if not space.is_bound else set())
        bound = self._bound_in(own if isinstance(space.owner, types.ModuleType) else space.owner)
        names -= bound
        if isinstance(space.owner, type):
            names -= OF_CLASSES
        if not names:
            return
        bound |= names
        owner = space.owner
        label = f"<{owner.__name__}>" if isinstance(owner, type) else owner.__name__
        is_library = reach.is_library_class(owner) if isinstance(owner, type) else reach.is_library_module(owner)
        self._add(
            label,
            lambda: {key: vars(owner).get(key, ABSENT) for key in names},
            lambda old: write_attributes(owner, old),
        )
        for key in sorted(names & own.keys()):
            value = own[key]
            self._held(value, functools.partial(_set_attribute, owner, key))
            if owner is sys and (key not in self._own_names or _is_of_surroundings(key, value)):
                continue
            if not (is_library and _is_function_of_library(value)):
                self._later((f"{owner.__name__}.{key}", value))
        if type(owner).__module__.startswith("torch."):
            self._add_properties(owner, new)

    def _visit_class(self, name: str, cls: Any) -> None:
        if is_of_c(cls):
            return
        if type(cls) is not type:
            self._later((type(cls).__name__, type(cls)))
        self._later(*((base.__name__, base) for base in cls.__bases__))
        own = {key: value for key, value in vars(cls).items() if key not in OF_CLASSES}
        if reach.is_library_class(cls):
            self._spaces.append(_Space(cls))
            functions = (value for value in own.values() if type(value) is types.FunctionType)
            self._later(*((name, one) for one in functions if not reach.is_library_function(one)))
            return
        if "__del__" in own:
            raise Unsavable(f"a class with __del__: {cls.__name__}")
        if reach.is_package_class(cls):
            if issubclass(cls, torch.autograd.Function):  # its backward may run on another thread
                functions = (getattr(value, "__func__", value) for value in own.values())
                for one in functions:
                    if type(one) is types.FunctionType:
                        self._visit_whole(f"{cls.__name__}.{one.__name__}", one)
            self._spaces.append(_Space(cls, reach.called_by_libraries(cls)))
            return

        def read() -> dict[str, Any]:
            return {key: value for key, value in vars(cls).items() if key not in OF_CLASSES}

        def write(old: dict[str, Any]) -> None:
            write_attributes(cls, dict.fromkeys(read().keys() - old.keys(), ABSENT) | old)

        self._add(cls.__name__, read, write)
        self._later(*((f"{cls.__name__}.{key}", value) for key, value in own.items()))


def _is_of_surroundings(key: str, value: Any) -> bool:
    """Whether an attribute of `sys` is saved with the surroundings."""
    if key == "modules":
        raise Unsavable("sys.modules")
    if key in ("stdout", "stderr") and not reach.is_outside(value):
        raise Unsavable(f"what is printed stays in the process: sys.{key}")
    return key in surroundings.OF_SYS


def _is_function_of_library(value: Any) -> bool:
    if isinstance(value, types.BuiltinFunctionType):
        is_method = not isinstance(value.__self__, (types.ModuleType, type))
        return not is_method or (
            type(value.__self__).__name__ == "PyCapsule" and reach.is_library_name(value.__module__)
        )
    return reach.is_library_function(value)


def _set_attribute(owner: Any, name: str, value: Any) -> None:
    write_attributes(owner, {name: value})
