"""The registry of backends, and the object that a `compile` call passes to the extension for one.

A backend is a callable `(gm, example_inputs) -> callable`, as for torch.compile, or one of the native backends that C++
code registered (src/core/backend/registry.h). The native ones get no GraphModule. A name is one of those, one that was
registered here, an entry point, or one that torch knows; only for the last is `torch._dynamo` imported.
"""

from __future__ import annotations

import re
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import torch

from . import _C, debug, progress
from .ambient import Ambient
from .backend_logs import held
from .errors import BackendCompilerFailed, InvalidBackend, InvalidOption, SkipFrame, StateChanged
from .functions import OpenBackward

CompilerFn = Callable[..., Callable[..., Any]]

DEFAULT = "reference"
_ENTRY_POINT_GROUPS = ("stator_backends", "torch_dynamo_backends")

# Cache keys are compared by identity, so equal keys of native backends must be one object.
_native_keys: dict[tuple[str, bool | None], tuple[str, bool | None]] = {}
_python_keys: weakref.WeakValueDictionary[tuple[int, bool], _Key] = weakref.WeakValueDictionary()
_registry: dict[str, tuple[CompilerFn, frozenset[str]]] = {}
# Backends that were used since the last reset: reset() calls their `reset()`.
_used: list[Any] = []
# Backends of torch with the settings of a `compile` call. Equal ones are one object, so that they share entries.
_torch_targets: list[Any] = []
# Native names that torch knows as well. Torch's backends of these names accept any mode and options.
_LENIENT = frozenset({"eager"})
# What autograd says of an operator without a derivative.
_NO_DERIVATIVE = re.compile(r"(?:the )?derivative for '?([^']+?)'? is not implemented")
# What torch's tracer adds to an error, and what its partitioner says of a size that only the backward pass has.
_TRACED_NODE = re.compile(r"While executing %(\w+)")
_TRACED_ASSERT = re.compile(r"While executing %_assert_scalar")
_LOST_SIZE = re.compile(r"Node \w+ was invalid, but is output|u\d+ -> ")
_MOST_CAUSES = 16


class Backend:
    """One backend with the options of one `compile` call. `compiler` is what the extension calls: an object of the
    extension's own for native backends. Entries are shared only between calls whose `cache_key` is the same object."""

    __slots__ = ("cache_key", "compiler", "name", "target")

    def __init__(self, name: str, target: CompilerFn | None, keywords: dict[str, Any], dynamic: bool | None = None):
        self.name = name
        self.target = target
        self.compiler: Any
        self.cache_key: object
        if target is None:
            self.compiler, described = _native_backend(name, keywords)
            key = (described, dynamic)
            self.cache_key = _native_keys.setdefault(key, key)
        else:
            self.compiler = _BackendCall(name, target, keywords)
            self.cache_key = _python_key(target, dynamic) if not keywords else self.compiler

    @property
    def context(self) -> Callable[[], Any] | None:
        """Makes the context manager that the backend wants around every compiled call; None if it wants none."""
        return getattr(self.target, "backend_ctx_ctor", None)

    @property
    def has_static_sizes(self) -> bool:
        """Whether the backend wants graphs with constant sizes; `dynamic` has no effect then."""
        return getattr(self.target, "has_static_sizes", False)

    def compiler_config(self) -> Any:
        getter = getattr(self.target, "get_compiler_config", None)
        return getter() if getter is not None else None


class _Key:
    """The cache key of a backend for one value of `dynamic`."""

    __slots__ = ("__weakref__", "target")

    def __init__(self, target: CompilerFn):
        self.target = target


def _python_key(target: CompilerFn, dynamic: bool | None) -> object:
    if dynamic is None:
        return target
    key = _python_keys.get((id(target), dynamic))
    if key is None:
        key = _python_keys[id(target), dynamic] = _Key(target)  # while it lives, no other object has that id
    return key


def _after_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


