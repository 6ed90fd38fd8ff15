"""Functions that a user's program calls from inside: plain Python here, known to the capture by identity."""

from __future__ import annotations

from . import _C
from .modes import disable


def is_compiling() -> bool:
    """True while this call is being captured (and so in the graph that comes of it), False in plain Python."""
    return _C.is_compiling_flag()


@disable(reason="graph_break() was called")  # type: ignore[untyped-decorator]
def graph_break(msg: str = "") -> None:
    """Ends the graph here; in plain Python it does nothing. With `fullgraph=True` it raises `Unsupported`."""
