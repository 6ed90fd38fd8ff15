"""Every ATen call under PyTorch's operator database, forward and backward, made again on fakes in random layouts.

test_op_database.py checks Python functions; this test checks the operators below autograd one by one, with
argument layouts that no Python function passes: each shape function must be correct by itself.
"""

import random
import warnings
from collections import Counter

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from stator import _C

methods = pytest.importorskip("torch.testing._internal.common_methods_invocations")

_fake = _C._fake

CALLS_PER_KIND = 3
LAYOUTS_PER_CALL = 3
DTYPES = (torch.float32, torch.bfloat16, torch.complex64, torch.int64)


def relayout(tensor, generator):
    """The same values, laid out in one of five ways."""
    tensor = tensor.detach()
    rank, kind = tensor.dim(), generator.randrange(5)
    if rank == 0 or kind == 0:
        return tensor.clone()
    if kind == 1 and rank in (4, 5):
        return tensor.clone(memory_format=torch.channels_last if rank == 4 else torch.channels_last_3d)
    if kind == 2:
        wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype)
        return wide[..., ::2].copy_(tensor)
    if kind == 3 and rank >= 3:
        wide = torch.zeros(tensor.shape[0], tensor.shape[1] + 1, *tensor.shape[2:], dtype=tensor.dtype)
        return (wide.to(memory_format=torch.channels_last) if rank == 4 else wide)[:, :-1].copy_(tensor)
    order = list(range(rank))
    generator.shuffle(order)
    back = [order.index(dim) for dim in range(rank)]
    return tensor.permute(order).clone(memory_format=torch.contiguous_format).permute(back)


def describe(value):
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    strides = tuple(0 if n == 1 or value.numel() == 0 else s for n, s in zip(value.shape, value.stride()))
    return (tuple(value.shape), strides, value.dtype)


def attempt(function):
    try:
        return function(), None
    except Exception as error:  # noqa: BLE001 - whether both raise is what is compared
        return None, error


def kind_of(args):
    """Counts calls by rank and dtype of the first tensor, so that rare uses of common operators are tested as well."""
    first = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
    return None if first is None else (first.dim(), first.dtype)


class Replayed(TorchDispatchMode):
    """Makes each call on fakes first, then the real call."""

    def __init__(self):
        super().__init__()
        self.seen, self.right, self.wrong = Counter(), 0, []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.seen[op, kind_of(args)] += 1
        if op.namespace == "aten" and self.seen[op, kind_of(args)] <= CALLS_PER_KIND:
            leaves, spec = pytree.tree_flatten((args, kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            if all(tensor.layout is torch.strided for tensor in tensors):
                for seed in range(LAYOUTS_PER_CALL):
                    self.compare(op, leaves, spec, random.Random(seed))
        return op(*args, **kwargs)

    def compare(self, op, leaves, spec, generator):
        leaves = [relayout(leaf, generator) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        reals = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        fakes = _fake.from_reals(reals)
        given = iter(fakes)
        on_fakes = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        fake_args, fake_kwargs = pytree.tree_unflatten(on_fakes, spec)
        with torch.no_grad():
            before = _fake.scope(True)
            try:
                fake, fake_error = attempt(lambda: op(*fake_args, **fake_kwargs))
            finally:
                _fake.scope(before)
            refused = _fake.take_poison()
            state = torch.get_rng_state()
            real, real_error = attempt(lambda: op(*args, **kwargs))
            torch.set_rng_state(state)
        if refused or real_error is not None or fake_error is not None:
            # A break is not an error, and a real call that raises does so when the graph runs.
            return
        expected = [describe(leaf) for leaf in [*pytree.tree_leaves(real), *reals]]
        found = [describe(leaf) for leaf in [*pytree.tree_leaves(fake), *fakes]]
        if found == expected:
            self.right += 1
        else:
            self.wrong.append((str(op), [describe(leaf) for leaf in reals], expected, found))


def samples(entry, dtype, count):
    grad = entry.supports_autograd and dtype.is_floating_point
    found, _ = attempt(lambda: [s for _, s in zip(range(count), entry.sample_inputs("cpu", dtype, requires_grad=grad))])
    return found or []


def run_sample(entry, sample):
    result = entry(sample.input, *sample.args, **sample.kwargs)
    inputs = [leaf for leaf in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if is_leaf(leaf)]
    outputs = [leaf for leaf in pytree.tree_leaves(result) if is_leaf(leaf)]
    if inputs and outputs:
        torch.autograd.grad([(leaf.abs() if leaf.is_complex() else leaf).sum() for leaf in outputs], inputs, None)


def is_leaf(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


ENTRIES = [op for op in methods.op_db if not any(word in op.name for word in ("sparse", "jiterator"))]


@pytest.mark.parametrize("part", range(8))
def test_calls_on_fakes(part):
    replayed = Replayed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in ENTRIES[part::8]:
            for dtype in (dtype for dtype in DTYPES if dtype in entry.dtypes):
                for sample in samples(entry, dtype, 4 if dtype is torch.float32 else 2):
                    with replayed:
                        attempt(lambda sample=sample, entry=entry: run_sample(entry, sample))
    assert replayed.right > 500
    assert not replayed.wrong, "\n".join(map(str, replayed.wrong[:20]))
