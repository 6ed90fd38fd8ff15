"""Loads the categories and runs their programs, plain or compiled; returns the observations of each call."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import logging
import random
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.utils._device
from torch._library.custom_ops import CustomOpDef

from .observe import Walk, gradients
from .registry import Call, Program, collecting

FOLDER = Path(__file__).parent
PACKAGE = __name__.rpartition(".")[0]
MACHINERY = {"__init__", "observe", "registry", "run"}
HIDDEN = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, logging.Logger, CustomOpDef)

Compile = Callable[[Any], Any]


def categories() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in MACHINERY)


@functools.cache
def _code(category: str) -> types.CodeType:
    path = FOLDER / f"{category}.py"
    return compile(path.read_text(), str(path), "exec", dont_inherit=True)


def load(category: str) -> tuple[types.ModuleType, dict[str, Program]]:
    """Executes the category's file; returns the module and its programs."""
    name = f"{PACKAGE}.{category}"
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{category}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with collecting() as programs, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(_code(category), module.__dict__)
    return module, programs


def names(category: str) -> list[str]:
    return list(load(category)[1])


def run(category: str, name: str, compile_with: Compile | None = None, exact: bool = True) -> list[dict[str, Any]]:
    """The observations of every call of a program, in a new module. `compile_with` makes the compiled callable."""
    with state_kept():
        torch.default_generator.manual_seed(0)
        torch.utils.hooks.RemovableHandle.next_id = 0
        module, programs = load(category)
        this = programs[name]
        target = this.make()
        callable_ = target if compile_with is None else compile_with(target)
        return [observe_call(module, target, callable_, call, index, exact) for index, call in enumerate(this.calls)]


def observe_call(
    module: types.ModuleType, target: Any, callable_: Any, call: Call, index: int, exact: bool = True
) -> dict[str, Any]:
    """Calls `callable_`, made from `target`, a function of `module`; returns all observations and gradients. Without
    `exact`, tracebacks and globals that the program does not name are left out."""
    if call.before is not None:
        call.before(target)
    torch.default_generator.manual_seed(index)
    random.seed(index)
    numpy.random.seed(index)
    named = _data_of(module).keys()
    seen: dict[str, Any] = {"raised": None}
    walk = Walk()
    result = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            result = callable_(*call.args, **call.kwargs)
        except (Exception, SystemExit) as error:
            seen["raised"] = walk.describe(error)
            if exact:
                seen["traceback"] = _lines(error, module.__file__)
            error.__traceback__ = None
    seen["random"] = _random_state()
    seen["state"] = _global_state()
    seen["arguments"] = walk.describe([*call.args, call.kwargs])
    seen["result"] = walk.describe(result)
    seen["target"] = walk.describe(target)
    grads = None
    with contextlib.redirect_stdout(printed):
        try:
            grads = gradients(walk, result)
        except RuntimeError as error:
            grads = f"backward raised {error}"
    seen["gradients"] = grads
    left = {name: value for name, value in _data_of(module).items() if exact or name in named}
    seen["globals"] = {name: walk.describe(value) for name, value in left.items()}
    seen["printed"] = printed.getvalue()
    return seen


def _data_of(module: types.ModuleType) -> dict[str, Any]:
    """The module's globals that are data, and the data in its classes."""
    found = {}
    for name, value in list(vars(module).items()):
        if name.startswith("__") or isinstance(value, HIDDEN):
            continue
        if not isinstance(value, type):
            found[name] = value
        elif value.__module__ == module.__name__ and not issubclass(value, (tuple, BaseException)):
            found |= {
                f"{name}.{key}": item
                for key, item in vars(value).items()
                if isinstance(item, (int, float, str, list, dict, set, torch.Tensor)) and not key.startswith("_")
            }
    return found


def _lines(error: BaseException, file: str) -> list[str]:
    """The frames of a traceback that belong to the program, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.name}:{frame.lineno}" for frame in frames if frame.filename == file]


def _random_state() -> dict[str, int]:
    _, key, position, *_ = numpy.random.get_state()
    return {
        "torch": hash(torch.get_rng_state().numpy().tobytes()),
        "random": hash(random.getstate()),
        "numpy": hash((key.tobytes(), position)),
    }


def _global_state() -> dict[str, Any]:
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": str(torch.get_default_dtype()),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "recursion": sys.getrecursionlimit(),
        "function_modes": torch._C._len_torch_function_stack(),
    }


@contextlib.contextmanager
def state_kept() -> Iterator[None]:
    """Restores global state that a program, or a failing compiler, has changed, before the next program."""
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    deterministic, limit = torch.are_deterministic_algorithms_enabled(), sys.getrecursionlimit()
    modes, device = torch._C._len_torch_function_stack(), torch.utils._device.CURRENT_DEVICE
    try:
        yield
    finally:
        while torch._C._len_torch_function_stack() > modes:
            torch._C._pop_torch_function_stack()
        torch.utils._device.CURRENT_DEVICE = device
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
        if torch.are_deterministic_algorithms_enabled() != deterministic:
            torch.use_deterministic_algorithms(deterministic)
        sys.setrecursionlimit(limit)
