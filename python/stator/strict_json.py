"""JSON as the standard has it: Python would also write `NaN` and `Infinity`, which other readers refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any


def dumps(value: Any, default: Callable[[Any], Any] = str) -> str:
    """The text of a value in ASCII. Numbers that are not finite become the texts "nan", "inf" and "-inf"."""
    try:
        return json.dumps(value, default=default, allow_nan=False)
    except ValueError as error:
        if "float" not in str(error):
            raise  # a value that holds itself
    return json.dumps(_finite(value), default=lambda other: _finite(default(other)), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if isinstance(value, dict):
        return {_finite(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
