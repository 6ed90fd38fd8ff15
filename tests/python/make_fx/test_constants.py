"""Tensors from outside, tensors made in the function, reads of data."""

import pytest
import torch

import stator
from tests.python.make_fx.helpers import calls, names, node


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


def test_parameters_of_a_module(x):
    linear = torch.nn.Linear(4, 2)
    module = stator.make_fx(linear)(x)
    assert names(module, "get_attr") == ["_param_constant0", "_param_constant1"]
    assert module._param_constant0 is linear.weight
    assert module._param_constant1 is linear.bias
    assert calls(module) == ["t.default", "addmm.default"]
    assert torch.equal(module(x), linear(x))
    assert set(module.state_dict()) == {"_param_constant0", "_param_constant1"}


def test_each_use_has_a_node_and_each_tensor_one_attribute(x):
    w = torch.nn.Parameter(torch.ones(4))
    b = torch.ones(4)
    module = stator.make_fx(lambda a: a * w + b + w + b)(x)
    assert names(module, "get_attr") == [
        "_param_constant0",
        "_tensor_constant0",
        "_param_constant0_1",
        "_tensor_constant0_1",
    ]
    assert torch.equal(module(x), x * w + b + w + b)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_real_tensors_in_fake_modes(x, mode):
    linear = torch.nn.Linear(4, 2)
    with pytest.raises(AssertionError, match=r"aten::t\b.*_allow_non_fake_inputs.*test_constants.py"):
        stator.make_fx(lambda a: linear(a), tracing_mode=mode)(x)
    module = stator.make_fx(lambda a: linear(a), tracing_mode=mode, _allow_non_fake_inputs=True)(x)
    assert names(module, "get_attr") == ["_param_constant0", "_param_constant1"]
    assert torch.equal(module(x), linear(x))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_constructed_tensor_is_fresh_in_each_run(x, mode):
    def program(a):
        t = torch.tensor(1)
        t.add_(2)
        return a * t

    module = stator.make_fx(program, tracing_mode=mode)(x)
    assert calls(module) == ["lift_fresh_copy.default", "add_.Tensor", "mul.Tensor"]
    for _ in range(2):
        assert torch.equal(module(x), x * 3)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_values_of_small_constants_are_followed(x, mode):
    module = stator.make_fx(lambda a: a * ((torch.tensor(2.0) + 1) * 2).item(), tracing_mode=mode)(x)
    assert node(module, "mul_1").args[1] == 6.0
    assert calls(module) == ["lift_fresh_copy.default", "add.Tensor", "mul.Tensor", "mul.Tensor"]

    def written(a):
        t = torch.tensor(1.0)
        t.view(1, 1).add_(5)
        return a * t.item()

    assert torch.equal(stator.make_fx(written, tracing_mode=mode)(x)(x), x * 6)


@pytest.mark.parametrize("write", ["itself", "view", "list"])
def test_a_write_of_traced_data_ends_the_knowledge(x, write):
    def program(a):
        t = torch.tensor(1.0)
        if write == "itself":
            t.add_(a.sum())
        elif write == "view":
            t.view(1, 1).add_(a.sum())
        else:
            torch._foreach_add_([t], [a.sum()])
        return a * t.item()

    with pytest.raises(RuntimeError, match="_local_scalar_dense"):
        stator.make_fx(program)(x)
    module = stator.make_fx(program, tracing_mode="symbolic")(x)
    assert "_local_scalar_dense.default" in calls(module)
    torch.testing.assert_close(module(x), program(x))
    torch.testing.assert_close(module(x + 1), program(x + 1))


@pytest.mark.parametrize("make", [lambda: torch.tensor([1.0, 2.0]).sum(), lambda: torch.full((), 2.0)])
def test_larger_constants_and_factories_are_not_followed(x, make):
    with pytest.raises(RuntimeError, match="_local_scalar_dense"):
        stator.make_fx(lambda a: a * make().item())(x)


def test_a_read_of_traced_data_names_operator_and_line(x):
    with pytest.raises(RuntimeError, match=r"_local_scalar_dense.*symbolic.*test_constants.py:\d+"):
        stator.make_fx(lambda a: a * a.sum().item())(x)
    with pytest.raises(RuntimeError, match="aten::equal"):
        stator.make_fx(lambda a: torch.equal(a, a))(x)


@pytest.mark.parametrize("leave", [lambda a: a.tolist(), lambda a: a.numpy(), lambda a: a.data_ptr()])
@pytest.mark.parametrize("mode", ["real", "fake"])
def test_every_exit_of_data_is_an_error(x, leave, mode):
    if mode == "fake" and "tolist" in leave.__code__.co_names:
        pytest.skip("its items are nodes (test_layouts.py)")
    with pytest.raises(RuntimeError, match="cannot be traced"):
        stator.make_fx(lambda a: a.sin() + len(str(leave(a))), tracing_mode=mode)(x)


def test_an_error_that_the_function_hides(x):
    def program(a):
        try:
            return a * a.sum().item()
        except RuntimeError:
            return a

    with pytest.raises(RuntimeError, match="_local_scalar_dense"):
        stator.make_fx(program)(x)


def test_reads_may_be_allowed(x):
    module = stator.make_fx(lambda a: a * a.sum().item(), _error_on_data_dependent_ops=False)(x)
    assert "_local_scalar_dense.default" in calls(module)
    assert isinstance(node(module, "mul").args[1], float)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_reads_are_nodes_in_fake_modes(x, mode):
    module = stator.make_fx(lambda a: a * a.sum().item(), tracing_mode=mode)(x)
    assert calls(module) == ["sum.default", "_local_scalar_dense.default", "mul.Tensor"]
    assert torch.equal(module(x + 1), (x + 1) * (x + 1).sum().item())


# ---- above autograd


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("write", ["itself", "view", "out", "no grad", "composite"])
def test_writes_to_constants_are_followed_above_autograd(x, write, mode):
    def program(a):
        t = torch.tensor(2.0)
        if write == "itself":
            t.add_(3)
        elif write == "view":
            t.view(1).mul_(4)
        elif write == "out":
            torch.add(t, 5, out=t)
        elif write == "no grad":
            with torch.no_grad():
                t.fill_(7.0)
        else:
            t.square_().reshape(1, 1).clamp_(max=3)
        return a * t.item()

    module = stator.make_fx(program, tracing_mode=mode, pre_dispatch=True)(x)
    assert torch.equal(module(x), program(x))


def test_random_numbers_are_no_constants_above_autograd(x):
    program = lambda a: a * torch.nn.functional.dropout(torch.tensor(1.0)).item()  # noqa: E731
    with pytest.raises(RuntimeError, match="item"):
        stator.make_fx(program, pre_dispatch=True)(x)
    module = stator.make_fx(program, tracing_mode="fake", pre_dispatch=True)(x)
    assert "_local_scalar_dense.default" in calls(module)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_an_item_above_autograd_is_a_node(x, mode):
    module = stator.make_fx(lambda a: a * a.sum().item(), tracing_mode=mode, pre_dispatch=True)(x)
    assert torch.equal(module(x + 1), (x + 1) * (x + 1).sum().item())


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_an_optimizer_above_autograd(x, mode):
    def program(a):
        p = torch.nn.Parameter(a.detach().clone())
        optimizer = torch.optim.Adam([p], lr=0.1)
        for _ in range(2):
            p.grad = a * 2
            optimizer.step()
        return p.detach()

    module = stator.make_fx(program, tracing_mode=mode, pre_dispatch=True)(x)
    torch.testing.assert_close(module(x + 1), program(x + 1))
