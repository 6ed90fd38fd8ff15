"""`torch.nn.attention.flex_attention` in a trace: one node, whose parts are the function of a score and the mask's."""

from __future__ import annotations

from typing import Any

import torch

from ..current import disable_tracing
from .parts import Part
from .row import Lifted, Operand, Row


class FlexAttention(Row):
    def take(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        score_mod: Any,
        block_mask: Any,
        scale: float,
        kernel_options: dict[str, Any],
        score_buffers: Any = (),
        mask_buffers: Any = (),
    ) -> None:
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        *mask, mask_mod = block_mask
        self.settings = scale, kernel_options
        self.score_buffers, self.mask_buffers = list(score_buffers), list(mask_buffers)
        self.mask = mask
        blocks = [item for item in mask if isinstance(item, torch.Tensor)]
        self.operands = [query, key, value, *blocks, *self.score_buffers, *self.mask_buffers]
        with disable_tracing():
            score = torch.empty((), dtype=query.dtype, device=query.device)
            places = [[torch.empty((), dtype=torch.int32, device=query.device) for _ in range(4)] for _ in range(2)]
        with TransformGetItemToIndex():
            self.part("sdpa_score", score_mod, [score, *places[0], *self.score_buffers]).gives_one = True
            self.part("sdpa_mask", mask_mod, [*places[1], *self.mask_buffers]).gives_one = True

    def placed(self, operands: list[Any], functions: Any, lifted: list[Any]) -> tuple[Any, ...]:
        """The arguments of the operator."""
        given = iter(operands)
        query, key, value = next(given), next(given), next(given)
        mask = [next(given) if isinstance(item, torch.Tensor) else item for item in self.mask]
        score_buffers = [next(given) for _ in self.score_buffers]
        score, mask_mod = functions
        scale, options = self.settings
        buffers = (*score_buffers, *lifted), (*given, *lifted)
        return query, key, value, score, (*mask, mask_mod), scale, options, *buffers

    def arguments(self, operands: list[Operand], lifted: Lifted) -> tuple[Any, ...]:
        return self.placed(operands, self.parts, [lifted])

    def results(self) -> list[torch.Tensor]:
        from torch._higher_order_ops.flex_attention import flex_attention_fake_impl

        from ..module import build_part

        if not self.is_real:
            return list(flex_attention_fake_impl(*self.placed(self.operands, (None, None), [])))
        kernel = self.op.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd]
        functions = [build_part(part) for part in self.parts]
        return list(kernel(*self.placed(self.operands, functions, self.parts[0].lifted)))

    def part(self, name: str, function: Any, operands: list[torch.Tensor]) -> Part:
        part = super().part(name, function, operands)
        if len(part.tensors) != 1 or part.tensors[0].dim() != 0:
            raise RuntimeError(f"cannot be traced: flex_attention: the function of {name} must return one number")
        return part
