"""Decompositions given as Python functions."""

import pytest
import torch
import torch.nn.functional as F

import stator
from stator.tracing import core_aten_decompositions, decompose, get_isolated_graph_module, selective_decompose
from tests.python.make_fx.helpers import calls, node, placeholders

aten = torch.ops.aten
MODES = ["real", "fake", "symbolic"]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


def apply_silu(a):
    return F.silu(a)


def silu(t):
    return t * t.sigmoid()


def sigmoid(t):
    return 1 / (1 + (-t).exp())


SILU = {aten.silu.default: silu}


@pytest.mark.parametrize("mode", MODES)
def test_operators_are_computed_by_others(x, mode):
    module = stator.make_fx(apply_silu, SILU, mode)(x)
    assert calls(module) == ["sigmoid.default", "mul.Tensor"]
    assert torch.allclose(module(x), F.silu(x))


@pytest.mark.parametrize("mode", MODES)
def test_what_a_decomposition_calls_is_decomposed_again(x, mode):
    table = {**SILU, aten.sigmoid.default: sigmoid}
    module = stator.make_fx(apply_silu, table, mode)(x)
    assert calls(module) == [
        "neg.default",
        "exp.default",
        "add.Tensor",
        "reciprocal.default",
        "mul.Tensor",
        "mul.Tensor",
    ]
    assert torch.allclose(module(x), F.silu(x))


def test_a_decomposition_may_decline(x):
    table = {aten.silu.default: lambda t: NotImplemented}
    assert calls(stator.make_fx(apply_silu, table)(x)) == ["silu.default"]


def test_the_table_is_copied(x):
    table = dict(SILU)
    traced = stator.make_fx(apply_silu, table)
    table.clear()
    assert calls(traced(x)) == ["sigmoid.default", "mul.Tensor"]


def test_composites_are_decomposed_before_dispatch_and_where_autograd_does_not_split_them(x):
    table = {aten.linear.default: lambda a, w, b=None: a @ w.t() if b is None else a @ w.t() + b}
    w, b = torch.randn(2, 4), torch.randn(2)
    module = stator.make_fx(F.linear, table, pre_dispatch=True)(x, w, b)
    assert "linear.default" not in calls(module) and "add.Tensor" in calls(module)
    assert torch.allclose(module(x, w, b), F.linear(x, w, b))

    def in_inference_mode(a, w, b):
        with torch.inference_mode():
            return F.linear(a, w, b)

    assert "add.Tensor" in calls(stator.make_fx(in_inference_mode, table)(x, w, b))


@pytest.mark.parametrize("mode", MODES)
def test_forward_and_backward_are_decomposed(x, mode):
    def silu_backward(grad, t):
        s = t.sigmoid()
        return grad * s * (1 + t * (1 - s))

    def program(a):
        a = a.detach().requires_grad_()
        return torch.autograd.grad(F.silu(a).sum(), a)[0]

    module = stator.make_fx(program, {**SILU, aten.silu_backward.default: silu_backward}, mode)(x)
    assert not any("silu" in name for name in calls(module))
    assert torch.allclose(module(x), program(x))


@pytest.mark.parametrize("mode", MODES)
def test_torchs_own_table(x, mode):
    table = torch._decomp.core_aten_decompositions()

    def program(a):
        return F.layer_norm(F.gelu(a), (4,)).softmax(-1), F.smooth_l1_loss(a, a.sin())

    module = stator.make_fx(program, table, mode)(x)
    for found, wanted in zip(module(x), program(x), strict=True):
        assert torch.allclose(found, wanted, atol=1e-6)
    assert "smooth_l1_loss.default" not in calls(module)