class _BackendCall:
    """Called by the extension: calls the user's backend, and turns its failures into errors that name the backend."""

    __slots__ = ("__weakref__", "keywords", "name", "target")

    def __init__(self, name: str, target: CompilerFn, keywords: dict[str, Any]):
        self.name = name
        self.target = target
        self.keywords = keywords

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        leaves = gm.__dict__.get("_leaves")
        with held() as logs:
            if leaves is None:
                return self.compiled(gm, gm.__dict__.get("_native"), example_inputs, logs)
            compiled = self.compiled(gm, leaves.native, [*example_inputs, *leaves.make()], logs)
            made: Callable[..., Any] = leaves.around(compiled)
            return made

    def compiled(self, gm: Any, native: Any, example_inputs: list[Any], logs: held) -> Callable[..., Any]:
        if not any(used is self.target for used in _used):
            _used.append(self.target)
        debug.note_module(gm)
        symbols = None if native is None else native.symbols
        before = Ambient()
        try:
            with progress.shown(f"the backend {self.name!r} compiles {_graph_name(gm)}"):
                compiled = self.compile(gm, native, example_inputs, symbols)
        except BaseException as error:
            before.put_back(error)
            if isinstance(error, SkipFrame) or not isinstance(error, Exception):
                raise
            if symbols is not None and _refuses_floats(error):
                logs.drop()
                symbols.refuse_floats()
                return gm  # a capture with the floats as constants replaces it
            if symbols is not None and symbols.refuses_numbers:
                logs.drop()
                return gm  # likewise
            refused = _what_is_untraceable(error)
            if refused:
                logs.drop()
                self.warn_of_refused(gm, *refused)
                return gm
            error.__traceback__ = _after_own_frames(error.__traceback__)
            raise BackendCompilerFailed(self.name, _graph_name(gm), error) from error
        changes = before.put_back()
        if changes:
            raise StateChanged(self.name, _graph_name(gm), changes)
        if not callable(compiled):
            raise BackendCompilerFailed(
                self.name, _graph_name(gm), f"it returned {type(compiled).__name__}, which is not callable"
            )
        refused = None if symbols is None else symbols.unasserted()
        if refused:
            self.warn_of_refused(gm, *refused)
            return gm
        return compiled

    def compile(self, gm: Any, native: Any, example_inputs: list[Any], symbols: Any) -> Any:
        if symbols is None:
            return self.target(gm, example_inputs, **self.keywords)
        try:
            # Torch's compilers find the symbols of a graph with symbolic sizes or numbers in this context.
            with symbols.context():
                return self.target(gm, example_inputs, **self.keywords)
        except Exception as error:
            if not _refuses_floats(error):
                raise
            refused = error
        from .fx import lazy_graph_module, leaf_graph_module

        # They take floats that depend on data in more places.
        symbols.open_floats()
        count = len(example_inputs) - len(symbols.leading) - len(symbols.inputs)  # of leaves
        examples = symbols.examples() + example_inputs[len(example_inputs) - count :]
        again = leaf_graph_module(native) if count else lazy_graph_module(native)
        try:
            with symbols.context():
                return self.target(again, examples, **self.keywords)
        except Exception:
            raise refused from None

    def warn_of_refused(self, gm: Any, what: str, why: str) -> None:
        warnings.warn(
            f"the backend {self.name!r} cannot trace {what} in the graph {_graph_name(gm)!r}, "
            f"because {why}; the graph runs without the backend",
            stacklevel=3,
        )


def _refuses_floats(error: Exception) -> bool:
    """Whether torch's compilers ask for another capture, in which the floats that they cannot make tensors are
    constants."""
    errors = sys.modules.get("torch._dynamo.exc")
    if errors is None or not isinstance(error, errors.TensorifyScalarRestartAnalysis):
        return False
    sys.modules["torch._dynamo.symbolic_convert"].TensorifyState.clear()
    return True


