"""Architectures of the transformers library: a training step is one graph, whose gradients are those of eager."""

import pytest
import torch

import stator
from benchmarks import architectures

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("row", architectures.ARCHITECTURES, ids=lambda row: row.name)
def test_a_training_step(row):
    case = row.case()
    model, inputs = case.build().train(), case.inputs(0)
    names = [name for name, _ in model.named_parameters()]

    def step(parameters, given):
        result = torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (), given)
        loss = case.loss(result)
        wanted = [p for p in parameters if p.requires_grad]
        return [loss, *torch.autograd.grad(loss, wanted, allow_unused=True)]

    parameters = [p.detach().clone().requires_grad_(p.requires_grad) for p in model.parameters()]
    torch.manual_seed(1)
    wanted = step(parameters, inputs)
    torch.manual_seed(1)
    # The library's masks ask whether a mask is needed.
    module = stator.make_fx(step, _error_on_data_dependent_ops=False)(parameters, inputs)
    torch.manual_seed(1)
    with torch.no_grad():
        found = module(parameters, inputs)
    assert len(found) == len(wanted) and any(gradient is not None for gradient in wanted[1:])
    for value, expected in zip(found, wanted, strict=True):
        assert (value is None) == (expected is None)
        if value is not None:
            torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-5)
