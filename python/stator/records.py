"""Failed captures, written to files and captured again.

    with stator.record_failures("failures"):
        stator.compile(step, fullgraph=True)(x)     # raises, and names the file that holds the call
    stator.replay("failures/step_Unsupported_12_5f0c21ab.rec")

A record holds the function (its code, the globals it names, its closure and defaults) and the arguments of the call.
Objects that can be imported are stored by name; classes of a script are found by running the script again, under
another `__name__`. Reading a record runs code that it holds: `replay` warns of that, unless it trusts the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import logging
import marshal
import pickle
import runpy
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _C
from .api import compile
from .errors import StatorError
from .files import write_whole

_log = logging.getLogger("stator")

_MAGIC = b"stator record 2\n"
# Fields of the header, and their types. Those of a failed call are not in records of other values.
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "python": list,
    "main": (str, type(None)),
    "path": list,
    "bytes": int,
}
_CALL_FIELDS: dict[str, type | tuple[type, ...]] = {
    "function": str,
    "file": str,
    "line": int,
    "error": str,
    "text": str,
    "fullgraph": bool,
}


@contextlib.contextmanager
def record_failures(directory: str | Path) -> Iterator[None]:
    """While the block runs, a call whose capture fails is written to `<function>_<error>_<line>_<digest>.rec` in
    `directory`, and the error names the file. The digest is one of the function's file, its full name and the error's
    text: functions of one name get files of their own. An existing file is kept. The error itself is not changed."""
    recorder = _Recorder(Path(directory))
    before = _C.set_failure_recorder(recorder)
    try:
        yield
    finally:
        _C.set_failure_recorder(before)


def replay(file: str | Path, *, trust: bool = False) -> Any:
    """Captures a recorded call again with the reference backend. Raises the capture's error, or returns the result.

    This runs code that the file holds, and warns of that first. `trust`: the file is known, and there is no warning.
    """
    if not trust:
        warnings.warn(
            f"{file} holds code, which runs now: replay only files that you trust (`trust=True` ends this warning)",
            RuntimeWarning,
            stacklevel=2,
        )
    function, args, kwargs, header = _load(Path(file))
    before = _C.set_failure_recorder(None)
    try:
        return compile(function, fullgraph=header["fullgraph"])(*args, **kwargs)
    finally:
        _C.set_failure_recorder(before)


class _Recorder:
    def __init__(self, directory: Path):
        self._directory = directory

    def __call__(
        self, error: Exception, function: types.FunctionType, values: tuple[Any, ...], fullgraph: bool
    ) -> None:
        if getattr(error, "record", None) is not None:
            return  # already recorded, by a compiled function that this one called
        code = function.__code__
        what = "\n".join((code.co_filename, code.co_qualname, str(error)))
        digest = hashlib.sha1(what.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()[:8]
        name = f"{code.co_name.strip('<>')}_{type(error).__name__}_{code.co_firstlineno}_{digest}.rec"
        path = self._directory / name
        try:
            if path.exists():
                _log.warning("%s exists already and is not written again", path)
            else:
                self._write(path, error, function, values, fullgraph)
        except Exception:  # the user's error is what matters
            _log.exception("the failed capture of %s could not be recorded in %s", code.co_name, path)
            return
        if isinstance(error, StatorError):
            error.record = str(path)

    def _write(
        self,
        path: Path,
        error: Exception,
        function: types.FunctionType,
        values: tuple[Any, ...],
        fullgraph: bool,
    ) -> None:
        code = function.__code__
        header = {
            "function": code.co_qualname,
            "file": code.co_filename,
            "line": code.co_firstlineno,
            "error": type(error).__name__,
            "text": str(error),
            "fullgraph": fullgraph,
        }
        _write_file(path, header, (function, *_arguments(code, values)))


def write_values(path: Path, values: dict[str, Any]) -> None:
    """Writes a record of any values, for `read_values`."""
    _write_file(path, {}, values)


def read_values(path: Path) -> dict[str, Any]:
    """The values of a record. This runs code that the file holds."""
    values: dict[str, Any] = _read_file(path)[0]
    return values


def read_header(path: Path) -> dict[str, Any]:
    """What a record says of itself: function, place, error, versions. Runs no code of the file."""
    with path.open("rb") as file:
        return _checked_header(path, file)


def _write_file(path: Path, header: dict[str, Any], values: Any) -> None:
    main = getattr(sys.modules["__main__"], "__file__", None)
    header |= {"python": list(sys.version_info[:2]), "main": main and str(Path(main).resolve())}
    header["path"] = [folder for folder in sys.path if isinstance(folder, str)]
    made = io.BytesIO()
    _Pickler(made, protocol=pickle.HIGHEST_PROTOCOL).dump(values)
    body = made.getvalue()
    header["bytes"] = len(body)
    content = json.dumps(header).encode() + b"\n" + body
    write_whole(path, _MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def _arguments(code: types.CodeType, values: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the call, read from the frame's slots."""
    named = code.co_argcount + code.co_kwonlyargcount
    args = list(values[: code.co_argcount])
    kwargs = dict(zip(code.co_varnames[code.co_argcount : named], values[code.co_argcount : named], strict=True))
    rest = list(values[named:])
    if code.co_flags & 0x04:  # *args
        args += rest.pop(0)
    if code.co_flags & 0x08:  # **kwargs
        kwargs |= rest.pop(0)
    return args, kwargs


