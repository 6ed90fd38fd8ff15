"""Nodes of captured graphs that call torch's own Python side.

The forward of a `torch.autograd.Function` is captured like any other code. A node then attaches the function's backward
to the results: it calls torch with a forward that only returns what the graph has computed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import threading
import types
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import FunctionCtx, _SingleLevelFunction

from . import _C
from .overrides import DispatchProbe
from .user import graph_break

Tensors = tuple[torch.Tensor, ...]


class TracedContext(FunctionCtx):  # type: ignore[misc]
    """The `ctx` of `forward` during a capture."""

    needs_input_grad: tuple[bool, ...]

    def __getattr__(self, name: str) -> Any:
        graph_break("an attribute of a function's context that forward did not set")


class Slot:
    """Represents a tensor in the values of a `FunctionCall`, by its index among the tensors that the call gets."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


def fill(template: Any, tensors: tuple[torch.Tensor, ...]) -> Any:
    if type(template) is Slot:
        return tensors[template.index]
    if type(template) in (tuple, list):
        return type(template)(fill(item, tensors) for item in template)
    if type(template) is dict:
        return {key: fill(item, tensors) for key, item in template.items()}
    return template


class _Pending(threading.local):
    call: tuple[FunctionCall, tuple[torch.Tensor, ...]] | None = None


_pending = _Pending()


def _hand_over(ctx: Any, *args: Any) -> Any:
    """The forward that torch calls: it returns the outputs of the pending call, which the graph has computed."""
    assert _pending.call is not None
    (call, tensors), _pending.call = _pending.call, None
    for name, template in call.context.items():
        setattr(ctx, name, fill(template, tensors))
    return fill(call.outputs, tensors)


class _Unannounced:
    """Placed before a base class, it hides the base's `__init_subclass__`, so that the base is not notified."""

    def __init_subclass__(cls) -> None:
        pass


def _link(function: type) -> type:
    """A subclass of the function with another forward; its backward and all other attributes are the original's."""
    own = {
        "forward": staticmethod(_hand_over),
        "setup_context": staticmethod(_SingleLevelFunction.setup_context),
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
    }
    return type(function)(function.__name__, (_Unannounced, function), own)


class OpenBackward(Exception):
    """A backward that depends on more than its context and arguments was about to be traced ahead of time."""

    def __init__(self, function: str, why: str) -> None:
        super().__init__(f"the backward of {function}")
        self.why = why


_TRACING_MODES = (
    torch._C._TorchDispatchModeKey.FAKE,
    torch._C._TorchDispatchModeKey.FUNCTIONAL,
    torch._C._TorchDispatchModeKey.PROXY,
)


class FunctionCall:
    """Attaches the backward of one call of the function to its results. `arguments`, `outputs` and `context` (the
    attributes that forward has set) have `Slot`s in place of tensors. Arguments that are not tensors are None, because
    backward does not get them. `why_open`: why backward may not be traced ahead of time; empty if it may; None: not
    known yet."""

    def __init__(
        self,
        function: type,
        arguments: tuple[Any, ...],
        outputs: Any,
        context: dict[str, Any],
        why_open: str | None = None,
    ) -> None:
        self.linked: Any = _link(function)
        self.arguments = arguments
        self.outputs = outputs
        self.context = context
        self.why_open = why_open

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # A tracer is a dispatch mode.
        linked = self.linked if torch._C._len_torch_dispatch_stack() == 0 else self.traced
        _pending.call = (self, tensors)
        try:
            made = linked.apply(*fill(self.arguments, tensors))
        finally:
            _pending.call = None
        made = made if isinstance(made, tuple) else (made,)
        return tuple(item for item in made if isinstance(item, torch.Tensor))

    @functools.cached_property
    def traced(self) -> Any:
        """The same function for calls below a dispatch mode: its backward refuses to be traced where it may not be."""
        linked = self.linked
        name = "vjp" if linked.backward is torch.autograd.Function.backward else "backward"
        backward = getattr(linked, name)

        def checked(ctx: Any, *gradients: Any) -> Any:
            if not any(torch._C._get_dispatch_mode(mode) for mode in _TRACING_MODES):
                return backward(ctx, *gradients)
            if why := self._why_open():
                raise OpenBackward(str(self), why)
            try:
                return backward(ctx, *gradients)
            except Exception as error:
                raise OpenBackward(str(self), f"it raises {type(error).__name__} without data") from error

        return type(linked)(linked.__name__, (linked,), {name: staticmethod(checked)})

    def _why_open(self) -> str:
        if self.why_open is None:
            from .backward_code import examine

            found = examine(self.linked, self.context)
            self.why_open = found if isinstance(found, str) else ""
        return self.why_open

    def __str__(self) -> str:
        return str(self.linked.__qualname__)


