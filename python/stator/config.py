"""Settings. `stator.config.name = value` checks name and value; `stator.config.patch(name=value)` is temporary.

The extension stores the values and reads them on hot paths; this object only names, checks and documents them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import _C
from .errors import InvalidOption


class Setting(NamedTuple):
    kind: type
    doc: str
    least: int | None = None


SETTINGS: dict[str, Setting] = {
    "recompile_limit": Setting(int, "Entries one code object may have before further misses run eager.", 1),
    "accumulated_recompile_limit": Setting(int, "The same, counting all entries a code object ever had.", 1),
    "fail_on_recompile_limit_hit": Setting(bool, "Reaching a limit raises RecompileLimitExceeded."),
    "suppress_errors": Setting(bool, "A backend or capture that fails runs the frame eager, with a warning."),
    "break_after": Setting(
        int,
        "Every capture breaks after this many instructions, to bisect a difference. 0: no limit. "
        "-1: before every instruction, so that each is executed concretely.",
        -1,
    ),
    "disable": Setting(bool, "Every compiled function runs its plain Python function."),
    "numpy_exact": Setting(
        bool, "NumPy calls whose results torch may round differently in the last bits break and run in NumPy."
    ),
    "raise_on_ctx_manager_usage": Setting(
        bool, "`with stator.compile(...)` is an error. Off: what the block calls is captured."
    ),
    "compiled_autograd": Setting(bool, "Backward passes that run inside a compiled call are captured as well."),
    "oracle": Setting(
        bool,
        "For tests, slow: each hit also captures afresh, and raises OracleError if guards, plan or graph differ. "
        "STATOR_ORACLE=1 sets it at start.",
    ),
    "debug_dir": Setting(
        str,
        "A folder to which each capture writes its graph, guards and plan. Empty: none. STATOR_DEBUG_DIR sets it.",
    ),
    "assume_static_by_default": Setting(
        bool,
        "Sizes are constants until they change. Off: sizes and int arguments are symbols from the first capture on.",
    ),
    "automatic_dynamic_shapes": Setting(bool, "A size or int that changes from call to call becomes a symbol."),
    "specialize_int": Setting(bool, "Ints are constants, and each value is captured once."),
    "force_parameter_static_shapes": Setting(bool, "Sizes of parameters are constants."),
    "capture_scalar_outputs": Setting(
        bool,
        "Graphs for Python backends may hold numbers read from tensors (`item`). Off: a graph break, unless fullgraph.",
    ),
    "capture_dynamic_output_shape_ops": Setting(
        bool, "The same for operators whose results have sizes that depend on data (`nonzero`, `unique`, masks)."
    ),
    "dynamic_sources": Setting(
        str,
        "Tensors and ints that are symbols from the first capture on: names as guards show them (`x`, `self.steps`), "
        "torch's names (`L['x']`) or regular expressions, separated by commas. `x:0` means dimension 0 alone.",
    ),
    "unbacked_sources": Setting(str, "The same for sizes that are unbacked symbols; see `mark_unbacked`."),
    "count_instructions": Setting(
        bool, "Records of compilations have the instructions that the processor retired, if the kernel counts them."
    ),
    "aten_graphs": Setting(bool, "Captures also record the operators below autograd: `graph.aten`."),
}


class Config:
    """The class of `stator.config`, its only instance."""

    def __getattr__(self, name: str) -> Any:
        if name not in SETTINGS:
            raise AttributeError(_unknown(name))
        return _C.get_config(name)

    def __setattr__(self, name: str, value: Any) -> None:
        _C.set_config(name, _checked(name, value))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *SETTINGS]

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {getattr(self, name)!r}  # {s.doc}" for name, s in SETTINGS.items())

    def to_dict(self) -> dict[str, Any]:
        """All settings and their current values."""
        return {name: getattr(self, name) for name in SETTINGS}

    @contextlib.contextmanager
    def patch(self, changes: dict[str, Any] | str | None = None, value: Any = None, /, **more: Any) -> Iterator[Config]:
        """Sets values for a `with` block or, as a decorator, for each call of a function.

        Takes keywords, a dict, or one name and its value. Nothing is set if any of them is invalid.
        """
        wanted = {changes: value} if isinstance(changes, str) else dict(changes or {})
        wanted |= more
        checked = {name: _checked(name, new) for name, new in wanted.items()}
        before = {name: getattr(self, name) for name in checked}
        try:
            for name, new in checked.items():
                _C.set_config(name, new)
            yield self
        finally:
            for name, old in before.items():
                _C.set_config(name, old)


def _unknown(name: str) -> str:
    return f"stator.config has no setting {name!r}; it has {', '.join(SETTINGS)}"


def _checked(name: str, value: Any) -> Any:
    setting = SETTINGS.get(name)
    if setting is None:
        raise AttributeError(_unknown(name))
    # Compare exact types, because bool is a subclass of int.
    if type(value) is not setting.kind:
        raise InvalidOption(f"stator.config.{name} takes {setting.kind.__name__}, not {value!r}", hint=f"{setting.doc}")
    if isinstance(value, int) and setting.least is not None and value < setting.least:
        raise InvalidOption(f"stator.config.{name} must be at least {setting.least}, not {value!r}")
    return value


def check_compatible() -> None:
    """Raises if settings contradict each other. Called when something is compiled, not when the second one is set."""
    if config.suppress_errors and config.fail_on_recompile_limit_hit:
        raise InvalidOption(
            "stator.config.suppress_errors and stator.config.fail_on_recompile_limit_hit are both set",
            hint="the first hides the error that the second requests: clear one of them",
        )


config = Config()
config.oracle = os.environ.get("STATOR_ORACLE", "") not in ("", "0")
config.debug_dir = os.environ.get("STATOR_DEBUG_DIR", "")
