"""Switches of grad mode, inference mode and autocast in `torch.fx` graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx.node import has_side_effect

set_grad = torch._C._set_grad_enabled
enter_autocast = torch.amp.autocast_mode._enter_autocast
exit_autocast = torch.amp.autocast_mode._exit_autocast
enter_inference = torch.autograd.grad_mode._enter_inference_mode
exit_inference = torch.autograd.grad_mode._exit_inference_mode
SWITCHES = (set_grad, enter_autocast, exit_autocast, enter_inference, exit_inference)
for _function in SWITCHES:
    has_side_effect(_function)


@contextlib.contextmanager
def left_on_error() -> Iterator[None]:
    """If the block raises, leaves the grad mode and the autocast regions that its switches entered, as the program's
    `with` statements would. Torch ends the recomputation of a checkpoint by an exception."""
    grad, depth = torch.is_grad_enabled(), _autocast_depth()
    try:
        yield
    except BaseException:
        torch.set_grad_enabled(grad)
        while _autocast_depth() > depth:
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()
        raise


def _autocast_depth() -> int:
    torch.autocast_increment_nesting()
    depth: int = torch.autocast_decrement_nesting()
    return depth


class StateNodes:
    """Writes the switches of grad mode, inference mode and autocast between nodes, as nodes that enter and exit.
    The module starts and ends in the graph's first state."""

    def __init__(self, graph: torch.fx.Graph, states: list[Any], sequence: list[int]) -> None:
        self.graph = graph
        self.states = states
        self.sequence = sequence
        self.current = 0
        self.grad = states[0][0] if states else True
        self.open: list[tuple[Any, torch.fx.Node, bool]] = []
        self.paused: tuple[Any, int] | None = None  # the state under a nested "off", and the depth to go back to
        # The last node under each autocast region: casts are shared up to there.
        self.region_ends = {states[s][4]: i for i, s in enumerate(sequence) if states[s][2]}

    def before(self, index: int, state: int) -> None:
        if state != self.current:
            self.switch(index, self.states[state])
            self.current = state

    def finish(self) -> None:
        if self.states:
            self.switch(len(self.sequence), self.states[0])

    def switch(self, index: int, new: Any) -> None:
        old = self.states[self.current]
        if new[1:] != old[1:]:
            if self.paused is not None and new[1:] == self.paused[0][1:]:
                self.close(self.paused[1])
                self.paused = None
            elif old[2] and not new[2] and new[1] == old[1] and self.region_ends.get(old[4], -1) >= index:
                self.paused = (old, len(self.open))
                for device, dtype in old[2]:
                    self.enter(enter_autocast, exit_autocast, device, dtype, False, old[3])
            else:
                self.close(0)
                self.paused = None
                self.enter_from_first(new)
        if self.grad != new[0]:
            self.graph.call_function(set_grad, (new[0],))
            self.grad = new[0]

    def enter_from_first(self, new: Any) -> None:
        first = self.states[0]
        if new[1] != first[1]:
            self.enter(enter_inference, exit_inference, new[1])
            self.grad = not new[1]
        wanted, ambient = dict(new[2]), dict(first[2])
        for device, dtype in ambient.items():
            if device not in wanted:
                self.enter(enter_autocast, exit_autocast, device, dtype, False, first[3])
        for device, dtype in wanted.items():
            if ambient.get(device) != dtype or new[3:] != first[3:]:
                self.enter(enter_autocast, exit_autocast, device, dtype, True, new[3])

    def enter(self, enter: Any, leave: Any, *args: Any) -> None:
        self.open.append((leave, self.graph.call_function(enter, args), self.grad))

    def close(self, depth: int) -> None:
        while len(self.open) > depth:
            leave, node, grad = self.open.pop()
            self.graph.call_function(leave, (node,))
            if leave is exit_inference:
                self.grad = grad
