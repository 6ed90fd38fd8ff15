"""What only a real tensor can tell, asked by the method of the class or by a method that was bound before a break."""

import pytest
import torch

import stator
from tests.python.helpers import captures

METHODS = ["_use_count", "data_ptr", "_is_view", "is_shared", "is_pinned", "const_data_ptr"]


def tensors():
    base = torch.ones(4)
    return [torch.ones(3), base[1:], torch.zeros(3).share_memory_(), torch.ones(2, 3).t()]


@pytest.mark.parametrize("name", METHODS)
def test_by_the_method_of_the_class(name):
    method = getattr(torch.Tensor, name)

    def fn(x):
        return method(x), x + 1

    check(fn)


@pytest.mark.parametrize("name", METHODS)
def test_by_a_method_that_is_kept_over_a_break(name):
    def fn(x):
        method = getattr(x, name)
        y = x + 1
        stator.graph_break()
        return method(), y

    check(fn)


@pytest.mark.parametrize("name", ["_version", "_base", "output_nr", "retains_grad"])
def test_by_the_field_of_the_class(name):
    field = torch.Tensor.__dict__.get(name) or vars(torch._C.TensorBase)[name]

    def fn(x):
        return field.__get__(x), x + 1

    check(fn)


def check(fn):
    compiled = stator.compile(fn)
    for x in tensors():
        for _ in range(2):
            (expected, total), (found, made) = fn(x), compiled(x)
            assert found is expected or found == expected
            assert torch.equal(total, made)
    assert captures() > 0


def test_attributes_that_hide_methods():
    """Attributes of the instance come before what its class has, unless that is a data descriptor."""

    def fn(x):
        y = x + 1
        y.outer = 3
        y.mean = 4
        return x.inner, x.sum(), y.outer, y.mean, y

    x = torch.ones(2)
    x.inner, x.sum = 5, lambda: 7
    compiled = stator.compile(fn, fullgraph=True)
    for _ in range(2):
        result, expected = compiled(x), fn(x)
        assert result[:4] == expected[:4] == (5, 7, 3, 4)
        assert vars(result[4]) == vars(expected[4])
    assert captures() == 1


@pytest.mark.parametrize("backend", ["reference", "aot_eager"])
@pytest.mark.parametrize("make", [torch.Tensor, torch.nn.Parameter, lambda x: x.as_subclass(Marked)])
def test_methods_that_are_hidden_later(make, backend):
    """A capture of a tensor whose methods are those of its class does not serve one that hides a method."""

    def fn(x):
        return x.sum() + x.view(-1)[0]

    compiled = stator.compile(fn, backend=backend)
    plain, hiding, other = (make(torch.arange(4.0)) for _ in range(3))
    hiding.sum = lambda: 10
    other.note = "an attribute that hides nothing"
    for x in (plain, other, hiding, plain):
        assert torch.equal(compiled(x), fn(x))
    assert captures() == 2


class Marked(torch.Tensor):
    pass
