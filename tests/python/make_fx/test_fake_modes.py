"""Modes of torch's FakeTensors that a traced function enters, and values of nodes that it reads."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx as torch_make_fx

import stator
from tests.python.make_fx.helpers import calls, names

MODES = ["real", "fake", "symbolic"]


def made_inside(x):
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = torch.ones(3, 4).sin()
    return x + made.shape[0]


def operators_inside(x):
    with FakeTensorMode(allow_non_fake_inputs=True):
        return x * 2


def asks_for_sizes(x):
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        sizes = (fake @ fake.t()).shape
    return x.new_zeros(sizes) + x.sum()


def left_by_an_error(x):
    try:
        with FakeTensorMode():
            raise KeyError
    except KeyError:
        return x + 1


WANTED = {
    made_inside: lambda x: x + 3,
    operators_inside: lambda x: x * 2,
    asks_for_sizes: lambda x: x.new_zeros(x.shape[0], x.shape[0]) + x.sum(),
    left_by_an_error: lambda x: x + 1,
}


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", WANTED)
def test_a_mode_inside_of_the_function(program, mode, above):
    module = stator.make_fx(program, tracing_mode=mode, pre_dispatch=above)(torch.ones(3, 4))
    assert names(module, "get_attr") == []
    for x in (torch.rand(3, 4), torch.rand(5, 2) if mode == "symbolic" else torch.rand(3, 4)):
        torch.testing.assert_close(module(x), WANTED[program](x))
    with FakeTensorMode():
        assert type(torch.ones(2)) is FakeTensor


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_values_of_an_inner_trace(mode, above):
    """They are FakeTensors of torch, and the outer trace does not see how they are made."""

    def program(x):
        inner = stator.make_fx(lambda y: y.sin() + 1, tracing_mode="fake")(x)
        values = [node.meta["val"] for node in inner.graph.nodes if "val" in node.meta]
        assert len(values) == 3 and all(type(value) is FakeTensor for value in values)
        return inner(x)

    module = stator.make_fx(program, tracing_mode=mode, pre_dispatch=above)(torch.ones(3, 4))
    assert calls(module) == ["sin.default", "add.Tensor"]


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("mode", MODES)
def test_a_trace_by_torch_inside_of_the_function(mode, inner):
    """Its operators are nodes that nothing uses."""

    def program(x):
        return torch_make_fx(lambda y: y.sin() + 1, tracing_mode=inner)(x)(x)

    module = stator.make_fx(program, tracing_mode=mode)(torch.ones(3, 4))
    assert names(module, "get_attr") == []
    for x in (torch.rand(3, 4), torch.rand(5, 2) if mode == "symbolic" and inner == "symbolic" else torch.rand(3, 4)):
        torch.testing.assert_close(module(x), x.sin() + 1)