def _what_is_untraceable(error: BaseException) -> tuple[str, str] | None:
    """What a tracer that runs the graph ahead of time, on torch's fake tensors, refused, and why; None for other
    errors."""
    causes = [error]
    while causes[-1].__cause__ is not None and len(causes) < _MOST_CAUSES:
        causes.append(causes[-1].__cause__)
    for cause in causes:
        if isinstance(cause, OpenBackward):
            return str(cause), cause.why
        underivable = _NO_DERIVATIVE.match(str(cause)) if isinstance(cause, RuntimeError) else None
        if underivable:
            return underivable[1], "it has no derivative"
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    if fakes is None:
        return None
    if isinstance(error, fakes.DynamicOutputShapeException):
        return _first_line(error), "sizes in it depend on data"
    if isinstance(error, fakes.DataDependentOutputException):
        return _first_line(error), "it looks at data"
    if isinstance(error, fakes.UnsupportedOperatorException):
        return _first_line(error), "torch has no shape function for it"
    return _what_needs_a_size(causes)


def _what_needs_a_size(causes: list[BaseException]) -> tuple[str, str] | None:
    """What needs the value of a size that depends on data, while torch's compilers trace the graph."""
    symbols = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    for cause in causes:
        if symbols is not None and isinstance(
            cause, (symbols.GuardOnDataDependentSymNode, symbols.PendingUnbackedSymbolNotFound)
        ):
            node = _TRACED_NODE.search(str(cause))
            return node[1] if node else "an operator", "it needs the value of a size that depends on data"
        if isinstance(cause, AssertionError) and _LOST_SIZE.match(str(cause)):
            return "an operator", "its tracer loses a size that depends on data"
        if isinstance(cause, RuntimeError) and _TRACED_ASSERT.search(str(cause)):
            return "a condition", "its tracer cannot decide about a size that depends on data"
    return None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _native_names() -> frozenset[str]:
    """Names and aliases of the native backends."""
    return frozenset(known for name, aliases, _ in _C.native_backends() for known in (name, *aliases))


def _native_backend(name: str, keywords: dict[str, Any]) -> tuple[object, str]:
    if "mode" in keywords:
        hint = 'modes are those of torch\'s compilers: pass backend="inductor" as well, or no mode'
        raise InvalidOption(f"the {name!r} backend has no mode", hint=hint)
    try:
        return _C.native_backend(name, keywords.get("options", {}))
    except ValueError as error:
        known = next(options for row, aliases, options in _C.native_backends() if name in (row, *aliases))
        hint = f"its options are {', '.join(known)}" if known else 'pass backend="inductor" as well, or no options'
        raise InvalidOption(str(error), hint=hint) from None


def _graph_name(gm: Any) -> str:
    return getattr(gm, "graph_name", None) or type(gm).__name__


def register_backend(
    compiler_fn: CompilerFn | None = None, name: str | None = None, tags: Iterable[str] = ()
) -> Callable[..., Any]:
    """Registers a backend by name: `register_backend(fn)`, `@register_backend`, `@register_backend(name=...)`."""
    if compiler_fn is None:
        return lambda fn: register_backend(fn, name, tags)
    if not callable(compiler_fn):
        raise InvalidBackend(
            f"a backend is a callable (gm, example_inputs), not {type(compiler_fn).__name__}",
            hint="pass a function that takes a torch.fx.GraphModule and example inputs and returns a callable",
        )
    known_as = name or getattr(compiler_fn, "__name__", None) or type(compiler_fn).__name__
    if known_as in _native_names() or known_as in _registry:
        raise InvalidBackend(f"a backend named {known_as!r} exists already", hint="use another name")
    _registry[known_as] = (compiler_fn, frozenset(tags))
    return compiler_fn


def list_backends(exclude_tags: Iterable[str] | None = ("debug", "experimental")) -> list[str]:
    """Names that `compile(backend=...)` accepts, without backends that have one of the tags. Imports torch._dynamo."""
    excluded = frozenset(exclude_tags or ())
    own = _native_names() | {name for name, (_, tags) in _registry.items() if not tags & excluded}
    return sorted(own | _entry_point_names() | set(_torch_registry().list_backends(tuple(excluded))))