def _load(path: Path) -> tuple[types.FunctionType, list[Any], dict[str, Any], dict[str, Any]]:
    (function, args, kwargs), header = _read_file(path, _CALL_FIELDS)
    return function, args, kwargs, header


def _checked_header(path: Path, file: Any, wanted: dict[str, Any] | None = None) -> dict[str, Any]:
    """Reads the header of an open record, which has all `wanted` fields."""
    try:
        if file.readline() != _MAGIC:
            raise ValueError("another beginning")
        file.readline()  # the checksum of what follows
        header: dict[str, Any] = json.loads(file.readline())
        fields = header if isinstance(header, dict) else {}
        for name, kind in _FIELDS.items():
            if not isinstance(fields.get(name), kind):
                raise ValueError(f"no {name!r}")
    except (ValueError, RecursionError) as error:
        raise StatorError(f"{path} is not a record of this version", code="invalid-record") from error
    if missing := [name for name, kind in (wanted or {}).items() if not isinstance(header.get(name), kind)]:
        raise StatorError(f"{path} is not the record of a call: it has no {missing[0]!r}", code="invalid-record")
    if header["python"] != list(sys.version_info[:2]):
        raise StatorError(
            f"{path} was recorded with Python {'.'.join(map(str, header['python']))}",
            hint="code objects of one version of Python cannot be run by another",
            code="invalid-record",
        )
    return header


def _read_file(path: Path, wanted: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
    with path.open("rb") as file:
        header = _checked_header(path, file, wanted)
        body = file.read()
        file.seek(len(_MAGIC))
        digest = file.readline()
        intact = hashlib.sha256(file.read()).hexdigest().encode() + b"\n" == digest
    if not intact:
        what = "is incomplete" if len(body) < header["bytes"] else "was changed since it was written"
        raise StatorError(f"{path} {what}", code="invalid-record")
    sys.path += [folder for folder in header["path"] if folder not in sys.path]
    namespaces.clear()
    try:
        return _Unpickler(io.BytesIO(body), header["main"]).load(), header
    except (EOFError, pickle.UnpicklingError) as error:
        raise StatorError(f"{path} cannot be read: {error}", code="invalid-record") from error
    finally:
        namespaces.clear()


class _Unpickler(pickle.Unpickler):
    """Finds what the recorded process had in `__main__` by running its script as an ordinary module."""

    def __init__(self, file: io.BytesIO, main: str | None):
        super().__init__(file)
        self._main = main
        self._names: dict[str, Any] | None = None

    def find_class(self, module: str, name: str) -> Any:
        if module != "__main__" or self._main is None or self._main == self._own_main():
            return super().find_class(module, name)
        if self._names is None:
            self._names = runpy.run_path(self._main, run_name="__recorded__")
        found: Any = self._names
        for index, part in enumerate(name.split(".")):
            found = found[part] if index == 0 else getattr(found, part)
        return found

    @staticmethod
    def _own_main() -> str | None:
        main = getattr(sys.modules["__main__"], "__file__", None)
        return main and str(Path(main).resolve())


# ---- functions by value

# The functions of one record that came from one module share one globals dict again.
namespaces: dict[int, dict[str, Any]] = {}


def make_function(
    code: bytes, namespace: int, name: str, closure: tuple[types.CellType, ...] | None
) -> types.FunctionType:
    """A function of a record. Its globals and defaults are filled in later, because they may refer to the function."""
    names = namespaces.setdefault(namespace, {"__builtins__": __builtins__, "__name__": name})
    return types.FunctionType(marshal.loads(code), names, None, None, closure)


def fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    for name, value in state.pop("globals").items():
        function.__globals__.setdefault(name, value)
    function.__dict__.update(state.pop("dict"))
    for name, value in state.items():
        setattr(function, name, value)


def make_cell() -> types.CellType:
    return types.CellType()


def fill_cell(cell: types.CellType, contents: tuple[Any, ...]) -> None:
    if contents:
        cell.cell_contents = contents[0]


class _Pickler(pickle.Pickler):
    """Pickles modules by name, and functions that cannot be imported, code objects and cells by value."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.ModuleType):
            return importlib.import_module, (obj.__name__,)
        if isinstance(obj, types.CellType):
            try:
                contents: tuple[Any, ...] = (obj.cell_contents,)
            except ValueError:  # empty
                contents = ()
            return make_cell, (), contents, None, None, fill_cell
        if isinstance(obj, types.FunctionType) and not _is_importable(obj):
            return self._function(obj)
        return NotImplemented

    def _function(self, function: types.FunctionType) -> Any:
        names = _names_of(function.__code__)
        state = {
            "globals": {name: value for name, value in function.__globals__.items() if name in names},
            "dict": dict(function.__dict__),
            "__name__": function.__name__,
            "__qualname__": function.__qualname__,
            "__module__": function.__module__,
            "__defaults__": function.__defaults__,
            "__kwdefaults__": function.__kwdefaults__,
        }
        made = (
            marshal.dumps(function.__code__),
            id(function.__globals__),
            function.__globals__.get("__name__", "record"),
            function.__closure__,
        )
        return make_function, made, state, None, None, fill_function


def _names_of(code: types.CodeType) -> set[str]:
    """Global names that the code, or a nested code object, may look up."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names


def _is_importable(function: types.FunctionType) -> bool:
    module = sys.modules.get(function.__module__ or "")
    if module is None or function.__module__ == "__main__":
        return False
    found: Any = module
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function
