"""`Tensor.tolist` in the fake modes. Torch reads the memory of the tensor; in a trace each element is an item."""

from __future__ import annotations

from typing import Any

import torch

from .. import _C
from .current import current_tracer
from .replaced import replace_in_traces

_read_memory = torch._C.TensorBase.tolist


def _tolist(self: torch.Tensor) -> Any:
    recording = current_tracer()
    if recording is None or recording.options.tracing_mode == "real" or not _C._fake.is_fake(self):
        return _read_memory(self)
    return _items(self)


def _items(tensor: torch.Tensor) -> Any:
    return tensor.item() if tensor.dim() == 0 else [_items(tensor[i]) for i in range(int(tensor.shape[0]))]


replace_in_traces(torch.Tensor, "tolist", _read_memory, _tolist)
