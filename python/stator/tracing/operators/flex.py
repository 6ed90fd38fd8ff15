"""`torch.nn.attention.flex_attention` in a trace: one node, whose parts are the function of a score and the mask's.

Its backward pass is a node as well (`flex_attention_backward`) if only the query, the key and the value have gradients.
Gradients of what the function of a score uses, and gradients of gradients, are those of the operators that torch's own
kernel for any device calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..current import disable_tracing
from .gradients import vector_jacobian
from .parts import Part, Tensors
from .row import Lifted, Operand, Row

_Q_INDICES = 7  # the place in a block mask of what a backward pass needs


class _Flex(Row):
    """The arguments that the operator and its gradient share: all but the first tensors."""

    first: Tensors

    def take_rest(
        self, block_mask: Any, scale: float, kernel_options: dict[str, Any], score_buffers: Any, mask_buffers: Any
    ) -> None:
        *self.mask, self.mask_mod = block_mask
        self.settings = scale, kernel_options
        self.score_buffers, self.mask_buffers = list(score_buffers), list(mask_buffers)
        blocks = [item for item in self.mask if isinstance(item, torch.Tensor)]
        self.operands = [*self.first, *blocks, *self.score_buffers, *self.mask_buffers]

    def places(self) -> tuple[torch.Tensor, list[Tensors]]:
        """A score, and twice the four indices of one."""
        like = self.first[0]
        with disable_tracing():
            score = torch.empty((), dtype=like.dtype, device=like.device)
            return score, [[torch.empty((), dtype=torch.int32, device=like.device) for _ in range(4)] for _ in range(2)]

    def rest(self, given: Iterator[Any], mask_mod: Any, lifted: list[Any]) -> tuple[Any, ...]:
        """The arguments behind the functions of a score, of the operands behind the first ones."""
        mask = [next(given) if isinstance(item, torch.Tensor) else item for item in self.mask]
        score_buffers = [next(given) for _ in self.score_buffers]
        return (*mask, mask_mod), *self.settings, (*score_buffers, *lifted), (*given, *lifted)

    def one_number(self, name: str, function: Any, operands: Tensors) -> Part:
        part = self.part(name, function, operands)
        if len(part.tensors) != 1 or part.tensors[0].dim() != 0:
            raise RuntimeError(f"cannot be traced: flex_attention: the function of {name} must return one number")
        part.gives_one = True
        return part


class FlexAttention(_Flex):
    takes_none = True

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

        self.first, self.score_mod = [query, key, value], score_mod
        self.take_rest(block_mask, scale, kernel_options, score_buffers, mask_buffers)
        score, places = self.places()
        with TransformGetItemToIndex():
            self.one_number("sdpa_score", score_mod, [score, *places[0], *self.score_buffers])
            self.one_number("sdpa_mask", self.mask_mod, [*places[1], *self.mask_buffers])

    def placed(self, operands: list[Any], functions: Any, lifted: list[Any]) -> tuple[Any, ...]:
        """The arguments of the operator."""
        given = iter(operands)
        query, key, value = next(given), next(given), next(given)
        score_mod, mask_mod = functions
        return query, key, value, score_mod, *self.rest(given, mask_mod, lifted)

    def arguments(self, operands: list[Operand], lifted: Lifted) -> tuple[Any, ...]:
        return self.placed(operands, self.parts, [lifted])

    def results(self) -> Tensors:
        from torch._higher_order_ops.flex_attention import flex_attention_fake_impl

        from ..module import build_part

        if not self.is_real:
            return list(flex_attention_fake_impl(*self.placed(self.operands, (None, None), [])))
        kernel = self.op.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd]
        functions = [build_part(part) for part in self.parts]
        return list(kernel(*self.placed(self.operands, functions, self.parts[0].lifted)))

    def check_differentiable(self) -> None:
        if self.mask[_Q_INDICES] is None:
            raise RuntimeError(
                "flex_attention: the block mask has no q_indices, which the backward pass needs; create it with "
                "compute_q_blocks=True"
            )

    def constants(self, results: Tensors) -> Tensors:
        return [results[2]]  # the greatest scores

    def saved(self, results: Tensors) -> Tensors:
        return results[:2]

    def gradients(self, inputs: Tensors, grads: list[Any]) -> list[Any]:
        buffers, captured = self.score_buffers, self.lifted_tensors
        if torch.is_grad_enabled() or any(tensor.requires_grad for tensor in (*buffers, *captured)):
            inner = vector_jacobian(self.attend, 3 + len(buffers), captured)
            found = list(inner(*self.first, *buffers, *grads[:2]))
        else:
            mask = *self.mask, self.mask_mod
            found = list(
                torch.ops.higher_order.flex_attention_backward(
                    *self.first, *self.outputs, *grads[:2], self.score_mod, self.joint, mask, *self.settings,
                    tuple(buffers), tuple(self.mask_buffers),
                )[:3]
            )  # fmt: skip
            found += [None] * (len(buffers) + len(captured))
        last = 3 + len(buffers)
        count = len(inputs) - len(found) - len(self.mask_buffers)
        return [*found[:3], *[None] * count, *found[3:last], *[None] * len(self.mask_buffers), *found[last:]]

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *buffers: Any) -> Any:
        from torch._higher_order_ops.flex_attention import math_attention

        mask = *self.mask, self.mask_mod
        given = buffers, tuple(self.mask_buffers)
        return math_attention(query, key, value, self.score_mod, mask, *self.settings, *given)[:2]

    def joint(self, score: torch.Tensor, *args: torch.Tensor) -> tuple[Any, ...]:
        """Of a score, its indices, the gradient of the result and the buffers: the gradient of the score."""
        places, grad, buffers = args[:4], args[4], args[5:]
        with torch.enable_grad():
            given = score.detach().requires_grad_()
            result = self.score_mod(given, *places, *buffers)
            found = torch.autograd.grad(result, given, grad, allow_unused=True)[0] if result.requires_grad else None
        return torch.zeros_like(score) if found is None else found, *[None] * (4 + len(buffers))


class FlexAttentionBackward(_Flex):
    """Torch's kernel gives a gradient of a buffer only if the buffer requires one when the node runs."""

    def take(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        out: torch.Tensor,
        logsumexp: torch.Tensor,
        grad_out: Any,
        grad_logsumexp: Any,
        score_mod: Any,
        joint: Any,
        block_mask: Any,
        scale: float,
        kernel_options: dict[str, Any],
        score_buffers: Any = (),
        mask_buffers: Any = (),
    ) -> None:
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        self.given = query, key, value, out, logsumexp, grad_out, grad_logsumexp
        self.first = [tensor for tensor in self.given if tensor is not None]
        self.take_rest(block_mask, scale, kernel_options, score_buffers, mask_buffers)
        score, places = self.places()
        with disable_tracing():
            grad = torch.empty((), dtype=query.dtype, device=query.device)
        with TransformGetItemToIndex():
            self.one_number("fw_graph", score_mod, [score, *places[0], *self.score_buffers])
            found = self.part("joint_graph", joint, [score, *places[0], grad, *self.score_buffers])
            self.one_number("mask_graph", self.mask_mod, [*places[1], *self.mask_buffers])
        found.gives_none = True
        gradients = found.leaves[5:]
        self.has_gradient = [
            isinstance(leaf, torch.Tensor) and isinstance(buffer, torch.Tensor) and buffer.requires_grad
            for leaf, buffer in zip(gradients, self.score_buffers, strict=True)
        ]

    def placed(self, operands: list[Any], functions: Any, lifted: list[Any]) -> tuple[Any, ...]:
        given = iter(operands)
        first = [None if tensor is None else next(given) for tensor in self.given]
        score_mod, joint, mask_mod = functions
        return *first, score_mod, joint, *self.rest(given, mask_mod, lifted)

    def arguments(self, operands: list[Operand], lifted: Lifted) -> tuple[Any, ...]:
        return self.placed(operands, self.parts, [lifted])

    def results(self) -> Tensors:
        from torch._higher_order_ops.flex_attention import flex_attention_backward_fake_tensor_mode

        from ..module import build_part

        if self.is_real:
            kernel = self.op.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd]
            functions = [build_part(part) for part in self.parts]
            *found, buffers = kernel(*self.placed(self.operands, functions, self.parts[0].lifted))
        else:
            *found, buffers = flex_attention_backward_fake_tensor_mode(*self.placed(self.operands, (None,) * 3, []))
        return [*found, *[g for g, is_made in zip(buffers, self.has_gradient, strict=False) if is_made]]

    def result(self, count: int) -> Any:
        numbers = iter(range(3, count))
        return 0, 1, 2, tuple([next(numbers) if is_made else None for is_made in self.has_gradient])

    def unflatten(self, results: Tensors) -> Any:
        grads = iter(results[3:])
        return *results[:3], tuple([next(grads) if is_made else None for is_made in self.has_gradient])
