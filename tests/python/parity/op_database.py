"""Runs entries of PyTorch's operator database plain and compiled under fullgraph, and compares everything observable.

Shared by the test of captured entries and by tools/conformance.py.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db

import stator

from .corpus.observe import Walk, difference, gradients
from .corpus.run import state_kept

DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)
SAMPLES = 4
UNINITIALIZED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

Compile = Callable[[Any], Any]


def entries() -> dict[str, Any]:
    """Name and variant -> entry."""
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}


def names() -> list[str]:
    """The entries that have samples on the CPU."""
    return [name for name, op in entries().items() if next(_all_samples(op), None) is not None]


def _all_samples(op: Any) -> Iterator[Any]:
    """New samples, equal in each call."""
    dtype = next((dtype for dtype in DTYPES if op.supports_dtype(dtype, "cpu")), None)
    if dtype is None:
        return
    torch.default_generator.manual_seed(1)
    random.seed(1)
    numpy.random.seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        # The method `sample_inputs` also looks at the stack for each sample, which is slow.
        yield from op.sample_inputs_func(op, "cpu", dtype, grad)


def samples(op: Any, most: int = SAMPLES) -> list[Any]:
    """At most `most` samples, at least two, spread over those that the entry has."""
    made = list(_all_samples(op))
    if len(made) <= most:
        return made
    return [made[round(number * (len(made) - 1) / (most - 1))] for number in range(most)]


def observe(op: Any, sample: Any, compile_with: Compile | None) -> dict[str, Any]:
    """What a call of the entry does: result or exception, arguments, gradients, random state."""

    def call(first: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return op(first, *args, **kwargs)

    fn = call if compile_with is None else compile_with(call)
    torch.default_generator.manual_seed(0)
    walk, result, seen = Walk(), None, {"raised": None}
    with state_kept(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = fn(sample.input, sample.args, dict(sample.kwargs))
        except Exception as error:
            text = error.reason["text"] if isinstance(error, stator.Unsupported) else str(error)
            seen["raised"] = f"{type(error).__name__}: {text}"
        seen["random"] = hash(torch.get_rng_state().numpy().tobytes())
        seen["arguments"] = walk.describe([sample.input, sample.args, sample.kwargs])
        seen["result"] = walk.describe(result)
        try:
            seen["gradients"] = gradients(walk, result)
        except RuntimeError as error:
            seen["gradients"] = f"backward raised {error}"
    return without_data(seen) if op.name in UNINITIALIZED else seen


def without_data(seen: Any) -> Any:
    """A description without the bits of tensors."""
    if isinstance(seen, dict):
        return {key: without_data(value) for key, value in seen.items() if key != "bits"}
    return [without_data(value) for value in seen] if isinstance(seen, list) else seen


def differences(name: str, compile_with: Compile, exact: bool = True, most: int = SAMPLES) -> Iterator[str | None]:
    """For each sample of the entry: the first difference from the plain run, or None."""
    op = entries()[name]
    for number, (plain, compiled) in enumerate(zip(samples(op, most), samples(op, most), strict=True)):
        found = difference(observe(op, compiled, compile_with), observe(op, plain, None), exact)
        yield None if found is None else f"sample {number}{found}"
