"""Messages that are shown once."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

# How many different messages are remembered.
_MOST = 4096


class Once:
    """Tells whether a key is seen for the first time. Remembers the `size` keys that were seen last."""

    def __init__(self, size: int = _MOST):
        self._size = size
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    def first(self, key: Hashable) -> bool:
        """Whether `key` is not remembered. Afterwards it is the newest one remembered."""
        is_new = key not in self._seen
        self._seen[key] = None
        self._seen.move_to_end(key)
        if len(self._seen) > self._size:
            self._seen.popitem(last=False)
        return is_new

    def clear(self) -> None:
        self._seen.clear()


_printed, _warned = Once(), Once()


def print_once(*args: Any) -> None:
    """Prints, unless the same was printed before."""
    if _printed.first(tuple(map(str, args))):
        print(*args)


def warn_once(text: str, stacklevel: int = 1) -> None:
    """Warns at the caller's line, unless the same text was warned of before."""
    if _warned.first(text):
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)


def reset() -> None:
    """Forgets what `print_once` and `warn_once` have shown."""
    _printed.clear()
    _warned.clear()


def strip_color(text: str) -> str:
    """The text without the escape sequences that colour it in a terminal."""
    import re

    return re.sub(r"\x1B(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])", "", text)
