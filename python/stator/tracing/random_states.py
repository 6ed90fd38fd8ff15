"""The state of torch's random numbers, which a traced program may put back.

A graph draws its numbers in the order of its nodes. So nodes that draw after an earlier state was put back would draw
other numbers than the program: that is an error.
"""

from __future__ import annotations

from typing import Any

import torch

from ..fx_module import find_operator
from .current import current_tracer
from .replaced import replace_in_traces


class RandomStates:
    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.taken: list[tuple[torch.Tensor, int]] = []  # a state, and the number of nodes when it was taken
        self.put_back: list[tuple[int, int | None]] = []  # (nodes, nodes when the state was taken; None: not known)

    def took(self, state: torch.Tensor) -> None:
        self.taken.append((state, self.tracer.position()))

    def puts_back(self, state: torch.Tensor) -> None:
        taken = next((position for known, position in self.taken if known is state), None)
        self.put_back.append((self.tracer.position(), taken))

    def check(self, native: Any) -> None:
        """Raises if a node draws other numbers than the program did."""
        if not self.put_back:
            return
        nodes = native.nodes()

        def draws(start: int, stop: int) -> bool:
            return any(_draws(name, overload) for name, overload, *_ in nodes[start:stop])

        ends = [position for position, _ in self.put_back[1:]] + [len(nodes)]
        for (start, taken), end in zip(self.put_back, ends, strict=True):
            if (taken is None or draws(taken, start)) and draws(start, end):
                raise RuntimeError(
                    "cannot be traced: the program puts an earlier state of the random numbers back, and draws again "
                    "(torch.set_rng_state, torch.random.fork_rng, torch.utils.checkpoint with dropout). A graph draws "
                    "its numbers in the order of its nodes, so it would draw others."
                )


def _draws(name: str, overload: str) -> bool:
    return not name.startswith("stator::") and torch.Tag.nondeterministic_seeded in find_operator(name, overload).tags


_get, _set = torch.get_rng_state, torch.set_rng_state


def _get_rng_state() -> torch.Tensor:
    state = _get()
    recording = current_tracer()
    if recording is not None and recording.states is not None:
        recording.states.took(state)
    return state


def _set_rng_state(new_state: torch.Tensor) -> None:
    recording = current_tracer()
    if recording is not None and recording.states is not None:
        recording.states.puts_back(new_state)
    _set(new_state)


for _owner in (torch, torch.random):
    replace_in_traces(_owner, "get_rng_state", _get, _get_rng_state)
    replace_in_traces(_owner, "set_rng_state", _set, _set_rng_state)
