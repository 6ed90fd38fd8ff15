"""Native decompositions against eager and against torch's Python ones, on samples of the operator database."""

import pathlib

import pytest
import torch
from torch._decomp import core_aten_decompositions
from torch.testing._internal.common_methods_invocations import op_db

from stator import passes
from tests.python.passes.tracing import ops, trace

# Several threads make operators that write one place twice (`max_unpool3d`) depend on their order.
pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = passes.native_decompositions()
CORE = {op.name(): fn for op, fn in core_aten_decompositions().items()}
ATEN = torch.ops.aten
DOCS = pathlib.Path(__file__).parents[3] / "docs"


def overload(name):
    name, _, kind = name.removeprefix("aten::").partition(".")
    return getattr(getattr(ATEN, name), kind or "default")


def test_rows_are_of_the_core_set():
    assert {name for name in NAMES if name not in CORE} == set()


def test_the_pages_say_how_many_there_are():
    composite = [
        name for name in NAMES if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    ]
    assert composite == ["aten::silu_backward"]
    assert not any(overload(name)._schema.is_mutable for name in NAMES)
    assert f"{len(NAMES) - 1} have a row, and so has one composite operator" in (DOCS / "passes.md").read_text()
    assert f"{len(NAMES)} of its operators" in (DOCS / "make_fx.md").read_text()


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
MASK = torch.tensor([[True, False], [True, True]])
SPECIAL = torch.tensor([0.5, -0.5, torch.nan, 0.0, torch.inf, 1.0])
CLASSES = torch.tensor([0, 1, 2, 2, 1, 0, 1, 2])
CALLS = {
    "aten::_log_softmax_backward_data": (x(3, 4), x(3, 4).log_softmax(1), 1, torch.float32),
    "aten::_prelu_kernel": (x(3, 4), x(3, 4)),
    "aten::_prelu_kernel_backward": (x(3, 4), x(3, 4) * 2, x(3, 4)),
    "aten::_reshape_alias": (x(3, 4), [12], [1]),
    "aten::_safe_softmax": (x(3, 4).masked_fill(torch.tensor([[True], [False], [False]]), -torch.inf), 1),
    "aten::_softmax_backward_data": (x(3, 4), x(3, 4).softmax(1), 1, torch.float32),
    "aten::_unsafe_index.Tensor": (x(3, 4), [None, torch.tensor([0, 3])]),
    "aten::_unsafe_index_put": (x(3, 4), [torch.tensor([0, 0])], x(2, 4), True),
    "aten::_unsafe_masked_index": (x(3, 4), MASK, [torch.tensor([[0], [5]]), torch.tensor([[1, 9]])], 7.0),
    "aten::_unsafe_masked_index_put_accumulate": (
        x(3, 4),
        MASK,
        [torch.tensor([[0], [5]]), torch.tensor([[1, 9]])],
        x(2, 2),
    ),
    "aten::_unsafe_view": (x(3, 4), [2, 6]),
    "aten::_upsample_nearest_exact1d": (x(1, 2, 5), [8]),
    "aten::_upsample_nearest_exact2d": (x(1, 2, 5, 4), [3, 9], None, None),
    "aten::_upsample_nearest_exact3d": (x(1, 2, 3, 4, 2), [5, 3, 4]),
    "aten::_weight_norm_interface": (x(3, 4), x(3, 1), 0),
    "aten::addcdiv": (x(3, 4), x(3, 1), x(3, 4) + 3, {"value": 0.5}),
    "aten::addcmul": (x(3, 4), x(3, 1), x(3, 4), {"value": 0.5}),
    "aten::addr": (x(3, 4), x(3), x(4), {"beta": 0.5, "alpha": 2}),
    "aten::all": (x(3, 4) > -9,),
    "aten::all.dim": (x(3, 4) > 0, 1),
    "aten::all.dims": (x(3, 4) > 0, [0], True),
    "aten::aminmax": (x(3, 4), {"dim": 1}),
    "aten::arange": (5,),
    "aten::arange.start": (2, 5),
    "aten::baddbmm": (x(2, 3, 5), x(2, 3, 4), x(2, 4, 5), {"beta": 0.5, "alpha": 2}),
    "aten::binary_cross_entropy_backward": (x(3, 4), x(3, 4).sigmoid(), x(3, 4).sigmoid(), x(3, 4), 1),
    "aten::binary_cross_entropy_with_logits": (x(3, 4), x(3, 4).sigmoid(), x(3, 4), x(4), 1),
    "aten::channel_shuffle": (x(1, 6, 2, 2), 3),
    "aten::clamp_max": (x(3, 4), 0.5),
    "aten::clamp_max.Tensor": (x(3, 4), x(4)),
    "aten::clamp_min": (x(3, 4), 0.5),
    "aten::clamp_min.Tensor": (x(3, 4), x(4)),
    "aten::count_nonzero": (x(3, 4).round(), 1),
    "aten::count_nonzero.dim_IntList": (x(3, 4).round(), [0]),
    "aten::detach": (x(3, 4),),
    "aten::diag_embed": (x(2, 3), 1, -1, 0),
    "aten::embedding_dense_backward": (x(4, 3), torch.tensor([0, 2, 2, 1]), 5, 1, True),
    "aten::eye": (3,),
    "aten::eye.m": (3, 5),
    "aten::fill.Tensor": (x(3, 4), x()),
    "aten::floor_divide": (x(3, 4), x(4)),
    "aten::floor_divide.Scalar": (x(3, 4), 0.3),
    "aten::glu_backward": (x(3, 2), x(3, 4), 1),
    "aten::hardswish_backward": (x(3, 4), x(3, 4) * 4),
    "aten::huber_loss_backward": (x(), x(3, 4), x(3, 4) * 3, 1, 1.0),
    "aten::index_add": (x(3, 4), 1, torch.tensor([0, 3, 0]), x(3, 3), {"alpha": 2}),
    "aten::index_copy": (x(3, 4), -1, torch.tensor([0, 3]), x(3, 2)),
    "aten::index_fill.int_Scalar": (x(3, 4), 1, torch.tensor([0, 3]), 0.5),
    "aten::index_fill.int_Tensor": (x(3, 4), 0, torch.tensor(2), x()),
    "aten::isin.Tensor_Scalar": (x(3, 4).round(), 1, {"invert": True}),
    "aten::lerp.Scalar": (x(3, 4), x(4), 0.7),
    "aten::lerp.Tensor": (x(3, 4), x(4), x(3, 4)),
    "aten::linspace": (-1.0, 2, 7),
    "aten::linalg_cross": (x(2, 3), x(1, 3)),
    "aten::log_sigmoid_backward": (x(3, 4), x(3, 4), torch.exp(-x(3, 4).abs())),
    "aten::log_sigmoid_forward": (x(3, 4),),
    "aten::logaddexp": (SPECIAL, SPECIAL.flip(0)),
    "aten::logaddexp2": (SPECIAL, SPECIAL.flip(0)),
    "aten::logit": (x(3, 4).sigmoid(), 0.3),
    "aten::logsumexp": (x(3, 4), [0, 1], True),
    "aten::masked_fill.Tensor": (x(3, 4), x(3, 4) > 0, x()),
    "aten::mse_loss_backward": (x(), x(3, 4), x(3, 4) * 2, 1),
    "aten::mv": (x(3, 4), x(4)),
    "aten::mvlgamma": (x(3, 4).abs() + 3, 3),
    "aten::nan_to_num": (SPECIAL, None, 5.0),
    "aten::nansum": (SPECIAL[2:], [0], True),
    "aten::native_batch_norm_backward": (
        *(x(2, 3, 4), x(2, 3, 4) * 2, x(3), None, None),
        *(x(2, 3, 4).mean((0, 2)), x(3).abs() + 1, True, 1e-5, [True, True, True]),
    ),
    "aten::native_group_norm_backward": (
        *(x(2, 6, 4), x(2, 6, 4) * 2, x(2, 3), x(2, 3).abs() + 1, x(6)),
        *(2, 6, 4, 3, [True, True, True]),
    ),
    "aten::native_layer_norm_backward": (
        *(x(2, 3, 4), x(2, 3, 4) * 2, [3, 4], x(2, 1, 1), x(2, 1, 1).abs() + 1),
        *(x(3, 4), x(3, 4), [True, True, True]),
    ),
    "aten::new_empty": (x(3, 4), [0, 2]),
    "aten::new_full": (x(3, 4), [2], 3),
    "aten::new_ones": (x(3, 4), [2]),
    "aten::new_zeros": (x(3, 4), [2], {"dtype": torch.int64}),
    "aten::nll_loss2d_backward": (x(), x(2, 3, 4, 1), CLASSES.view(2, 4, 1), x(3), 1, -100, x().abs() + 1),
    "aten::nll_loss2d_forward": (x(2, 3, 4, 1), CLASSES.view(2, 4, 1), x(3), 2, 1),
    "aten::nll_loss_backward": (x(8), x(8, 3), CLASSES, None, 0, 1, x().abs() + 1),
    "aten::nll_loss_forward": (x(8, 3), CLASSES, x(3), 1, 2),
    "aten::norm.Scalar": (x(3, 4), 3),
    "aten::norm.ScalarOpt_dim": (x(3, 4), None, [1]),
    "aten::norm.ScalarOpt_dim_dtype": (x(3, 4), 1, [1], True, {"dtype": torch.float64}),
    "aten::norm.ScalarOpt_dtype": (x(3, 4), None, {"dtype": torch.float64}),
    "aten::ones": ([2, 3],),
    "aten::ones_like": (x(3, 4).t(),),
    "aten::pixel_shuffle": (x(1, 8, 2, 3), 2),
    "aten::pixel_unshuffle": (x(1, 2, 4, 6), 2),
    "aten::reflection_pad1d": (x(2, 5), [2, 1]),
    "aten::reflection_pad1d_backward": (x(2, 8), x(2, 5), [2, 1]),
    "aten::reflection_pad2d": (x(1, 5, 4), [2, 1, 3, 0]),
    "aten::reflection_pad2d_backward": (x(1, 8, 7), x(1, 5, 4), [2, 1, 3, 0]),
    "aten::reflection_pad3d": (x(1, 3, 5, 4), [2, 1, 3, 0, 1, 1]),
    "aten::reflection_pad3d_backward": (x(1, 5, 8, 7), x(1, 3, 5, 4), [2, 1, 3, 0, 1, 1]),
    "aten::replication_pad1d": (x(2, 5), [2, 7]),
    "aten::replication_pad2d": (x(1, 5, 4), [2, 7, 3, 0]),
    "aten::replication_pad3d": (x(1, 3, 5, 4), [2, 1, 3, 0, 1, 5]),
    "aten::roll": (x(3, 4), [1, -6], [0, 1]),
    "aten::rot90": (x(3, 4), 3),
    "aten::rsub.Scalar": (x(3, 4), 2.5),
    "aten::rsub.Tensor": (x(3, 4), x(4), {"alpha": 2}),
    "aten::select_scatter": (x(3, 4), x(3), 1, -2),
    "aten::sgn": (x(3, 4),),
    "aten::sinc": (x(3, 4).round(),),
    "aten::smooth_l1_loss_backward": (x(), x(3, 4), x(3, 4) * 3, 1, 0.7),
    "aten::soft_margin_loss_backward": (x(), x(3, 4), x(3, 4).sign(), 1),
    "aten::special_entr": (SPECIAL,),
    "aten::special_xlog1py.other_scalar": (x(3, 4).round(), 2.0),
    "aten::special_xlog1py.self_scalar": (2.0, x(3, 4)),
    "aten::split.Tensor": (x(5, 2), 2),
    "aten::split_with_sizes_copy": (x(5, 2), [2, 3]),
    "aten::squeeze": (x(1, 3, 1),),
    "aten::squeeze.dim": (x(1, 3, 1), 2),
    "aten::std.correction": (x(3, 4), [1], {"correction": 0}),
    "aten::std_mean.correction": (x(3, 4), [1], {"correction": 1}),
    "aten::sum": (x(3, 4),),
    "aten::t": (x(3, 4),),
    "aten::take": (x(3, 4), torch.tensor([[0, -1], [11, 3]])),
    "aten::transpose.int": (x(2, 3, 4), 0, -1),
    "aten::tril": (x(3, 4), 1),
    "aten::triu": (x(3, 4), -1),
    "aten::unbind.int": (x(3, 4), 1),
    "aten::unfold_backward": (x(2, 3, 4), [2, 10], 1, 4, 3),
    "aten::unsafe_split.Tensor": (x(5, 2), 2),
    "aten::unsafe_split_with_sizes": (x(5, 2), [2, 3]),
    "aten::upsample_nearest1d": (x(1, 2, 5), [8]),
    "aten::upsample_nearest2d": (x(1, 2, 5, 4), [3, 9]),
    "aten::upsample_nearest3d": (x(1, 2, 3, 4, 2), [5, 3, 4]),
    "aten::vdot": (x(4), x(4)),
    "aten::xlogy.Scalar_Other": (x(3, 4).round(), 2.0),
    "aten::xlogy.Scalar_Self": (2.0, x(3, 4).abs()),
    "aten::zeros": ([2, 3],),
    "aten::zeros_like": (x(3, 4).t(),),
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


def call_of(function, args):
    """A call; a dict at the end has keywords."""
    keywords = args[-1] if args and isinstance(args[-1], dict) else {}
    made = function(*(args[:-1] if keywords else args), **keywords)
    leaves = list(made) if isinstance(made, (tuple, list)) else [made]
    return [leaf for leaf in leaves if leaf is not None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_row(name, dtype):
    """As eager and as the Python decomposition; the operator itself is gone."""
    op, python = overload(name), CORE[name]
    tensors, join = split(CALLS[name])
    tensors = [t.to(dtype) if t.dtype == torch.float32 else t for t in tensors]
    dtypes = {torch.float32: dtype}

    def join_in_dtype(*given):
        return tuple(dtypes.get(arg, arg) if isinstance(arg, torch.dtype) else arg for arg in join(*given))

    try:
        want = call_of(op, join_in_dtype(*tensors))
    except (NotImplementedError, RuntimeError) as error:
        assert dtype is torch.bfloat16 or isinstance(error, NotImplementedError), error
        pytest.skip(f"{name} does not take {dtype}")
    made = decomposed(lambda *given: call_of(op, join_in_dtype(*given)), tensors, name)
    if made.replaced == {} and dtype is torch.bfloat16:
        return  # declined
    assert made.replaced == {name: 1} and name not in made.left
    assert name.removeprefix("aten::") not in overloads(made.graph)
    got = made.graph(*tensors)
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        close(one, other)
    for one, other in zip(got, call_of(python, join_in_dtype(*tensors)), strict=True):
        close(one, other)


def overloads(graph):
    return {f"{name}.{kind}".removesuffix(".").removeprefix("aten::") for name, kind, *_ in graph.nodes()}


def draws(graph):
    """Whether an operator of the graph takes random numbers."""
    called = [f"{name}.{kind}" if kind else name for name, kind, *_ in graph.nodes() if name.startswith("aten::")]
    return any(torch.Tag.nondeterministic_seeded in overload(name).tags for name in called)


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
            if not draws(graph.aten) and "empty" not in info.name:
                close(got, want)
