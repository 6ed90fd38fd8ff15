"""Runs one entry of PyTorch's operator database on real tensors and on fakes, and reports differences of metadata.

Shared by the test and by the tool that writes docs/fake_tiers.md.
"""

import copy
import itertools
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from stator import _C
from tests.python.helpers import fake_scope

_fake = _C._fake

LAYOUTS = ("contiguous", "permuted", "transposed", "strided")
DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64)


def entries():
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}


def samples_for(dtype):
    """The number of samples per entry; float32 has the most."""
    return 4 if dtype is torch.float32 else 2


def relayout(tensor, layout):
    """A detached tensor with the same values in another memory layout."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        return tensor
    if layout == "contiguous" or tensor.dim() == 0:
        return tensor.clone(memory_format=torch.contiguous_format)
    if layout == "permuted":
        if tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last).clone()
        if tensor.dim() == 5:
            return tensor.contiguous(memory_format=torch.channels_last_3d).clone()
        order = list(range(1, tensor.dim())) + [0]
        back = [order.index(i) for i in range(tensor.dim())]
        return tensor.permute(order).clone(memory_format=torch.contiguous_format).permute(back)
    if layout == "transposed":
        if tensor.dim() < 2:
            return tensor.clone()
        return tensor.transpose(-1, -2).clone(memory_format=torch.contiguous_format).transpose(-1, -2)
    sizes = [s * 2 for s in tensor.shape]
    wide = torch.zeros(sizes, dtype=tensor.dtype, device=tensor.device)
    view = wide[tuple(slice(None, None, 2) for _ in sizes)]
    return view.copy_(tensor)


def describe(value):
    """The metadata that must agree; strides of dimensions of size one are ignored."""
    if not isinstance(value, torch.Tensor):
        return repr(value) if not isinstance(value, float) or value == value else "nan"
    if value.layout is not torch.strided:
        return ("layout", str(value.layout))
    strides = tuple(0 if n == 1 or value.numel() == 0 else s for n, s in zip(value.shape, value.stride()))
    return (
        tuple(value.shape),
        strides,
        str(value.dtype),
        str(value.device),
        value.requires_grad,
        value.is_conj(),
        value.is_neg(),
    )


def _random_state():
    """The states of the generators of the CPU and, if the process used it, the GPU."""
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]
    return [state.tolist() for state in states]


class Broke(Exception):
    """The fake run was refused, which is a break with a reason."""


def _unsupported_input(values):
    return any(isinstance(v, torch.Tensor) and v.layout is not torch.strided for v in values)


def run_sample(op, sample, layout, grad):
    """None if the fake and the real run agree, otherwise the difference as text; raises Broke if the fakes refuse."""
    flat, spec = pytree.tree_flatten((sample.input, sample.args, dict(sample.kwargs)))
    if _unsupported_input(flat):
        return None
    where = [i for i, v in enumerate(flat) if isinstance(v, torch.Tensor)]
    reals = list(flat)
    for i in where:
        reals[i] = relayout(flat[i], layout)
    for before, real in zip(flat, reals):
        if isinstance(real, torch.Tensor) and grad and before.requires_grad:
            real.requires_grad_(True)
    fakes = list(reals)
    for i, fake in zip(where, _fake.from_reals([reals[i] for i in where])):
        fakes[i] = fake

    def call(values):
        first, args, kwargs = pytree.tree_unflatten(copy.copy(values), spec)
        mode = torch.enable_grad() if grad else torch.no_grad()
        with mode, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pytree.tree_flatten(op(first, *args, **kwargs))[0]

    torch.manual_seed(0)
    try:
        expected = [describe(v) for v in call(reals)]
    except Exception:
        return None  # the sample does not support this layout or mode
    after = [describe(v) for v in reals]
    _fake.take_poison()
    state = _random_state()
    try:
        with fake_scope():
            results = call(fakes)
    except Exception as error:  # noqa: BLE001
        _fake.note_error(str(error))
        reason = _fake.take_poison()
        if reason is not None:
            raise Broke(reason) from None
        return f"raised {type(error).__name__}: {str(error)[:300]}"
    reason = _fake.take_poison()
    if reason is not None:
        raise Broke(reason)
    if _random_state() != state:
        return "the generator moved"
    for value in results:
        if isinstance(value, torch.Tensor) and not _fake.is_fake(value):
            return "a real tensor came out"
    got = [describe(v) for v in results]
    if got != expected:
        return f"got {got}, real {expected}"
    got = [describe(v) for v in fakes]
    if got != after:
        return f"arguments became {got}, real {after}"
    return None


def run_entry(op, dtype, grads=(False, True), most=8, device="cpu"):
    """(number of runs, {break reason: count}, [differences])"""
    runs, breaks, wrong = 0, {}, []
    torch.manual_seed(1)
    needs_grad = dtype.is_floating_point or dtype.is_complex
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = op.sample_inputs(device, dtype, requires_grad=needs_grad and op.supports_autograd)
            samples = list(itertools.islice(made, most))
    except Exception:
        return runs, breaks, wrong  # the database has no samples for this dtype
    for number, sample in enumerate(samples):
        for layout in LAYOUTS:
            for grad in grads:
                if grad and not needs_grad:
                    continue
                try:
                    difference = run_sample(op, sample, layout, grad)
                except Broke as broke:
                    breaks[str(broke)] = breaks.get(str(broke), 0) + 1
                else:
                    if difference:
                        wrong.append(f"sample {number} {layout} {'grad' if grad else 'no_grad'}: {difference}")
                runs += 1
    return runs, breaks, wrong
