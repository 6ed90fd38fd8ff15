"""Arguments that are not plain tensors: modules, subclasses, sizes, FakeTensors from outside."""

import pytest
import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import return_and_correct_aliasing

import stator
from tests.python.make_fx.helpers import calls, names, node, placeholders

MODES = ["real", "fake", "symbolic"]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


# ---- modules


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.tied = self.linear.weight

    def forward(self, x):
        return self.norm(self.linear(x)) @ self.tied


def call_module(m, a):
    return m(a)


@pytest.mark.parametrize("mode", MODES)
def test_tensors_are_read_off_the_module(x, mode):
    module = stator.make_fx(call_module, tracing_mode=mode, proxy_module_inputs=True)(Block(), x)
    assert placeholders(module) == ["m_1", "a_1"] and names(module, "get_attr") == []
    mine, wanted = Block(), Block()
    wanted.load_state_dict(mine.state_dict())
    torch.testing.assert_close(module(mine, x + 1), wanted(x + 1))
    for one, other in zip(mine.buffers(), wanted.buffers(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("mode", MODES)
def test_a_tensor_of_the_module_as_an_operand(x, mode):
    linear = torch.nn.Linear(2, 4)
    module = stator.make_fx(lambda m, a: a @ m.weight, tracing_mode=mode, proxy_module_inputs=True)(linear, x)
    assert calls(module) == ["getattr", "mm.default"]
    other = torch.nn.Linear(2, 4)
    torch.testing.assert_close(module(other, x), x @ other.weight)


def test_gradients_of_tensors_of_the_module(x):
    def program(m, a):
        return torch.autograd.grad(m(a).sum(), m.weight)[0]

    module = stator.make_fx(program, tracing_mode="fake", proxy_module_inputs=True)(torch.nn.Linear(4, 2), x)
    other = torch.nn.Linear(4, 2)
    torch.testing.assert_close(module(other, x + 1), program(other, x + 1))


def test_a_module_without_the_option_is_unused(x):
    linear = torch.nn.Linear(4, 2)
    module = stator.make_fx(call_module)(linear, x)
    assert placeholders(module) == ["m_1", "a_1"]
    assert module._param_constant0 is linear.weight
    with pytest.raises(AssertionError, match="_allow_non_fake_inputs"):
        stator.make_fx(call_module, tracing_mode="fake")(linear, x)


# ---- subclasses


class Two(torch.Tensor):
    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Two(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def side(name):
            return pytree.tree_map(lambda t: getattr(t, name) if isinstance(t, Two) else t, (args, kwargs or {}))

        first, second = [func(*a, **k) for a, k in (side("a"), side("b"))]
        out = pytree.tree_map(lambda p, q: Two(p, q) if isinstance(p, torch.Tensor) else p, first, second)
        return return_and_correct_aliasing(func, args, kwargs or {}, out)


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_operators_on_a_subclass_are_nodes(x, mode):
    def program(t, a):
        return (t * 2 + a).sin().view(4, 3)

    module = stator.make_fx(program, tracing_mode=mode)(Two(x, x + 1), x)
    assert calls(module) == ["mul.Tensor", "add.Tensor", "sin.default", "view.default"]
    assert names(module, "get_attr") == []
    found, wanted = module(Two(-x, x), x), program(Two(-x, x), x)
    assert torch.equal(found.a, wanted.a) and torch.equal(found.b, wanted.b)
    assert torch.equal(module(x, x), program(x, x))


@pytest.mark.parametrize("mode", MODES)
def test_writes_to_a_subclass(x, mode):
    def program(t):
        t.add_(1)
        return t * t

    given, wanted = Two(x.clone(), x + 1), Two(x.clone(), x + 1)
    module = stator.make_fx(program, tracing_mode=mode)(Two(x.clone(), x.clone()))
    assert torch.equal(module(given).b, program(wanted).b)
    assert torch.equal(given.a, wanted.a)


@pytest.mark.parametrize("mode", MODES)
def test_a_tensor_inside_of_a_subclass(x, mode):
    """The graph could not read it off the input."""
    with pytest.raises(RuntimeError, match="inside of the input t_1"):
        stator.make_fx(lambda t: t.a * 2, tracing_mode=mode)(Two(x, x + 1))


def test_a_subclass_that_holds_itself(x):
    given = Two(x, x + 1)
    given.itself = given
    assert calls(stator.make_fx(lambda t: t * 2)(given)) == ["mul.Tensor"]


def test_a_read_of_a_subclass(x):
    with pytest.raises(RuntimeError, match="_local_scalar_dense"):
        stator.make_fx(lambda t: t * t.sum().item())(Two(x, x + 1))


def test_a_plain_subclass(x):
    class Plain(torch.Tensor):
        pass

    module = stator.make_fx(lambda t: t.as_subclass(torch.Tensor) * 2)(x.as_subclass(Plain))
    assert torch.equal(module(x + 1), (x + 1) * 2)


# ---- sizes


@pytest.mark.parametrize("mode", MODES)
def test_sizes_as_an_argument(x, mode):
    module = stator.make_fx(lambda a, sz: a.expand(sz), tracing_mode=mode)(x, torch.Size([2, 3, 4]))
    assert placeholders(module) == ["a_1", "sz_1", "sz_2", "sz_3"]
    assert module(x, torch.Size([2, 3, 4])).shape == (2, 3, 4)
    if mode == "symbolic":
        assert module(x, torch.Size([5, 3, 4])).shape == (5, 3, 4)


# ---- FakeTensors from outside


@pytest.mark.parametrize("allowed", [False, True])
def test_a_fake_tensor_from_outside_is_a_constant(x, allowed):
    fake = FakeTensorMode().from_tensor(torch.ones(4))
    module = stator.make_fx(lambda t: t * fake + fake, _allow_fake_constant=allowed)(x)
    assert calls(module) == ["mul.Tensor", "add.Tensor"]
    assert module._tensor_constant0 is fake
    assert node(module, "add").meta["val"].shape == (3, 4)


class Swaps(torch.Tensor):
    """`sin` is `cos`, by `__torch_function__` alone."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.sin:
            func = torch.Tensor.cos
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("mode", MODES)
def test_the_class_and_the_attributes_of_an_input(x, mode):
    given = x.as_subclass(Swaps)
    given.factor = 3
    module = stator.make_fx(lambda t: (t, t.sin() * t.factor), tracing_mode=mode)(given)
    assert calls(module)[0] == "cos.default" and "sin.default" not in calls(module)
    assert module(x)[0] is x and torch.equal(module(x)[1], x.cos() * 3)


# ---- subclasses that the function makes


@pytest.mark.parametrize("mode", MODES)
def test_a_subclass_that_the_function_makes_is_made_again(x, mode):
    module = stator.make_fx(lambda a: {"made": Two(a, a + 1) * 2, "plain": a}, tracing_mode=mode)(x)
    other = torch.randn(3, 4) if mode != "symbolic" else torch.randn(5, 2)
    found = module(other)
    assert type(found["made"]) is Two and torch.equal(found["plain"], other)
    assert torch.equal(found["made"].a, other * 2) and torch.equal(found["made"].b, (other + 1) * 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_subclass_of_subclasses_is_made_again(x, mode):
    module = stator.make_fx(lambda a: Two(Two(a, a + 1), Two(a + 2, a)), tracing_mode=mode)(x)
    found = module(x * 2)
    assert torch.equal(found.a.b, x * 2 + 1) and torch.equal(found.b.a, x * 2 + 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_subclass_that_cannot_be_made_again_is_refused(x, mode):
    class Closed(torch.Tensor):
        @staticmethod
        def __new__(cls, a):
            return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

        def __init__(self, a):
            self.a = a

        __torch_dispatch__ = Two.__torch_dispatch__

    with pytest.raises(RuntimeError, match="__tensor_flatten__"):
        stator.make_fx(lambda a: Closed(a + 1), tracing_mode=mode)(x)


# ---- script objects


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_a_fake_script_object_is_refused(x, mode):
    from torch._library.fake_class_registry import FakeScriptObject

    fake = FakeScriptObject(object(), "a.b.C", None)
    with pytest.raises(AssertionError, match="fake script object already"):
        stator.make_fx(lambda a, s: a * 2, tracing_mode=mode)(x, fake)
