"""A compiled `DistributedDataParallel` module: the module inside of its wrapper is captured."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import stator
from tests.python.helpers import assert_same, captures


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def steps(call, module, inputs):
    """Losses, gradients and parameters of a few training steps."""
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    seen = []
    for x in inputs:
        optimizer.zero_grad()
        loss = call(x).square().sum()
        loss.backward()
        optimizer.step()
        seen.append((loss.detach().clone(), [p.grad.clone() for p in module.parameters()]))
    return seen, [p.detach().clone() for p in module.parameters()]


def test_a_module_of_torch_layers(group):
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    mine = copy.deepcopy(plain)
    inputs = [torch.randn(3, 4) for _ in range(4)]
    wrapped = DistributedDataParallel(mine)
    actual = steps(stator.compile(wrapped), mine, inputs)
    assert_same(actual, steps(DistributedDataParallel(plain), plain, inputs))
    assert captures() >= 1 and stator.counters()["captures"]["ops"] >= 3
    assert DistributedDataParallel._active_ddp_module is None


def test_the_active_module_is_seen(group):
    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.seen = []

        def forward(self, x):
            self.seen.append(DistributedDataParallel._get_active_ddp_module())
            return self.inner(x)

    wrapped = DistributedDataParallel(Asks())
    compiled = stator.compile(wrapped)
    for _ in range(3):
        compiled(torch.ones(1, 2)).sum().backward()
    assert [type(item) for item in wrapped.module.seen] == [DistributedDataParallel] * 3
    assert all(item is wrapped for item in wrapped.module.seen)


class Holder:
    current = None


class Finalized:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


def test_an_instance_is_stored_in_a_class():
    class Thing:
        pass

    def program(a, thing):
        before, Holder.current = Holder.current, thing
        again = Holder.current is thing
        Holder.current = before
        return a + 1, again

    Holder.current = None
    compiled = stator.compile(program, fullgraph=True)
    thing = Thing()
    for _ in range(3):
        assert compiled(torch.ones(2), thing)[1] is True
        assert Holder.current is None
    assert captures() == 1

    def stays(a, thing):
        Holder.current = thing
        return a + 1

    compiled = stator.compile(stays)
    for _ in range(3):
        other = Thing()
        compiled(torch.ones(2), other)
        assert Holder.current is other
    Holder.current = None


def test_what_a_class_held_dies_in_time():
    log = []

    def program(a):
        log.append("before")
        Holder.current = 1
        log.append("after")
        return a + 1

    compiled = stator.compile(program)
    for _ in range(3):
        log.clear()
        Holder.current = Finalized(log)
        compiled(torch.ones(2))
        assert log == ["before", "gone", "after"]
    Holder.current = None


def test_a_sharded_module(group):
    """FSDP2: the layers between the hooks that gather parameters are captured."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def made():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        mesh = init_device_mesh("cpu", (1,))
        for part in (model[0], model[2], model):
            fully_shard(part, mesh=mesh)
        return model

    def trained(call, module):
        seen, parameters = steps(call, module, inputs)
        whole = [[gradient.full_tensor() for gradient in gradients] for _, gradients in seen]
        return [loss for loss, _ in seen], whole, [p.full_tensor() for p in parameters]

    inputs = [torch.randn(3, 4) for _ in range(4)]
    mine, plain = made(), made()
    assert_same(trained(stator.compile(mine), mine), trained(plain, plain))
    assert stator.counters()["captures"]["ops"] >= 3
