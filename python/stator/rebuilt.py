"""Objects that a plan makes by a call, because their class has no constructor from their state."""

from __future__ import annotations

import _random
import random
from typing import Any


def generator(state: tuple[Any, ...]) -> random.Random:
    """A `random.Random` with the state that its C part gave; the plan sets its attributes."""
    made: random.Random = random.Random.__new__(random.Random)
    _random.Random.setstate(made, state)
    return made
