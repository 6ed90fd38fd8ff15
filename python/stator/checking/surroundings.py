"""What a program can change of the process and the thread without holding an object: modes and flags of torch, of
Python and of its standard library. Read before the plain run of shadow mode, and put back after it."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from .. import ambient


class Fact(NamedTuple):
    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None]


# Flags of torch that have a function `_get_<name>` and a function `_set_<name>`.
_FLAGS = (
    "autograd_fallback_mode",
    "backcompat_broadcast_warn",
    "backcompat_keepdim_warn",
    "blas_preferred_backend",
    "cpu_allow_fp16_reduced_precision_reduction",
    "cublas_allow_bf16_reduced_precision_reduction",
    "cublas_allow_fp16_accumulation",
    "cublas_allow_fp16_reduced_precision_reduction",
    "cublas_allow_tf32",
    "cudnn_allow_tf32",
    "cudnn_benchmark",
    "cudnn_deterministic",
    "cudnn_enabled",
    "deterministic_fill_uninitialized_memory",
    "graph_executor_optimize",
    "linalg_preferred_backend",
    "math_sdp_allow_fp16_bf16_reduction",
    "mkldnn_deterministic",
    "mkldnn_enabled",
    "nnpack_enabled",
    "qengine",
    "sdp_priority_order",
    "warnAlways",
)
# Kernels of attention: `_get_<name>_sdp_enabled` and `_set_sdp_use_<name>`.
_ATTENTION = ("cudnn", "fa3", "flash", "math", "mem_efficient", "overrideable")
# Names of `sys` that a program binds.
OF_SYS = (
    *("stdin", "stdout", "stderr", "path", "argv", "meta_path", "path_hooks"),
    *("displayhook", "excepthook", "unraisablehook", "breakpointhook", "dont_write_bytecode"),
)


def _flag(name: str, getter: str, setter: str) -> Iterator[Fact]:
    read, write = getattr(torch._C, getter, None), getattr(torch._C, setter, None)
    if read is None or write is None:
        return
    with contextlib.suppress(RuntimeError):  # not in this build of torch
        is_tuple = isinstance(read(), tuple)

        def value() -> Any:
            try:
                return read()
            except RuntimeError:  # the newer flags of precision say more than this one can
                return None

        def put(old: Any) -> None:
            if old is not None:
                write(*old) if is_tuple else write(old)

        yield Fact(name, value, put)


_PRECISIONS = [
    *(("generic", "all"), ("cuda", "all"), ("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn")),
    *(("mkldnn", "all"), ("mkldnn", "matmul"), ("mkldnn", "conv"), ("mkldnn", "rnn")),
]


def _precisions() -> list[Any]:
    read = getattr(torch._C, "_get_fp32_precision_getter", None)
    return [] if read is None else [read(*place) for place in _PRECISIONS]


def _set_precisions(old: list[Any]) -> None:
    for place, value, new in zip(_PRECISIONS, old, _precisions(), strict=False):
        if value != new:
            torch._C._set_fp32_precision_setter(*place, value)


def _autocast() -> tuple[Any, ...]:
    kinds = tuple((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _kinds())
    return kinds, torch.is_autocast_cache_enabled()


def _set_autocast(old: tuple[Any, ...]) -> None:
    for kind, (is_enabled, dtype) in zip(_kinds(), old[0], strict=True):
        torch.set_autocast_enabled(kind, is_enabled)
        torch.set_autocast_dtype(kind, dtype)
    torch.set_autocast_cache_enabled(old[1])


def _kinds() -> tuple[str, ...]:
    return ("cpu", "cuda")


def _anomaly() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _open_modes() -> tuple[int, int]:
    return torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()


def _close_modes(old: tuple[int, int]) -> None:
    if torch._C._len_torch_function_stack() > old[0]:
        torch.set_default_device(None)  # a default device is a mode that torch holds as well
    ambient.release(Exception(), *old)


def _print_options() -> dict[str, Any]:
    return dict(vars(torch._tensor_str.PRINT_OPTS))


def _set_print_options(old: dict[str, Any]) -> None:
    vars(torch._tensor_str.PRINT_OPTS).update(old)


def _next_hook() -> int:
    return int(torch.utils.hooks.RemovableHandle.next_id)


def _set_next_hook(old: int) -> None:
    torch.utils.hooks.RemovableHandle.next_id = old


def _of_sys() -> list[Any]:
    return [getattr(sys, name, None) for name in OF_SYS]


def _set_sys(old: list[Any]) -> None:
    for name, value in zip(OF_SYS, old, strict=True):
        setattr(sys, name, value)


def _paths() -> list[Any]:
    return [list(sys.path), list(sys.argv)]


def _set_paths(old: list[Any]) -> None:
    sys.path[:], sys.argv[:] = old


def _warnings() -> list[Any]:
    return [list(warnings.filters), warnings.showwarning, warnings.formatwarning]


def _set_warnings(old: list[Any]) -> None:
    filters, warnings.showwarning, warnings.formatwarning = old
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _set_folder(old: str | None) -> None:
    if old is not None:
        os.chdir(old)


_OF_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _decimal() -> tuple[Any, ...] | None:
    decimal = sys.modules.get("decimal")
    return None if decimal is None else _numbers_of(decimal.getcontext())


def _set_decimal(old: tuple[Any, ...] | None) -> None:
    if "decimal" not in sys.modules:
        return
    context = sys.modules["decimal"].getcontext()
    numbers, flags, traps = old or _numbers_of(sys.modules["decimal"].DefaultContext)
    for name, value in zip(_OF_DECIMAL, numbers, strict=True):
        setattr(context, name, value)
    context.flags.update(flags)
    context.traps.update(traps)


def _numbers_of(context: Any) -> tuple[Any, ...]:
    return [getattr(context, name) for name in _OF_DECIMAL], dict(context.flags), dict(context.traps)


def _collection() -> tuple[Any, ...]:
    return gc.isenabled(), gc.get_threshold()


def _set_collection(old: tuple[Any, ...]) -> None:
    gc.enable() if old[0] else gc.disable()
    gc.set_threshold(*old[1])


def _numpy_errors() -> Any:
    numpy = sys.modules.get("numpy")
    return None if numpy is None else dict(numpy.geterr())


def _set_numpy_errors(old: Any) -> None:
    if old is not None:
        sys.modules["numpy"].seterr(**old)


_FACTS = (
    Fact("torch modes", _open_modes, _close_modes),  # first: a mode sees what the others do
    Fact("grad mode", torch.is_grad_enabled, torch._C._set_grad_enabled),
    Fact("default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Fact("deterministic algorithms", ambient._deterministic, ambient._set_deterministic),
    Fact("float32 matmul precision", ambient._matmul_precision, ambient._set_matmul_precision),
    Fact("number of threads", torch.get_num_threads, torch.set_num_threads),
    Fact("autocast", _autocast, _set_autocast),
    Fact("anomaly mode", _anomaly, lambda old: torch.set_anomaly_enabled(*old)),
    Fact("multithreaded backward", torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled),
    Fact("view replay", torch._C._is_view_replay_enabled, torch._C._set_view_replay_enabled),
    Fact("forward gradients", torch._C._is_fwd_grad_enabled, torch._C._set_fwd_grad_enabled),
    *(fact for name in _FLAGS for fact in _flag(name, f"_get_{name}", f"_set_{name}")),
    *(fact for name in _ATTENTION for fact in _flag(f"{name} sdp", f"_get_{name}_sdp_enabled", f"_set_sdp_use_{name}")),
    Fact("precisions", _precisions, _set_precisions),  # after the older flags, which change these
    Fact("print options", _print_options, _set_print_options),
    Fact("number of the next hook", _next_hook, _set_next_hook),
    Fact("streams and hooks of sys", _of_sys, _set_sys),
    Fact("paths of sys", _paths, _set_paths),
    Fact("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    Fact("warning filters", _warnings, _set_warnings),
    Fact("folder", _folder, _set_folder),
    Fact("environment", lambda: dict(os.environ), lambda old: _set_environment(old)),
    Fact("decimal context", _decimal, _set_decimal),
    Fact("garbage collection", _collection, _set_collection),
    Fact("numpy errors", _numpy_errors, _set_numpy_errors),
)


def _set_environment(old: dict[str, str]) -> None:
    for name in os.environ.keys() - old.keys():
        del os.environ[name]
    for name, value in old.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def save() -> list[Any]:
    return [fact.read() for fact in _FACTS]


def restore(saved: list[Any]) -> None:
    for fact, old in zip(_FACTS, saved, strict=True):
        if fact.read() != old:
            fact.write(old)


def changes(saved: list[Any]) -> Iterator[tuple[str, Any]]:
    """The names of the facts that have changed, and their values as text."""
    for fact, old in zip(_FACTS, saved, strict=True):
        if (new := fact.read()) != old:
            yield fact.name, new if isinstance(new, (bool, int, str)) else repr(new)


def is_watched() -> bool:
    """Whether something sees the operators that run, and would see those of the plain run as well."""
    return (
        sum(_open_modes()) > 0
        or torch._C._functorch.maybe_current_level() is not None
        or torch.jit.is_tracing()
        or sys.getprofile() is not None
        or torch._C._autograd._profiler_enabled()
        or torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
    )