def resolve(backend: Any, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None = None) -> Backend:
    """The backend of one `compile` call; raises if `backend` is not one."""
    keywords = _keywords(mode, options)
    if backend is None:
        backend = default_backend()
    if isinstance(backend, str):
        if backend in _native_names():
            if keywords and backend in _LENIENT:
                warnings.warn(f"the backend {backend!r} ignores {' and '.join(keywords)}", stacklevel=4)
                keywords = {}
            return Backend(backend, None, keywords, dynamic)
        found = _lookup(backend)
        if found is None:
            return Backend(backend, _torch_target(backend, mode, options, dynamic), {}, dynamic)
        return Backend(backend, found, keywords, dynamic)
    if not callable(backend):
        raise InvalidBackend(
            f"backend must be a name or a callable (gm, example_inputs), not {type(backend).__name__}",
            hint="stator.list_backends() returns the known names",
        )
    name = getattr(backend, "compiler_name", None)
    if name is None:
        name = getattr(backend, "__name__", None) or type(backend).__name__
    if not isinstance(name, str):
        raise InvalidBackend(f"compiler_name of a backend must be a str, not {type(name).__name__}")
    return Backend(name, backend, keywords, dynamic)


def default_backend() -> Any:
    """What `backend=None` means: the backend that `torch._dynamo.set_default_backend` set, or else our own default.
    Torch's default, "inductor", counts as not set."""
    registry = sys.modules.get("torch._dynamo.backends.registry")
    chosen = getattr(registry, "_default_backend", "inductor")
    return DEFAULT if chosen == "inductor" else chosen


def reset() -> None:
    """Calls `reset()` once on every backend that was used since the last reset."""
    used = _used[:]
    _used.clear()
    _torch_targets.clear()
    for backend in used:
        if callable(hook := getattr(backend, "reset", None)):
            hook()


def _keywords(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    if mode is not None and not isinstance(mode, str):
        raise InvalidOption(f"mode must be a str or None, not {type(mode).__name__}")
    if options is not None and (not isinstance(options, dict) or not all(isinstance(k, str) for k in options)):
        raise InvalidOption("options must be a dict with str keys", hint='for example options={"name": value}')
    if mode is not None and options:
        raise InvalidOption("mode and options exclude each other", hint="a mode is a set of options: pass one of them")
    keywords: dict[str, Any] = {}
    if mode is not None and mode != "default":
        keywords["mode"] = mode
    if options:
        keywords["options"] = options
    return keywords


def _lookup(name: str) -> CompilerFn | None:
    """The backend that was registered here under a name, or by an entry point; None: torch must know it."""
    if name not in _registry:
        _load_entry_point(name)
    return _registry[name][0] if name in _registry else None


def _load_entry_point(name: str) -> None:
    # Installed packages register backends as entry points, which are read only if a name is unknown.
    from importlib.metadata import entry_points

    for group in _ENTRY_POINT_GROUPS:
        for entry in entry_points(group=group, name=name):
            register_backend(entry.load(), name=name)
            return


def _entry_point_names() -> set[str]:
    from importlib.metadata import entry_points

    return {entry.name for group in _ENTRY_POINT_GROUPS for entry in entry_points(group=group)}


def _torch_registry() -> Any:
    import torch._dynamo.backends.registry as registry

    return registry


def _torch_target(name: str, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> CompilerFn:
    """A backend that torch knows by name, with its mode and options, as torch.compile makes it."""
    if name not in _torch_registry().list_backends(()):
        raise InvalidBackend(
            f"there is no backend {name!r}",
            hint=f"stator.list_backends() returns the known names: {', '.join(list_backends(()))}; or pass a callable",
        )
    try:
        if name != "inductor":
            made: Any = torch._TorchCompileWrapper(name, mode, options, dynamic)
        elif options and options.get("use_aoti"):
            options = {key: value for key, value in options.items() if key != "use_aoti"}
            made = torch._TorchCompileAOTInductorWrapper(mode, options, dynamic)
        else:
            made = torch._TorchCompileInductorWrapper(mode, options, dynamic)
    except (RuntimeError, KeyError) as error:  # an option or a mode that the backend does not have
        raise InvalidOption(f"the {name!r} backend rejects its settings: {error}") from error
    for known in _torch_targets:
        if type(known) is type(made) and known == made:
            return known
    _torch_targets.append(made)
    return made
