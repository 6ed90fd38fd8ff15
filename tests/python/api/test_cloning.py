"""Copies of inputs, and state after a compiled call, which equals that after a plain one: O84 to O88."""

import weakref

import pytest
import torch

import stator
from stator.testing import checkpoint_params, clone_input, clone_inputs
from tests.python.helpers import captures, collect


class TestCloneInput:
    @pytest.mark.parametrize("offset", range(5))
    def test_strides_alignment_gradient_and_marks(self, offset):
        memory = torch.arange(64.0)
        x = memory.as_strided((3, 4), (1, 7), offset).requires_grad_()
        x = x.detach().requires_grad_()
        x.grad = torch.full((3, 4), 2.0)
        x._dynamo_dynamic_indices = {0}
        y = clone_input(x)
        assert y.stride() == (1, 7) and torch.equal(y, x) and y.data_ptr() != x.data_ptr()
        assert y.data_ptr() % 32 == x.data_ptr() % 32
        assert y.requires_grad and y.is_leaf and torch.equal(y.grad, x.grad) and y.grad is not x.grad
        assert y._dynamo_dynamic_indices == {0} and y._dynamo_dynamic_indices is not x._dynamo_dynamic_indices
        y.detach().zero_()
        assert x.sum() != 0

    def test_compiled_code_cannot_tell_the_copy(self, K):
        compiled = stator.compile(lambda x: (x.sin() * 2, x.stride()), backend=K)
        x = torch.empty_strided((3, 4), (1, 7)).normal_().requires_grad_()
        for given in (x, clone_input(x), clone_input(x)):
            result, strides = compiled(given)
            assert torch.equal(result, x.sin() * 2) and strides == (1, 7)
        assert K.count == 1

    def test_shared_memory_becomes_plain(self):
        x = torch.arange(3.0).expand(4, 3)
        assert clone_input(x).is_contiguous() and torch.equal(clone_input(x), x)
        x = torch.arange(6.0).as_strided((3, 3), (1, 1))
        assert clone_input(x).is_contiguous() and torch.equal(clone_input(x), x)

    def test_another_dtype(self):
        x = torch.arange(6.0).view(2, 3).t().requires_grad_()
        y = clone_input(x, dtype=torch.float64)
        assert y.dtype == torch.float64 and y.stride() == x.stride() and torch.equal(y, x.double()) and y.is_leaf
        assert not clone_input(x, dtype=torch.int64).requires_grad

    @pytest.mark.parametrize("size", [(), (0,), (0, 3), (1,), (2, 0, 4)])
    def test_small_sizes(self, size):
        x = torch.ones(size)
        y = clone_input(x)
        assert y.shape == x.shape and y.stride() == x.stride() and torch.equal(x, y)

    def test_sparse_and_quantised(self):
        dense = torch.eye(4) * 3
        coo = dense.to_sparse().requires_grad_()
        copied = clone_input(coo)
        assert copied.layout is torch.sparse_coo and copied.is_coalesced() and copied.requires_grad and copied.is_leaf
        assert torch.equal(copied.to_dense(), dense)
        for make in ("to_sparse_csr", "to_sparse_csc"):
            x = getattr(dense, make)()
            y = clone_input(x)
            assert y.layout == x.layout and torch.equal(y.to_dense(), dense)
        blocks = dense.to_sparse_bsr((2, 2))
        assert clone_input(blocks).layout is torch.sparse_bsr and torch.equal(clone_input(blocks).to_dense(), dense)
        quantised = torch.quantize_per_tensor(dense, 0.1, 3, torch.quint8)
        copied = clone_input(quantised)
        assert copied.is_quantized and copied.q_scale() == quantised.q_scale() and copied.q_zero_point() == 3
        assert torch.equal(copied.int_repr(), quantised.int_repr())

    def test_parameters_and_subclasses(self):
        parameter = torch.nn.Parameter(torch.ones(3))
        y = clone_input(parameter)
        assert y.requires_grad and y.is_leaf and torch.equal(y, parameter)

        class Tagged(torch.Tensor):
            pass

        x = torch.ones(3).as_subclass(Tagged)
        assert type(clone_input(x)) is Tagged

    def test_without_data(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode() as mode:
            fake = mode.from_tensor(torch.ones(3))
        assert clone_input(fake) is fake
        with pytest.raises(TypeError, match="int"):
            clone_input(3)


def test_collections():
    t = torch.ones(2)
    copied = clone_inputs((t, 3))
    assert type(copied) is list and copied[0] is not t and torch.equal(copied[0], t) and copied[1] == 3
    copied = clone_inputs({"a": t, "b": (t, t)})
    assert type(copied) is dict and copied["a"] is not t and type(copied["b"]) is list and len(copied["b"]) == 2
    assert copied["b"][0] is not copied["b"][1]
    for bad in ({"a": 3}, {"a": (t, 3)}):
        with pytest.raises(AssertionError, match="int"):
            clone_inputs(bad)


def test_random_numbers_of_a_first_call_are_the_plain_programs():
    def f(x):
        return x + torch.rand(3), torch.nn.functional.dropout(x, 0.5)

    x = torch.ones(3)

    def sequence(fn):
        torch.manual_seed(4)
        before = torch.rand(2)
        made = [fn(x) for _ in range(3)]
        return before, made, torch.rand(2)

    def drawing(gm, example_inputs):
        torch.rand(7)
        gm(*example_inputs)
        return gm.forward

    expected = sequence(f)
    for backend in (None, drawing):
        actual = sequence(stator.compile(f, backend=backend))
        assert torch.equal(actual[0], expected[0]) and torch.equal(actual[2], expected[2])
        for mine, plain in zip(actual[1], expected[1], strict=True):
            assert torch.equal(mine[0], plain[0]) and torch.equal(mine[1], plain[1])
    assert captures() == 2


def test_parameters_are_restored():
    module = torch.nn.BatchNorm1d(3)
    compiled = stator.compile(module)
    torch.manual_seed(0)
    restore = checkpoint_params(module)
    drawn = torch.rand(2)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(2):
        compiled(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
    assert not torch.equal(module.running_mean, before["running_mean"])
    assert not torch.equal(module.weight, before["weight"])
    restore()
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert torch.equal(torch.rand(2), drawn)
    assert captures() >= 1
    module = torch.nn.Linear(3, 3)
    restore = checkpoint_params(module)
    with torch.no_grad():
        module.weight.add_(1)
    bias = module.bias._version
    restore()
    assert module.bias._version == bias, "nobody wrote to it"


def test_under_a_function_transform_the_program_runs_plain():
    def f(x):
        return x.sin() * 2

    compiled = stator.compile(f)
    x = torch.randn(4, 3)
    assert torch.equal(torch.vmap(compiled)(x), torch.vmap(f)(x))
    assert any("functorch" in reason for reason in stator.counters["skips"]), stator.counters()
    assert torch.equal(compiled(x), f(x)) and captures() == 1


def test_inference_mode_at_run_time():
    compiled = stator.compile(lambda x: (x + 1).relu())
    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        assert not compiled(x).is_inference() and compiled(x).requires_grad
        with torch.inference_mode():
            made = compiled(x)
            assert made.is_inference() and not made.requires_grad
            inside = torch.ones(3)
            assert compiled(inside).is_inference()
        assert not compiled(inside).is_inference(), "an inference tensor as input does not make the result one"
    assert captures() >= 2


def test_saved_tensor_hooks_run_as_in_eager():
    def f(x, w):
        return (x * w).sin() @ w

    def traced(fn):
        packed, unpacked = [], []

        def pack(t):
            packed.append(t.detach().clone())
            return t

        def unpack(t):
            unpacked.append(t.detach().clone())
            return t

        x, w = torch.arange(9.0).view(3, 3).requires_grad_(), torch.eye(3).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            result = fn(x, w)
        result.sum().backward()
        return result, x.grad, w.grad, packed, unpacked

    expected = traced(f)
    compiled = stator.compile(f)
    for _ in range(2):
        actual = traced(compiled)
        for mine, plain in zip(actual[:3], expected[:3], strict=True):
            assert torch.equal(mine, plain)
        for mine, plain in zip(actual[3:], expected[3:], strict=True):
            assert len(mine) == len(plain) and all(torch.equal(a, b) for a, b in zip(mine, plain, strict=True))
    # It is captured without hooks, and with hooks that the program itself installs.
    compiled(torch.ones(3, 3), torch.eye(3))
    assert captures() == 1


def test_tensors_die_though_their_graph_lives(K):
    compiled = stator.compile(lambda x: x * 2 + 1, backend=K)
    x = torch.ones(3)
    x._dynamo_static_input_type = "guarded"
    x.companion = torch.ones(1)
    dead, companion = weakref.ref(x), weakref.ref(x.companion)
    compiled(x)
    compiled(x)
    del x
    collect()
    assert dead() is None and companion() is None
    assert torch.equal(compiled(torch.zeros(3)), torch.ones(3)) and K.count == 1


def test_marks_reach_the_backend():
    seen = []

    def looking(gm, example_inputs):
        seen.append([getattr(x, "_dynamo_static_input_type", None) for x in example_inputs])
        return gm.forward

    x = torch.ones(3)
    x._dynamo_static_input_type = "guarded"
    compiled = stator.compile(lambda x, y: x + y, backend=looking)
    for _ in range(2):
        assert torch.equal(compiled(x, torch.ones(3)), torch.full((3,), 2.0))
    assert seen == [["guarded", None]]
