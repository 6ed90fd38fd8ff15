"""Native decompositions against eager and against torch's Python ones, on samples of the operator database."""

import pytest
import torch
from torch._decomp import core_aten_decompositions
from torch.testing._internal.common_methods_invocations import op_db

from stator import passes
from tests.python.passes.tracing import ops, trace

NAMES = passes.native_decompositions()
CORE = {op.name(): fn for op, fn in core_aten_decompositions().items()}
ATEN = torch.ops.aten


def overload(name):
    name, _, kind = name.removeprefix("aten::").partition(".")
    return getattr(getattr(ATEN, name), kind or "default")


def test_rows_are_of_the_core_set():
    assert {name for name in NAMES if name not in CORE} == set()


def decomposed(fn, inputs, name):
    """The graph of a function with one operator decomposed; None if today's tracer cannot trace it."""
    try:
        graph = trace(fn, inputs)
    except RuntimeError:
        return None
    return passes.decompose(graph.aten, [name])


def close(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=None, atol=None, equal_nan=True)


def x(*shape, dtype=torch.float32):
    torch.manual_seed(len(shape))
    return torch.randn(shape).to(dtype)


GRAD = (x(3, 4), x(3, 4) * 2)
CALLS = {
    "aten::alias_copy": (x(3, 4).t(),),
    "aten::celu": (x(3, 4), 1.5),
    "aten::deg2rad": (x(3, 4),),
    "aten::diagonal_backward": (x(3), [3, 4], 1, 0, 1),
    "aten::diagonal_copy": (x(3, 4), 1, 0, 1),
    "aten::dot": (x(4), x(4)),
    "aten::elu_backward": (x(3, 4), 1.5, 1.1, 0.9, False, x(3, 4)),
    "aten::expand_copy": (x(1, 4), [3, 4]),
    "aten::fill.Scalar": (x(3, 4), 2.5),
    "aten::frac": (x(3, 4),),
    "aten::gelu_backward": GRAD,
    "aten::glu": (x(3, 4), 1),
    "aten::hardshrink": (x(3, 4), 0.5),
    "aten::hardsigmoid": (x(3, 4) * 4,),
    "aten::hardsigmoid_backward": GRAD,
    "aten::hardswish": (x(3, 4) * 4,),
    "aten::hardtanh_backward": (*GRAD, -1, 1),
    "aten::heaviside": (x(3, 4), x(4)),
    "aten::huber_loss": (x(3, 4), x(3, 4) * 3, 1, 1.0),
    "aten::isneginf": (x(3, 4) / 0,),
    "aten::isposinf": (x(3, 4) / 0,),
    "aten::leaky_relu_backward": (*GRAD, 0.1, False),
    "aten::logit_backward": (x(3, 4), x(3, 4).sigmoid(), None),
    "aten::masked_fill.Scalar": (x(3, 4), x(3, 4) > 0, 2.0),
    "aten::mish": (x(3, 4),),
    "aten::mse_loss": (x(3, 4), x(3, 4) * 2, 2),
    "aten::native_dropout_backward": (x(3, 4), x(3, 4) > 0, 2.0),
    "aten::rad2deg": (x(3, 4),),
    "aten::select_backward": (x(4), [3, 4], 0, 1),
    "aten::sigmoid_backward": (x(3, 4), x(3, 4).sigmoid()),
    "aten::silu": (x(3, 4),),
    "aten::silu_backward": GRAD,
    "aten::slice_backward": (x(2, 4), [3, 4], 0, 0, 2, 1),
    "aten::smooth_l1_loss": (x(3, 4), x(3, 4) * 3, 0, 0.7),
    "aten::soft_margin_loss": (x(3, 4), x(3, 4).sign(), 1),
    "aten::softplus": (x(3, 4) * 9, 1.5, 3),
    "aten::softplus_backward": (x(3, 4), x(3, 4) * 9, 1.5, 3),
    "aten::softshrink": (x(3, 4), 0.5),
    "aten::special_xlog1py": (x(3, 4).round(), x(3, 4)),
    "aten::squeeze_copy": (x(3, 1),),
    "aten::squeeze_copy.dim": (x(3, 1), 1),
    "aten::squeeze_copy.dims": (x(3, 1), [0, 1]),
    "aten::stack": ([x(3, 4), x(3, 4)], 1),
    "aten::t_copy": (x(3, 4),),
    "aten::tanh_backward": (x(3, 4), x(3, 4).tanh()),
    "aten::threshold": (x(3, 4), 0.5, 2.0),
    "aten::threshold_backward": (*GRAD, 0.5),
    "aten::trace": (x(3, 4),),
    "aten::transpose_copy.int": (x(3, 4), 0, 1),
    "aten::unfold_copy": (x(6), 0, 3, 2),
    "aten::unsqueeze_copy": (x(3, 4), 1),
    "aten::xlogy.Tensor": (x(3, 4).round(), x(3, 4)),
    "aten::zero": (x(3, 4),),
}


def split(args):
    """The tensors among arguments, and a function of tensors that puts them back."""
    flat, spec = torch.utils._pytree.tree_flatten(args)
    places = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]

    def join(*tensors):
        leaves = list(flat)
        for place, tensor in zip(places, tensors, strict=True):
            leaves[place] = tensor
        return torch.utils._pytree.tree_unflatten(leaves, spec)

    return [flat[i] for i in places], join


def test_every_row_is_tested():
    assert set(CALLS) == set(NAMES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_row(name, dtype):
    """As eager and as the Python decomposition; the operator itself is gone."""
    op, python = overload(name), CORE[name]
    tensors, join = split(CALLS[name])
    tensors = [t.to(dtype) if t.dtype == torch.float32 else t for t in tensors]
    try:
        want = op(*join(*tensors))
    except NotImplementedError:
        pytest.skip(f"{name} does not take {dtype}")
    made = decomposed(lambda *given: op(*join(*given)), tensors, name)
    assert made.replaced == {name: 1} and made.left == {}
    assert name.removeprefix("aten::").split(".")[0] not in ops(made.graph)
    (got,) = made.graph(*tensors)
    close(got, want)
    close(got, python(*join(*tensors)))


DATABASE = {name.removeprefix("aten::").split(".")[0]: name for name in NAMES}


@pytest.mark.parametrize("info", op_db, ids=lambda info: f"{info.name}.{info.variant_test_name}")
def test_operator_database(info):
    """Operators whose ATen graph has a row: decomposed graphs give what eager gives, for each dtype."""
    for dtype in (torch.float32, torch.float64, torch.complex64, torch.int64, torch.bool, torch.bfloat16):
        if dtype not in info.dtypes:
            continue
        for sample in list(info.sample_inputs("cpu", dtype))[:4]:
            tensors, join = split(((sample.input, *sample.args), sample.kwargs))

            def fn(*given, join=join):
                args, kwargs = join(*given)
                return info.op(*args, **kwargs)

            try:
                want = fn(*[t.clone() for t in tensors])
                graph = trace(fn, tensors) if isinstance(want, torch.Tensor) and tensors else None
            except Exception:
                continue
            if graph is None or not set(ops(graph.aten)) & DATABASE.keys():
                continue
            made = passes.decompose(graph.aten, NAMES)
            (got,) = made.graph(*[t.clone() for t in tensors])
            if "rand" not in info.name and "dropout" not in info.name:
                close(got, want)
