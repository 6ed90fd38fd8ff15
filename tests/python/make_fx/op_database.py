"""Traces the entries of PyTorch's operator database, and compares the traced graphs with plain calls.

A graph must give what a plain call gives: on the sample it was traced with, and on a second sample of the same shapes.
"""

import copy
import itertools
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

MODES = ("real", "fake", "symbolic")


def entries(dtype=torch.float32, device="cpu"):
    """The entries that take this dtype on this device, by name."""
    found = {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}
    return {name: op for name, op in found.items() if dtype in op.supported_dtypes(device)}


class Call:
    """One sample as a function of a list of tensors."""

    def __init__(self, op, sample):
        self.op = op
        leaves, self.spec = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        self.leaves = leaves
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[i].detach() for i in self.places]

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.op.op(*args, **kwargs)
        leaves, spec = pytree.tree_flatten(result)
        return leaves

    def copies(self, second=False):
        return [other_values(t) if second else copy.deepcopy(t) for t in self.tensors]


def other_values(tensor):
    """A tensor of the same layout with its values in another order: they stay in the domain of the operator."""
    if tensor.layout is not torch.strided or tensor.numel() < 2 or not (tensor.is_floating_point()):
        return copy.deepcopy(tensor)
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return made.copy_(tensor.reshape(-1).flip(0).reshape(tensor.shape))


def run(function, tensors):
    torch.manual_seed(42)  # as the functions of the database that draw random numbers
    return function(*tensors)


def difference(found, expected):
    """None if the results are equal, up to rounding."""
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    for mine, plain in zip(found, expected):
        if isinstance(plain, torch.Tensor) != isinstance(mine, torch.Tensor):
            return f"{type(mine).__name__}, not {type(plain).__name__}"
        if isinstance(plain, torch.Tensor):
            if plain.dtype != mine.dtype or plain.shape != mine.shape:
                return f"{mine.dtype} {tuple(mine.shape)}, not {plain.dtype} {tuple(plain.shape)}"
            try:
                torch.testing.assert_close(mine, plain, equal_nan=True)
            except AssertionError as error:
                return "other values: " + str(error).replace("\n", " ")[:120]
        elif not (plain == mine or plain != plain):
            return f"{mine!r}, not {plain!r}"
    return None


def operators(module):
    """The operators of a traced graph in order, as text."""
    return " ".join(str(getattr(n.target, "__name__", n.target)) for n in module.graph.nodes if n.op == "call_function")


def judge_sample(make_fx, call, mode, skip_values):
    """(problem, operators): how the graph differs from a plain call, what it calls. None if the call raises."""
    try:
        run(call, call.copies())
    except Exception:
        return None
    try:
        module = run(lambda *tensors: make_fx(call, tracing_mode=mode)(*tensors), call.copies())
    except Exception as error:
        return f"not traced: {type(error).__name__}: {str(error)[:300]}", None
    return compare(module, call, skip_values), operators(module)


def described(value):
    return (value.shape, value.dtype) if isinstance(value, torch.Tensor) else type(value)


def compare(module, call, skip_values):
    """How the graph differs from a plain call, on the sample and on a second one of the same shapes; or None."""
    for second in (False, True):
        try:
            expected = run(call, call.copies(second))
        except Exception:
            continue
        try:
            found = run(module, call.copies(second))
        except Exception as error:
            return f"the graph raises: {type(error).__name__}: {str(error)[:200]}"
        if skip_values:
            found, expected = ([described(value) for value in values] for values in (found, expected))
            problem = None if found == expected else f"{found}, not {expected}"
        else:
            problem = difference(found, expected)
        if problem:
            return ("second sample: " if second else "") + problem
    return None


# Values that eager calls do not repeat: memory that is not written, seeds of kernels.
UNDEFINED = ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted")
UNDEFINED_ON_CUDA = ("torch.ops.aten._efficient_attention_forward", "nn.functional.max_unpool3d")


def judge(make_fx, op, mode, limit=None, dtype=torch.float32, device="cpu"):
    """(the first problem of an entry or None, the operators of each sample's graph)."""
    graphs = {}
    skipped = UNDEFINED if device == "cpu" else UNDEFINED + UNDEFINED_ON_CUDA
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = op.sample_inputs(device, dtype, requires_grad=False)
        for i, sample in enumerate(itertools.islice(samples, limit)):
            judged = judge_sample(make_fx, Call(op, sample), mode, op.name in skipped)
            if judged is None:
                continue
            problem, graphs[i] = judged
            if problem:
                return f"sample {i}: {problem}", graphs
    return None, graphs
