"""Functions that a user's program calls from inside: plain Python here, known to the capture by identity."""

from __future__ import annotations


def is_compiling() -> bool:
    """True while this call is being captured (and so in the graph that comes of it), False in plain Python."""
    return False


def graph_break(reason: str = "") -> None:
    """Ends the graph here; in plain Python it does nothing. With `fullgraph=True` it raises `Unsupported`."""
