"""NumPy calls of a captured program, executed on tensors through `torch._numpy`.

The extension calls `run` while operators are recorded. An `Array` represents an array of the program. Each function
of NumPy has a twin, the function of the same name in `torch._numpy`. Every call is also made by NumPy itself on sample
arrays: arrays of ones with the same layout. Their result has the kind, dtype, shape, strides and aliasing that the real
result must have. If the twin's result differs from it, the call is refused, which is a graph break.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import _C


class Refused(Exception):
    """Why a call cannot be captured."""


class Array:
    """An array of the program, or (`scalar`) a NumPy scalar whose value is not known."""

    __slots__ = ("_tensor", "known", "scalar")

    def __init__(self, tensor: torch.Tensor | None, scalar: bool = False, known: np.ndarray | None = None) -> None:
        self._tensor, self.scalar, self.known = tensor, scalar, known

    @property
    def tensor(self) -> torch.Tensor:
        if self._tensor is None:
            assert self.known is not None
            self._tensor = _constant(lambda: torch.from_numpy(self.known))
        return self._tensor

    @property
    def type(self) -> type:
        return _numpy_dtype(self.tensor).type if self.scalar else np.ndarray


def _constant(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    """A constant tensor of the capture, whose data is made now."""
    return _C.capture_constant(_C.call_unrecorded(make))


class _Torch:
    """The `torch` module that the twins use: numbers and lists become constants of the capture."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def as_tensor(self, data: Any, *args: Any, **options: Any) -> torch.Tensor:
        if isinstance(data, torch.Tensor):
            return torch.as_tensor(data, *args, **options)
        return _constant(lambda: torch.as_tensor(data, *args, **options))


@functools.cache
def _twin_module() -> types.ModuleType:
    """A private copy of `torch._numpy`; torch's module is not modified."""
    name, folder = "stator._numpy", Path(torch.__file__).parent / "_numpy"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    seen = _Torch()
    for key, part in list(sys.modules.items()):
        if key.startswith(f"{name}.") and getattr(part, "torch", None) is torch:
            part.torch = seen  # type: ignore[attr-defined]
    return module


# Twins whose values differ from NumPy's for some data.
OTHER_VALUES = {"argpartition", "partition", "random", "seed", "empty", "empty_like", "histogram", "histogramdd"}
# Integer operands: NumPy only warns on division by zero, and raises on negative powers.
DIVISIONS = {"floor_divide", "remainder", "mod", "fmod", "divmod", "power", "float_power", "gcd", "lcm"}
DIVISIONS |= {f"__{how}{op}__" for how in ("", "r", "i") for op in ("floordiv", "mod", "divmod", "pow")}
UNSTABLE = {"argsort"}  # the order of equal items is unspecified unless kind="stable"
MODULES = ("", "linalg", "fft")
# Calls whose results torch rounds as NumPy does for all data; operators are listed by their function names.
_EXACT = """
abs absolute add all amax amin any append arange argmax argmin argsort array array_equal asarray astype
atleast_1d atleast_2d atleast_3d bitwise_and bitwise_or bitwise_xor broadcast_arrays broadcast_to ceil clip column_stack
concatenate conj copy copyto diag diagonal divide dsplit dstack equal expand_dims fabs fill flatten flip fliplr flipud
floor fmax fmin full full_like greater greater_equal heaviside hsplit hstack invert isfinite isinf isnan left_shift less
less_equal logical_and logical_not logical_or logical_xor max maximum min minimum moveaxis multiply negative not_equal
ones ones_like positive ptp ravel repeat reshape right_shift rint roll rollaxis rot90 round searchsorted shape sign
signbit sort split sqrt square squeeze stack subtract swapaxes take take_along_axis tile transpose tril triu true_divide
trunc vsplit vstack where zeros zeros_like T mT real imag
"""
EXACT = set(_EXACT.split())
EXACT |= {f"__{how}{op}__" for how in ("", "r", "i") for op in ("add", "sub", "mul", "truediv", "and", "or", "xor")}
EXACT |= {f"__{op}__" for op in ("getitem", "setitem", "len", "neg", "pos", "abs", "invert", "copy", "deepcopy")}
EXACT |= {f"__{op}__" for op in ("eq", "ne", "lt", "le", "gt", "ge", "lshift", "rshift")}
# These are exact as well, on integers.
SUMS = {"sum", "prod", "cumsum", "cumprod", "dot", "matmul", "__matmul__", "__floordiv__", "__mod__", "floor_divide"}
SUMS |= {"mod", "remainder", "inner", "outer", "trace", "count_nonzero"}


