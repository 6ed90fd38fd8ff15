"""`make_fx` and its options."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
import torch.utils._pytree as pytree

from .. import _C
from ..places import show, user_index
from . import (  # noqa: F401 (what torch does otherwise in traces)
    dynamic_sizes,
    linearize,
    lists,
    sizes,
)
from .casts import emulates_casts
from .current import Recording, running, use_table
from .foreign import ForeignInputs
from .metadata import ModuleCalls, Notes
from .module import TracedGraphModule, build_module, tensors_of
from .module_inputs import ModuleInputs
from .operators.install import install
from .partial import log_partial_graph
from .random_states import RandomStates
from .replaced import replaced
from .signature import Signature, signature_of
from .subclasses import SubclassValues, is_subclass, with_class_of

_NO_FAKE_KERNEL = re.compile(r"(\w+::\w+)(?:\.\w+)?: no shape function")
# Constructors of torch read the tensors among their arguments where no trace sees it; fakes refuse.
_READ_IN_A_CONSTRUCTOR = "Tensor.item() cannot be called on meta tensors"
_MODES = ("real", "fake", "symbolic")


@dataclass
class Options:
    """What `make_fx` was called with; its docstring explains each."""

    tracing_mode: str = "real"
    decomposition_table: dict[Any, Callable[..., Any]] = field(default_factory=dict)
    allow_non_fake_inputs: bool = False
    pre_dispatch: bool = False
    error_on_data_dependent_ops: bool = True
    record_module_stack: bool = False
    record_stack_traces: bool = False
    proxy_module_inputs: bool = False
    has_torch_fn: bool = True


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    proxy_module_inputs: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
) -> Callable[..., TracedGraphModule]:
    """A function that calls `f` once on its arguments and returns the ATen operators that ran as a
    `torch.fx.GraphModule`.

    Arguments are positional and may be nested in lists, dicts and other pytrees. Operators are recorded below autograd:
    gradients that `f` computes are in the graph. `tracing_mode` is one of:

    - `"real"`: operators also run on the given tensors, so `f` changes them as a plain call does.
    - `"fake"`: nothing is computed; sizes are those of the given tensors.
    - `"symbolic"`: as fake, and sizes and integers among the arguments are symbols.

    `decomposition_table` maps operators to functions that compute them by others. With `pre_dispatch=True` operators
    are recorded above autograd and autocast, and composite operators are one node. `_allow_non_fake_inputs` allows
    tensors from outside `f` in the fake and symbolic modes; in the real mode they are always allowed. They become
    attributes of the module. `_error_on_data_dependent_ops=False` allows the real mode to read traced data; what was
    read is then a constant of the graph.

    Arguments may be torch's FakeTensors: then nothing is computed, and the values of nodes belong to their mode.
    `record_stack_traces` gives nodes the lines of the program (`meta["stack_trace"]`). `record_module_stack` does so
    too, and gives nodes the modules whose `forward` ran, if `f` is a module or has one as `_orig_mod`
    (`meta["nn_module_stack"]`, and the function of torch as `meta["torch_fn"]`, which
    `_disable_torch_fn_metadata_mode` leaves out).

    A module among the arguments is an unused placeholder, and its tensors are from outside. With `proxy_module_inputs`
    they are read off the module that the graph gets. A FakeTensor of torch from outside is a constant;
    `_allow_fake_constant` is accepted and changes nothing.
    """
    if tracing_mode not in _MODES:
        raise AssertionError(f'tracing_mode must be "real", "fake" or "symbolic", not {tracing_mode!r}')
    options = Options(
        tracing_mode,
        dict(decomposition_table or {}),
        _allow_non_fake_inputs,
        pre_dispatch,
        _error_on_data_dependent_ops,
        record_module_stack,
        record_stack_traces,
        proxy_module_inputs,
        not _disable_torch_fn_metadata_mode,
    )

    @functools.wraps(f)
    def traced(*args: Any) -> TracedGraphModule:
        return trace(f, args, options)

    return traced


def name_of(f: Callable[..., Any]) -> str:
    if isinstance(f, torch.nn.Module):
        return type(f).__name__
    return getattr(f, "__name__", type(f).__name__)


@dataclass
class Trace:
    """One call of a function that was traced."""

    recording: Recording
    signature: Signature
    names: list[str]  # of the placeholders
    given: list[Any]  # what the function got for each leaf of the arguments
    in_spec: Any
    foreign: ForeignInputs
    notes: Notes | None
    modules: ModuleInputs | None = None
    subclasses: SubclassValues | None = None
    result: Any = None

    @property
    def tracer(self) -> Any:
        return self.recording.tracer


def record(f: Callable[..., Any], args: tuple[Any, ...], options: Options) -> Trace:
    signature = signature_of(f, len(args))
    leaves, in_spec = flatten(args)
    foreign = ForeignInputs(leaves)
    if foreign.mode is not None:
        options = replace(options, tracing_mode="symbolic" if foreign.has_symbols else "fake")
    notes = notes_for(f, options)
    tracer = _C.FunctionTracer(
        name_of(f),
        options.tracing_mode,
        options.pre_dispatch,
        options.allow_non_fake_inputs,
        options.error_on_data_dependent_ops,
        {},
        notes,
    )
    recording = Recording(tracer, options, marks_casts=emulates_casts(), states=RandomStates(tracer))
    use_table(recording, options.decomposition_table)
    names = placeholder_names(signature.names, in_spec)
    modules = ModuleInputs(tracer) if options.proxy_module_inputs else None
    subclasses = SubclassValues(tracer)
    given = [
        add_input(tracer, leaf, name, options, foreign, modules, subclasses)
        for leaf, name in zip(leaves, names, strict=True)
    ]
    trace = Trace(recording, signature, names, given, in_spec, foreign, notes, modules, subclasses)
    if notes is not None:
        notes.recording = recording
    try:
        with contextlib.ExitStack() as scopes:
            scopes.enter_context(replaced())
            scopes.enter_context(foreign.paused())
            scopes.enter_context(foreign.watching(tracer))
            if notes is not None and notes.modules is not None:
                scopes.enter_context(notes.modules.watching(options.has_torch_fn))
            if modules is not None:
                scopes.enter_context(modules.replaced())
            trace.result = call(recording, f, pytree.tree_unflatten(given, in_spec))
    except BaseException as error:
        if isinstance(error, Exception):
            log_partial_graph(trace, error)
        tracer.release()
        raise
    return trace


def flatten(args: tuple[Any, ...]) -> tuple[list[Any], pytree.TreeSpec]:
    leaves, spec = pytree.tree_flatten(args)
    if any(type(leaf) is torch.Size for leaf in leaves):
        importlib.import_module("torch.fx.experimental.proxy_tensor")  # makes torch.Size a pytree of its numbers
        leaves, spec = pytree.tree_flatten(args)
    return leaves, spec


def notes_for(f: Callable[..., Any], options: Options) -> Notes | None:
    """None if nodes remember nothing of the program."""
    root = getattr(f, "_orig_mod", f) if options.record_module_stack else None
    modules = ModuleCalls(root) if isinstance(root, torch.nn.Module) else None
    lines = options.record_stack_traces or modules is not None
    if not lines and not options.decomposition_table and not fx_traceback.has_preserved_node_meta():
        return None
    return Notes(lines, modules, call.__code__)


def trace(f: Callable[..., Any], args: tuple[Any, ...], options: Options) -> TracedGraphModule:
    found = record(f, args, options)
    try:
        return build_module(found)
    finally:
        found.tracer.release()


def trace_native(f: Callable[..., Any], args: tuple[Any, ...], tracing_mode: str = "real") -> _C.Graph:
    """The graph of one call as Stator's own IR; no `torch.fx` nodes are made. Its inputs are the tensors among the
    arguments, then the tensors from outside. Its outputs are the tensors of the result."""
    found = record(f, args, Options(tracing_mode))
    try:
        return found.tracer.finish([found.tracer.output(leaf) for leaf in tensors_of(found.result)])
    finally:
        found.tracer.release()


def placeholder_names(parameters: list[str], in_spec: pytree.TreeSpec) -> list[str]:
    return [
        f"{name}_{i + 1}"
        for name, child in zip(parameters, in_spec.children(), strict=True)
        for i in range(child.num_leaves)
    ]


def add_input(
    tracer: Any,
    leaf: Any,
    name: str,
    options: Options,
    foreign: ForeignInputs,
    modules: ModuleInputs | None,
    subclasses: SubclassValues,
) -> Any:
    kind = type(leaf)
    if (kind is torch.Tensor and not leaf.is_nested) or kind is torch.nn.Parameter:
        return tracer.input(leaf, name)
    if foreign.is_foreign(leaf):
        return foreign.add(tracer, leaf, name)
    if modules is not None and isinstance(leaf, torch.nn.Module):
        modules.add(leaf, name)
        return leaf
    if is_subclass(leaf):
        return subclasses.add(leaf, name, options.tracing_mode)
    if isinstance(leaf, torch.Tensor):
        if leaf.is_nested and leaf.layout is torch.strided:
            raise RuntimeError(f"the input {name} is a nested tensor, which cannot be traced")
        return with_class_of(leaf, tracer.input(leaf, name), name)
    if options.tracing_mode != "real" and is_fake_script_object(leaf):
        raise AssertionError(f"the input {name} is a fake script object already: pass the script object itself")
    if type(leaf) is int and options.tracing_mode == "symbolic":
        return tracer.integer_input(leaf, name)
    return leaf


def is_fake_script_object(leaf: Any) -> bool:
    fakes = sys.modules.get("torch._library.fake_class_registry")
    return fakes is not None and isinstance(leaf, fakes.FakeScriptObject)


def call(recording: Recording, f: Callable[..., Any], args: Any) -> Any:
    """Calls the function. What made the trace useless is raised even if the function handled it."""
    install()
    try:
        with running(recording):
            result = recording.tracer.call(f, tuple(args))
    except BaseException as error:
        _C._fake.note_error(str(error))
        failure = recording.tracer.failure()
        if failure is None and _READ_IN_A_CONSTRUCTOR in str(error):
            failure = ("data read", "torch.tensor: the program makes a tensor out of values of a traced tensor")
        if failure is None or not isinstance(error, Exception):
            raise
        raise error_of(failure, error).with_traceback(error.__traceback__) from None
    failure = recording.tracer.failure()
    if failure is not None:
        raise error_of(failure, None)
    return result


def error_of(failure: tuple[str, str], error: BaseException | None) -> Exception:
    kind, message = failure
    lines = []
    frame = error.__traceback__ if error is not None else None
    while frame is not None:
        code = frame.tb_frame.f_code
        lines.append((code.co_filename, frame.tb_lineno, code.co_name))
        frame = frame.tb_next
    place = f" (at {show(lines[user_index(lines)])})" if lines else ""
    found = _NO_FAKE_KERNEL.match(message)
    if found is not None and found[1].split("::")[0] != "aten":
        message += (
            ": the operator has no fake kernel. Write one, which computes the metadata of its results:"
            f' @torch.library.register_fake("{found[1]}")'
        )
    made = AssertionError if kind == "real tensor" else RuntimeError
    return made(f"cannot be traced: {message}{place}")


def wrapper_and_args_for_make_fx(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[[list[Any]], Any], list[Any]]:
    """A function of one flat list, and that list, for tracing a call that has keyword arguments."""
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def wrapped(flat_args: list[Any]) -> Any:
        given, keywords = pytree.tree_unflatten(flat_args, spec)
        return func(*given, **keywords)

    return wrapped, leaves