@pytest.mark.parametrize("mode", MODES)
def test_native_decompositions(x, mode):
    table = core_aten_decompositions()

    def program(a, classes):
        loss = F.cross_entropy(F.layer_norm(F.gelu(a), (4,)), classes) + F.smooth_l1_loss(a, a.sin())
        return loss, torch.autograd.grad(F.silu(a).sum() + loss, a)[0]

    def step(a, classes):
        return program(a.detach().requires_grad_(), classes)

    classes = torch.tensor([0, 3, 1])
    module = stator.make_fx(step, table, mode)(x, classes)
    used = module.meta["decompositions"]
    for name in ("nll_loss_forward", "nll_loss_backward", "native_layer_norm_backward", "smooth_l1_loss", "silu"):
        assert f"{name}.default" not in calls(module)
        assert used["native"][f"aten::{name}"] >= 1
    assert all(not name.startswith("aten::silu") for name in used["python"])
    other = torch.randn(3, 4)
    for found, wanted in zip(module(other, classes), step(other, classes), strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_native_decomposition_that_does_not_cover_a_call(x):
    operator = aten.rsub.Scalar
    table = {operator: core_aten_decompositions()[operator]}
    module = stator.make_fx(lambda a: operator(a, 1.0, 2.0), table)(x)
    assert module.meta["decompositions"] == {"native": {}, "python": {"aten::rsub.Scalar": 1}}
    torch.testing.assert_close(module(x + 1), 1 - 2 * (x + 1))
    module = stator.make_fx(lambda a: 1.0 - a, table)(x)
    torch.testing.assert_close(module(x + 1), 1 - (x + 1))


def test_a_native_decomposition_and_bad_arguments(x):
    table = core_aten_decompositions()
    with pytest.raises((RuntimeError, IndexError)):
        stator.make_fx(lambda a: torch.tril(a[0]), table)(x)
    assert calls(stator.make_fx(torch.sin, table)(x)) == ["sin.default"]


def test_native_decompositions_name_the_operator(x):
    table = core_aten_decompositions()
    module = stator.make_fx(lambda a: F.silu(a) + 1, table)(x)
    assert node(module, "sigmoid").meta["original_aten"] is aten.silu.default
    assert node(module, "add").meta.get("original_aten") is None


def test_a_decomposition_that_raises(x):
    def fails(t):
        raise KeyError("no")

    def program(a):
        try:
            F.silu(a)
        except KeyError:
            pass
        return F.silu(a + 1) if a.dim() == 3 else a + 1

    assert calls(stator.make_fx(program, {aten.silu.default: fails})(x)) == ["add.Tensor"]
    with pytest.raises(KeyError):
        stator.make_fx(apply_silu, {aten.silu.default: fails})(x)
    assert calls(stator.make_fx(apply_silu)(x)) == ["silu.default"]


def test_nodes_name_the_operator_that_was_decomposed(x):
    module = stator.make_fx(lambda a: F.silu(a) + 1, SILU)(x)
    assert [node(module, name).meta.get("original_aten") for name in ("sigmoid", "mul", "add")] == [
        aten.silu.default,
        aten.silu.default,
        None,
    ]


def test_a_region_has_another_table(x):
    def program(a):
        a = F.silu(a)
        with decompose(SILU):
            a = F.silu(a)
        return F.silu(a)

    names = ["silu.default", "sigmoid.default", "mul.Tensor", "silu.default"]
    assert calls(stator.make_fx(program)(x)) == names

    def without(a):
        with decompose(None):
            a = F.silu(a)
        return F.silu(a)

    assert calls(stator.make_fx(without, SILU)(x)) == ["silu.default", "sigmoid.default", "mul.Tensor"]
    with pytest.raises(AssertionError, match="trace"), decompose(SILU):
        pass


def test_chosen_nodes_are_decomposed(x):
    module = stator.make_fx(lambda a: F.silu(F.gelu(F.silu(a))))(x)
    chosen = selective_decompose(module, x, decomposition=SILU, should_decompose=lambda n: n.name == "silu_1")
    assert calls(chosen) == ["silu.default", "gelu.default", "sigmoid.default", "mul.Tensor"]
    assert placeholders(chosen) == placeholders(module)
    assert torch.allclose(chosen(x), module(x))


@pytest.mark.parametrize("pick", ["silu", "cond"])
def test_nodes_of_a_branch_are_chosen(x, pick):
    module = stator.make_fx(lambda a: torch.cond(a.sum() > 0, apply_silu, torch.relu, (a,)))(x)
    chosen = selective_decompose(module, x, decomposition=SILU, should_decompose=lambda n: n.name == pick)
    assert calls(chosen.true_graph_0) == ["sigmoid.default", "mul.Tensor"]
    none = selective_decompose(module, x, decomposition=SILU, should_decompose=lambda n: False)
    assert calls(none.true_graph_0) == ["silu.default"]
    for given in (x, -x):
        assert torch.allclose(chosen(given), module(given))


def test_nodes_of_a_joint_graph_are_chosen(x):
    def joint(primals, tangents):
        a = primals[0].detach().requires_grad_()
        out = F.silu(a)
        return out.detach(), torch.autograd.grad(out, a, tangents[0])[0]

    module = stator.make_fx(joint)([x], [torch.ones_like(x)])
    flat = stator.make_fx(lambda p, t: tuple(joint([p], [t])))(x, torch.ones_like(x))
    chosen = selective_decompose(
        flat,
        [x],
        [torch.ones_like(x)],
        decomposition=SILU,
        should_decompose=lambda n: n.target is aten.silu.default,
        trace_joint_graph=True,
    )
    assert placeholders(chosen) == ["primals_1", "tangents_1"]
    assert "silu.default" not in calls(chosen) and "silu_backward.default" in calls(chosen)
    given = [x + 1], [x]
    for found, wanted in zip(chosen(*given), module(*given), strict=True):
        torch.testing.assert_close(found, wanted)


def test_an_isolated_trace_has_a_table_of_its_own(x):
    inner, ones = [], torch.ones(3)

    def program(a):
        inner.append(get_isolated_graph_module(lambda z, k: F.silu(z) * k, (ones, 2), None, "real", SILU))
        return a.cos()

    assert calls(stator.make_fx(program)(x)) == ["cos.default"]
    assert calls(inner[0]) == ["sigmoid.default", "mul.Tensor", "mul.Tensor"]
