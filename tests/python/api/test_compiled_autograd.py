"""Backward passes inside compiled calls."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator


@pytest.fixture
def switched_on():
    with stator.config.patch(compiled_autograd=True):
        yield


def operators(gm):
    return {str(node.target) for node in gm.graph.nodes if node.op == "call_function"}


class Step:
    """A training step, its model and its data."""

    def __init__(self):
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 2)
        self.scale = torch.ones(2, requires_grad=True)

    def __call__(self, x):
        loss = (self.layer(x) * self.scale).sin().sum()
        loss.backward()
        return loss.detach()

    def gradients(self):
        taken = [p.grad for p in (*self.layer.parameters(), self.scale)]
        for p in (*self.layer.parameters(), self.scale):
            p.grad = None
        return taken


def test_a_backward_pass_is_sent_to_the_backend(switched_on, K):
    plain, step = Step(), Step()
    compiled = stator.compile(step.__call__, backend=K)
    for size in (4, 4, 4, 5, 4):
        x = torch.randn(size, 3)
        assert torch.equal(compiled(x), plain(x))
        for ours, wanted in zip(step.gradients(), plain.gradients(), strict=True):
            assert torch.equal(ours, wanted)
    assert any("cos" in name for gm in K.graphs for name in operators(gm))


def test_it_is_made_once(switched_on, K):
    compiled = stator.compile(Step().__call__, backend=K)
    x = torch.randn(4, 3)
    compiled(x), compiled(x)
    made = K.count
    compiled(x), compiled(x)
    assert K.count == made


def test_gradients_add_up(switched_on, K):
    plain, step = Step(), Step()
    compiled = stator.compile(step.__call__, backend=K)
    x = torch.randn(4, 3)
    for _ in range(3):
        compiled(x), plain(x)
    for ours, wanted in zip(step.gradients(), plain.gradients(), strict=True):
        assert torch.equal(ours, wanted)


def test_only_while_the_call_lasts(switched_on, K):
    compiled = stator.compile(Step().__call__, backend=K)
    compiled(torch.randn(4, 3))
    made = K.count
    w = torch.ones(3, requires_grad=True)
    (w * 2).exp().sum().backward()
    assert K.count == made
    assert torch.equal(w.grad, 2 * torch.full((3,), 2.0).exp())


def test_also_after_an_error(switched_on, K):
    def bad(x):
        x.sum().backward()
        raise ValueError("no")

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match="no"):
        stator.compile(bad, backend=K)(x)
    made = K.count
    (x * 2).sum().backward()
    assert K.count == made
    assert torch.equal(x.grad, torch.full((3,), 3.0))


def test_each_backend_gets_its_own(switched_on, K, K2):
    x = torch.randn(4, 3)
    for backend in (K, K2, K):
        stator.compile(Step().__call__, backend=backend)(x)
    for backend in (K, K2):
        assert any("cos" in name for gm in backend.graphs for name in operators(gm))


def test_passes_are_counted(switched_on):
    step = Step()
    compiled = stator.compile(step.__call__)
    x = torch.randn(4, 3)
    for _ in range(3):
        compiled(x)
        step.gradients()
    assert stator.counters()["compiled_autograd"]["compiles"] == 1


def test_off_it_is_torchs(K):
    compiled = stator.compile(Step().__call__, backend=K)
    compiled(torch.randn(4, 3))
    assert not any("cos" in name for gm in K.graphs for name in operators(gm))


def test_modules_and_nested_functions(switched_on, K):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x):
            y = inner(self.layer(x))
            y.backward()
            return y.detach()

    inner = stator.compile(lambda x: x.sin().sum(), backend=K)
    net = Net()
    x = torch.randn(2, 3)
    wanted = net(x), net.layer.weight.grad
    net.layer.weight.grad = net.layer.bias.grad = None
    compiled = stator.compile(net, backend=K)
    assert torch.equal(compiled(x), wanted[0])
    assert torch.equal(net.layer.weight.grad, wanted[1])
    assert any("cos" in name for gm in K.graphs for name in operators(gm))


def test_compile_ids_name_the_pass(switched_on):
    ids = []

    def backend(gm, example_inputs):
        return gm.forward

    before = stator._C.set_capture_listener(lambda record: ids.append((record["compile_id"], record["ops"])))
    try:
        stator.compile(Step().__call__, backend=backend)(torch.randn(4, 3))
    finally:
        stator._C.set_capture_listener(before)
    inside = [name for name, ops in ids if name.startswith("!") and ops]
    assert inside and all(len(name.split("/")) == 3 for name in inside)
    assert ids[0][0] == "0/0"


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints(switched_on, K, use_reentrant):
    def step(x):
        y = checkpoint(lambda t: (t.sin() * t).exp(), x * 2, use_reentrant=use_reentrant) + 1
        y.sum().backward()
        return y

    wanted = torch.arange(3.0).requires_grad_()
    step(wanted)
    for compiled in (stator.compile(step), stator.compile(step, backend=K)):
        for _ in range(3):
            x = torch.arange(3.0).requires_grad_()
            compiled(x)
            assert torch.equal(x.grad, wanted.grad)
