"""Functions that a user's program calls. They run as plain Python; a capture recognises them by identity."""

from __future__ import annotations


def is_compiling() -> bool:
    """True while this call is captured, and so in its graph; False in plain Python."""
    return False


def graph_break(reason: str = "") -> None:
    """Ends the graph here; in plain Python it does nothing. With `fullgraph=True` it raises `Unsupported`."""