@functools.cache
def _twins() -> dict[int, tuple[Any, Any]]:
    """Maps the id of a NumPy callable to the callable and its twin."""
    found = {}
    for part in MODULES:
        theirs, twins = (functools.reduce(getattr, filter(None, [part]), m) for m in (np, _twin_module()))
        for name in dir(twins):
            mine, twin = getattr(theirs, name, None), getattr(twins, name)
            if name.startswith("_") or name in OTHER_VALUES or not callable(mine) or isinstance(mine, type):
                continue
            found[id(mine)] = (mine, twin)
    return found


def run(target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Executes a NumPy call and returns literals, `Array`s, or containers of them. `target` is a NumPy function, a
    class of NumPy scalars, or the name of a method of the first argument."""
    is_method = isinstance(target, str)
    name = target if is_method else getattr(target, "__name__", "")
    arrays = list(_arrays_in((args, kwargs)))
    real = _method(target) if is_method else target
    if not is_method and not isinstance(target, type) and id(target) not in _twins():
        raise Refused(f"numpy.{name} has no twin in torch")
    if is_method and isinstance(args[0], Array) and args[0].scalar:
        target = name = _not_in_place(name)
        real = _method(name)
    if all(array.known is not None for array in arrays):
        known, result = _fold_constants(real, args, kwargs, arrays)
        if known:
            return result
    _check_values(name, args, kwargs)
    if isinstance(target, type):
        raise Refused(f"numpy.{name} of data")
    samples, expected, written = _call_on_samples(real, args, kwargs, arrays)
    for array in arrays:
        array.tensor  # noqa: B018  constants are made before the call
    for array in written:
        array.known = None
    twin = _method(target) if is_method else _twins()[id(target)][1]
    args, kwargs = _copy_aliases(args, written), _copy_aliases(kwargs, written)
    if name == "__setitem__" and isinstance(args[2], (bool, int, float, complex, np.generic)):
        number, dtype = args[2], args[0].tensor.dtype  # the binding would write the number through a data pointer
        args = (*args[:2], Array(_constant(lambda: torch.tensor(number, dtype=dtype))))
    result = twin(*_as_twin(args), **_as_twin(kwargs))
    return _result(result, expected, name, [(array, samples[id(array)]) for array in arrays])


def attribute(array: Array, name: str) -> Any:
    """The value of an attribute that is not a method."""
    if name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes", "strides"):
        return getattr(array.known if array.known is not None else _sample_array(array), name)
    if name not in ("T", "mT", "real", "imag"):
        raise Refused(f"ndarray.{name}")
    sample = _sample_array(array)
    expected = _call_real(getattr, (sample, name), {})
    if not expected.flags.writeable:
        raise Refused(f"ndarray.{name} gives an array that is not writable")
    result = getattr(_twin_module().ndarray(array.tensor), name)
    return _result(result, expected, name, [(array, sample)])


def of_tensor(tensor: torch.Tensor) -> Array:
    """`Tensor.numpy()`: the same memory."""
    if tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or tensor.device.type != "cpu":
        raise Refused("the plain program raises an error here")
    _numpy_dtype(tensor)
    return Array(tensor.detach())


def to_tensor(array: Array, copy: bool) -> torch.Tensor:
    """`torch.from_numpy` and `torch.tensor`."""
    if array.scalar:
        raise Refused("a NumPy scalar as data of a tensor")
    return array.tensor.clone(memory_format=torch.contiguous_format) if copy else array.tensor.detach()


def made_array(tensor: torch.Tensor) -> np.ndarray:
    """The array that a plan returns to the program for a tensor."""
    return tensor.numpy()


def made_scalar(tensor: torch.Tensor) -> np.generic:
    return tensor.numpy()[()]


def _method(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)


def _not_in_place(name: str) -> str:
    in_place = name.startswith("__i") and name not in ("__invert__", "__index__", "__int__", "__iter__")
    return f"__{name[3:]}" if in_place else name


def _arrays_in(value: Any) -> Iterator[Array]:
    if isinstance(value, Array):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays_in(item)
    elif isinstance(value, dict):
        yield from _arrays_in(list(value.values()))
    elif isinstance(value, slice):
        yield from _arrays_in((value.start, value.stop, value.step))


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if type(value) in (tuple, list):
        return type(value)(_mapped(item, change) for item in value)
    if type(value) is dict:
        return {key: _mapped(item, change) for key, item in value.items()}
    return change(value)


def _with(value: Any, real: dict[int, Any]) -> Any:
    return _mapped(value, lambda item: real[id(item)] if isinstance(item, Array) else item)


def _as_twin(value: Any) -> Any:
    def change(item: Any) -> Any:
        if isinstance(item, Array):
            return _twin_module().ndarray(item.tensor)
        if isinstance(item, np.dtype):
            return item.name
        if isinstance(item, type) and issubclass(item, np.generic):
            return np.dtype(item).name
        if isinstance(item, np.generic):
            return _twin_module().ndarray(_constant(lambda: torch.from_numpy(np.array(item))))
        return item

    return _mapped(value, change)


def _call_real(real: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """Calls NumPy itself. If it raises or warns, the call is refused, so that the plain program raises or warns."""

    def call() -> Any:
        # Not by `catch_warnings`: after it, Python gives warnings again that the program has given once.
        rules, warnings.filters = warnings.filters, [("error", None, Warning, None, 0)]
        try:
            with np.errstate(all="raise"):
                return real(*args, **kwargs)
        except Exception as error:
            raise Refused(f"NumPy raises {type(error).__name__}: {error}") from None
        finally:
            warnings.filters = rules

    return _C.call_unrecorded(call)


def _call_on_samples(
    real: Callable[..., Any], args: tuple, kwargs: dict[str, Any], arrays: list[Array]
) -> tuple[dict[int, np.ndarray], Any, list[Array]]:
    """Calls NumPy on sample arrays. Returns the samples, the result, and the samples that were written to."""

    def attempt(fixed: list[Array]) -> tuple[dict[int, np.ndarray], Any]:
        samples = {id(array): _sample_array(array) for array in arrays}
        for array in fixed:
            if not array.scalar:
                samples[id(array)].flags.writeable = False
        return samples, _call_real(real, _with(args, samples), _with(kwargs, samples))

    def writes_to(fixed: list[Array]) -> bool:
        try:
            attempt(fixed)
        except Refused as why:
            return "read-only" in str(why)
        return False

    if not writes_to(arrays):
        return *attempt(arrays), []
    return *attempt([]), [array for array in arrays if writes_to([array])]


def _fold_constants(
    real: Callable[..., Any], args: tuple, kwargs: dict[str, Any], arrays: list[Array]
) -> tuple[bool, Any]:
    """Whether a call on constants gives constants, and the result if so."""
    copies = {id(array): _C.call_unrecorded(functools.partial(np.copy, array.known, "K")) for array in arrays}
    result = _call_real(real, _with(args, copies), _with(kwargs, copies))

    def is_fixed(item: Any) -> bool:
        if isinstance(item, np.ndarray):
            return type(item) is np.ndarray and not any(np.may_share_memory(item, c) for c in copies.values())
        if isinstance(item, (tuple, list)):
            return all(is_fixed(part) for part in item)
        return isinstance(item, (np.generic, int, float, complex, str, np.dtype, type(None)))

    unchanged = all(array.known.tobytes() == copies[id(array)].tobytes() for array in arrays)  # type: ignore[union-attr]
    if not unchanged or result is None or not is_fixed(result):
        return False, None
    return True, _mapped(result, lambda item: Array(None, known=item) if isinstance(item, np.ndarray) else item)


def _check_values(name: str, args: tuple, kwargs: dict[str, Any]) -> None:
    if name in DIVISIONS:
        operands = args if not name.startswith("__r") else args[::-1]
        integers = [a for a in operands[:2] if isinstance(a, Array) and not a.tensor.is_floating_point()]
        divisor = operands[1] if len(operands) > 1 else None
        if integers and (isinstance(divisor, Array) or not isinstance(divisor, (int, float)) or divisor <= 0):
            raise Refused(f"{name} of integers that may be zero or negative")
    if name not in EXACT and _C.get_config("numpy_exact"):
        all_integers = all(not array.tensor.is_floating_point() for array in _arrays_in((args, kwargs)))
        if not (all_integers and name in SUMS):
            raise Refused(f"{name} may round differently, and config.numpy_exact is set")
    if name in UNSTABLE and kwargs.get("kind") != "stable" and kwargs.get("stable") is not True:
        raise Refused(f'{name} without kind="stable"')


def _copy_aliases(value: Any, written: list[Array]) -> Any:
    """Copies arguments that share memory with a written one, so that the call reads their old values."""

    def change(item: Any) -> Any:
        if not isinstance(item, Array) or item in written:
            return item
        shared = any(_storage(item.tensor) == _storage(array.tensor) for array in written)
        return Array(item.tensor.clone(), item.scalar) if shared else item

    return _mapped(value, change)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _numpy_dtype(tensor: torch.Tensor) -> np.dtype:
    try:
        return np.dtype(str(tensor.dtype).removeprefix("torch."))
    except TypeError:
        raise Refused(f"NumPy has no {tensor.dtype}") from None


def _sample_array(array: Array) -> np.ndarray:
    tensor = array.tensor
    size, stride, dtype = tuple(tensor.shape), tensor.stride(), tensor.dtype
    reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else 0

    def make() -> np.ndarray:
        made = torch.ones(reach, dtype=dtype).as_strided(size, stride).numpy()
        return made[()] if array.scalar else made

    return _C.call_unrecorded(make)


def _result(result: Any, expected: Any, name: str, arrays: list[tuple[Array, np.ndarray]]) -> Any:
    for array, sample in arrays:
        if expected is sample and not array.scalar:
            return array
    if isinstance(expected, (np.ndarray, np.generic)):
        return _array_result(result, expected, name, arrays)
    if expected is None and result is None:
        return None
    if type(expected) in (tuple, list) and isinstance(result, (tuple, list)) and len(expected) == len(result):
        return type(expected)(_result(r, e, name, arrays) for r, e in zip(result, expected, strict=True))
    if name == "__len__" and isinstance(expected, int):
        return expected
    raise Refused(f"{name} gives a {type(expected).__name__}")


def _array_result(result: Any, expected: Any, name: str, arrays: list[tuple[Array, np.ndarray]]) -> Array:
    tensor = getattr(result, "tensor", None)
    if not isinstance(tensor, torch.Tensor):
        raise Refused(f"{name} gives a {type(result).__name__}")
    if isinstance(expected, np.ndarray) and type(expected) is not np.ndarray:
        raise Refused(f"{name} gives a {type(expected).__name__}")
    if _numpy_dtype(tensor) != expected.dtype or tuple(tensor.shape) != expected.shape:
        raise Refused(f"{name} gives {expected.dtype} of shape {expected.shape}, its twin does not")
    is_scalar = isinstance(expected, np.generic)
    shared = [array for array, _ in arrays if _storage(array.tensor) == _storage(tensor)]
    wanted = [array for array, s in arrays if not is_scalar and not array.scalar and np.shares_memory(s, expected)]
    if [array for array in wanted if array not in shared]:
        raise Refused(f"{name} gives a view, its twin a copy")
    if shared and not wanted:
        tensor = tensor.clone()
    if not is_scalar and not _same_layout(tensor, expected):
        if wanted:
            raise Refused(f"{name} gives a view of another layout than its twin")
        steps = [step // expected.itemsize for step in expected.strides]
        tensor = torch.empty_strided(expected.shape, steps, dtype=tensor.dtype).copy_(tensor)
    return Array(tensor, scalar=is_scalar)


def _same_layout(tensor: torch.Tensor, expected: np.ndarray) -> bool:
    steps = [step * expected.itemsize for step in tensor.stride()]
    empty = 0 in expected.shape
    return all(n <= 1 or empty or a == b for n, a, b in zip(expected.shape, steps, expected.strides, strict=True))