def gradients(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    grad_outputs: Sequence[torch.Tensor] | None = None,
    retain_graph: bool = False,
    create_graph: bool = True,
) -> tuple[torch.Tensor, ...]:
    """Gradients inside a transform of `torch.func`; zeros for inputs that get none."""
    given = [None] * len(outputs) if grad_outputs is None else list(grad_outputs)
    pairs = [(output, grad) for output, grad in zip(outputs, given, strict=False) if output.requires_grad]
    if not pairs:
        return tuple(torch.zeros_like(tensor) for tensor in inputs)
    # Hide this backward pass from torch's compiled autograd, if it is imported.
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    with compiled._disable() if compiled is not None else contextlib.nullcontext():
        made = torch.autograd.grad(
            [output for output, _ in pairs],
            list(inputs),
            None if grad_outputs is None else [grad for _, grad in pairs],
            retain_graph=retain_graph,
            create_graph=create_graph,
            allow_unused=True,
        )
    return tuple(torch.zeros_like(tensor) if grad is None else grad for grad, tensor in zip(made, inputs, strict=True))


class Setting:
    """Changes a global setting of torch (the default dtype, the attention kernels) at this point of the program."""

    def __init__(self, setter: Any, value: Any) -> None:
        self.setter = setter
        self.value = value

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.setter(self.value)
        return ()

    def __str__(self) -> str:
        return f"{self.setter.__name__.lstrip('_')}({self.value})"


@functools.cache
def _copy_warnings() -> tuple[tuple[type[Warning], str], ...]:
    """The warnings that torch gives for `torch.tensor(tensor)`."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.tensor(torch.empty(0))
    return tuple((item.category, str(item.message)) for item in seen)


class CopyWarning:
    """Gives torch's warning about `torch.tensor(tensor)` at the program's line."""

    def __init__(self, code: types.CodeType, line: int, variables: dict[str, Any]) -> None:
        self.warnings = _C.call_unrecorded(_copy_warnings)
        self.place = (code.co_filename, line)
        self.module = str(variables.get("__name__"))
        # Store the name, because a graph must not keep objects of the program alive.
        if getattr(sys.modules.get(self.module), "__dict__", None) is not variables:
            raise ValueError("the warning comes from code that belongs to no module")

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        registry = vars(sys.modules[self.module]).setdefault("__warningregistry__", {})
        for category, message in self.warnings:
            warnings.warn_explicit(message, category, *self.place, self.module, registry)
        return ()

    def __str__(self) -> str:
        return f"warning of a copied tensor, line {self.place[1]}"


_MOST_ELEMENTS = 1 << 16
_PLAIN = (type(None), bool, int, float, complex, str, type(...), torch.dtype, torch.device, torch.Size, torch.layout)


def trial_argument(value: Any, filled: int = 0) -> Any:
    """The value with small tensors, filled with zeros or another number, in place of its tensors. Raises LookupError if
    that is not possible: for a number that depends on data, a random generator, a large tensor, a tensor whose class
    answers operators."""
    if isinstance(value, torch.Tensor):
        sizes, strides = value.size(), value.stride()
        known = all(type(number) is int for number in (*sizes, *strides)) and type(value) is not DispatchProbe
        if not known or value.device.type != "cpu" or value.layout != torch.strided:
            raise LookupError("a tensor with symbolic sizes, on another device, or not strided")
        if 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) > _MOST_ELEMENTS:
            raise LookupError("a large tensor")
        return torch.empty_strided(sizes, strides, dtype=value.dtype).fill_(filled)
    if type(value) in (tuple, list):
        return type(value)(trial_argument(item, filled) for item in value)
    if type(value) is dict:
        return {key: trial_argument(item, filled) for key, item in value.items()}
    if type(value) is slice:
        return slice(*(trial_argument(part, filled) for part in (value.start, value.stop, value.step)))
    if type(value) in (*_PLAIN, torch.memory_format):
        return value
    raise LookupError("an argument of another kind")


def is_absent_module(name: str) -> bool:
    """Whether no finder knows a module of this name, so that importing it raises ModuleNotFoundError."""
    try:
        return name not in sys.modules and importlib.util.find_spec(name) is None
    except (ImportError, ValueError):
        return False


def hook_behind(copy: torch.Tensor, hook: Any) -> Any:
    """`register_hook` for a tensor that was written to since: `copy` is a clone from the time of registration."""
    node, index = copy.grad_fn.next_functions[0]

    def before(gradients: tuple[Any, ...]) -> tuple[Any, ...] | None:
        result = None if gradients[index] is None else hook(gradients[index])
        return None if result is None else (*gradients[:index], result, *gradients[index + 1 :])

    return node.register_prehook(before)


def opened_range(name: str, args: str | None) -> Any:
    """Opens a profiler range, as `record_function` does."""
    return torch.ops.profiler._record_function_enter_new(name, args)


def end_range(record: Any) -> None:
    with torch._C.DisableTorchFunctionSubclass():
        torch.ops.profiler._record_function_exit._RecordFunction(record)


def ended_range(name: str, args: str | None) -> Any:
    """A profiler range that is already closed."""
    record = opened_range(name, args)
    end_range(record)
    return record
