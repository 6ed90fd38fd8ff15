"""Functionalisation over PyTorch's operator database: in-place forms, `out` arguments, writes to views."""

import itertools
import unittest.mock
import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import stator
from stator import passes
from stator.tracing import trace_native
from tests.python.passes.tracing import check_run, close
from tests.python.passes.tracing import tensors as as_list

# Several threads make operators that write one place twice (`max_unpool3d`) depend on their order.
pytestmark = pytest.mark.usefixtures("one_thread")

SAMPLES = 1
ENTRIES = {f"{info.name}.{info.variant_test_name}".rstrip("."): info for info in op_db}
FLOATS = {name: info for name, info in ENTRIES.items() if torch.float32 in info.dtypes}
# What eager gives is not defined.
UNDEFINED = {name for name in FLOATS if "empty" in name}


def calls(info):
    """(tensors, a function of tensors that gives the arguments and keywords) of some samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(itertools.islice(info.sample_inputs("cpu", torch.float32), SAMPLES))
    for sample in samples:
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def join(*tensors, leaves=leaves, places=places, spec=spec):
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            return pytree.tree_unflatten(filled, spec)

        yield [leaves[i] for i in places], join


# Refused, with the reason: sizes or values that depend on data, operators without a shape function, and writes that
# functionalisation cannot express.
REFUSED = ("cannot be traced: ", "aten::resize_", "a write to a tensor whose elements overlap", "depends on data")
REFUSED += ("made by an operator that cannot be repeated",)


def check(fn, tensors):
    """The functional form does what the function does. False if the function is not a program: eager raises, it gives
    no tensors, or it seeds the generator, which a graph does not."""

    def copies():
        return [tensor.clone(memory_format=torch.preserve_format) for tensor in tensors]

    try:
        result = fn(*copies())
        with unittest.mock.patch("torch.manual_seed", side_effect=RuntimeError("seeds")):
            fn(*copies())
    except Exception:
        return False
    if not all(isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided for leaf in pytree.tree_leaves(result)):
        return False
    try:
        functional_fn = stator.functionalize(fn)
        check_run(lambda *given: as_list(functional_fn(*given)), fn, copies, close)
    except RuntimeError as error:
        assert any(part in str(error) for part in REFUSED)
        return False
    functional = passes.functionalize(trace_native(fn, tuple(copies()), "fake"), write_back=False)
    written = {name for name, overload, *_ in functional.graph.nodes() if is_mutable(name, overload)}
    assert written <= {name.partition(".")[0] for name in functional.on_copies}
    return True


def is_mutable(name, overload):
    if not name.startswith("aten::"):
        return False
    return getattr(getattr(torch.ops.aten, name.removeprefix("aten::")), overload or "default")._schema.is_mutable


def leaves_of(result):
    return tuple(leaf for leaf in pytree.tree_leaves(result))


@pytest.mark.parametrize(
    "name", sorted(n for n, info in FLOATS.items() if info.inplace_variant and n not in UNDEFINED)[::8]
)
def test_in_place(name):
    info = FLOATS[name]
    for tensors, join in calls(info):

        def written(*given, join=join):
            args, kwargs = join(*given)
            return info.inplace_variant(*args, **kwargs), args[0] + 1

        def through_a_view(*given, join=join):
            args, kwargs = join(*given)
            whole = torch.stack([args[0], args[0]], -1)
            info.inplace_variant(whole.select(-1, 1), *args[1:], **kwargs)
            return whole

        if isinstance(join(*tensors)[0][0], torch.Tensor):
            check(written, tensors)
            check(through_a_view, tensors)


@pytest.mark.parametrize(
    "name", sorted(n for n, info in FLOATS.items() if info.supports_out and n not in UNDEFINED)[::8]
)
def test_out(name):
    info = FLOATS[name]
    for tensors, join in calls(info):

        def into_new(*given, join=join):
            args, kwargs = join(*given)
            like = info.op(*args, **kwargs)
            out = pytree.tree_map(torch.zeros_like, like)
            info.op(*args, **kwargs, out=out)
            return leaves_of(out)

        def into_columns(*given, join=join):
            args, kwargs = join(*given)
            like = info.op(*args, **kwargs)
            whole = like.new_zeros((*like.shape, 2))
            info.op(*args, **kwargs, out=whole[..., 1])
            return whole

        def is_right_in_eager(join=join, tensors=tensors):
            # Several kernels of torch leave a strided `out` wrong; the functional form does not.
            args, kwargs = join(*tensors)
            like = info.op(*args, **kwargs)
            if not isinstance(like, torch.Tensor):
                return False
            whole = like.new_zeros((*like.shape, 2))
            info.op(*args, **kwargs, out=whole[..., 1])
            return torch.allclose(whole[..., 1], like, equal_nan=True)

        if check(into_new, tensors) and is_right_in_eager():
            check(into_columns, tensors)


@pytest.mark.parametrize("name", sorted(FLOATS.keys() - UNDEFINED)[::8])
def test_write_to_what_it_returns(name):
    """If the operator gives views, the write changes what they are views of."""
    info = FLOATS[name]
    for tensors, join in calls(info):

        def writes(*given, join=join):
            args, kwargs = join(*given)
            made = leaves_of(info.op(*args, **kwargs))
            for tensor in made:
                tensor.add_(1)
            return made[0], made[-1] * 2

        check(writes, tensors)
