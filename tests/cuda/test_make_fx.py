"""`stator.make_fx` on a GPU: the operator database in the three modes, a training step, layers, devices, torch.func."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from tests.python.make_fx import op_database
from tests.python.make_fx.test_op_database import NOT_TRACED

# Kernels that are compiled while they run have no schema.
NAMES = [name for name in sorted(op_database.entries(device="cuda")) if not name.startswith("jiterator")]
MODES = pytest.mark.parametrize("mode", op_database.MODES)
# On this device they read data, or have no shape function; torch's make_fx does not trace them either.
LEFT_ON_CUDA = {"allclose", "corrcoef", "cov", "linalg.lstsq.grad_oriented", "nn.functional.gaussian_nll_loss"}


@MODES
@pytest.mark.parametrize("name", NAMES)
def test_operators(name, mode):
    op = op_database.entries(device="cuda")[name]
    problem, _ = op_database.judge(stator.make_fx, op, mode, 1, device="cuda")
    if name in NOT_TRACED[mode] | LEFT_ON_CUDA:
        assert problem is None or "not traced" in problem
    else:
        assert problem is None


def traced_twice(fn, mode, *calls):
    """Traces `fn` with the first arguments, and compares the graph with `fn` on all of them."""
    module = stator.make_fx(fn, tracing_mode=mode)(*calls[0])
    for args in calls:
        torch.manual_seed(3)
        expected = fn(*args)
        torch.manual_seed(3)
        torch.testing.assert_close(module(*args), expected)
    return module


@MODES
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_training_step(mode, dtype):
    def step(x, w, b):
        q = F.linear(F.layer_norm(x, x.shape[-1:]), w, b).unflatten(-1, (2, -1)).transpose(1, 2)
        y = F.dropout(F.scaled_dot_product_attention(q, q, q), 0.1).float().square().mean()
        return y.detach(), torch.autograd.grad(y, (x, w, b))

    def call(batch):
        sizes = [(batch, 8, 32), (64, 32), (64,)]
        return [torch.randn(size, device="cuda", dtype=dtype).requires_grad_() for size in sizes]

    module = traced_twice(step, mode, call(2), call(2))
    # Attention returns its seed on the CPU.
    values = [node.meta["val"] for node in module.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    assert all(value.is_cuda for value in values if value.is_floating_point())
    if mode == "symbolic":
        traced_twice(step, mode, call(2), call(5))


@MODES
def test_layers_of_cudnn(mode):
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).cuda()
    parameters, buffers = dict(layers.named_parameters()), dict(layers.named_buffers())
    image = torch.randn(2, 3, 8, 8, device="cuda")

    def call(image, parameters, buffers):
        copies = {name: value.clone() for name, value in buffers.items()}
        y = torch.func.functional_call(layers, (parameters, copies), (image,))
        return y, copies, torch.autograd.grad(y.square().sum(), list(parameters.values()))

    traced_twice(call, mode, (image, parameters, buffers), (image * 2, parameters, buffers))


@MODES
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(mode, kind):
    """One node: the weights of cuDNN lie in one block of memory, which torch looks for."""
    layer = kind(5, 6, batch_first=True).cuda()
    words, weights = torch.randn(2, 4, 5, device="cuda"), list(layer.parameters())
    run = {nn.LSTM: torch._VF.lstm, nn.GRU: torch._VF.gru, nn.RNN: torch._VF.rnn_tanh}[kind]

    def call(words, weights):
        state = words.new_zeros(1, words.shape[0], 6)
        return run(words, (state, state) if kind is nn.LSTM else state, weights, True, 1, 0.0, False, False, True)

    with torch.no_grad():
        module = traced_twice(call, mode, (words, weights), (words + 1, weights))
        assert len([node for node in module.graph.nodes if "input" in str(node.target)]) == 1
        if mode == "real":
            traced_twice(lambda words: layer(words)[0], mode, (words,), (words + 1,))
    with pytest.raises(RuntimeError, match="looks at the memory of its arguments"):
        stator.make_fx(call, tracing_mode=mode)(words, weights)


@MODES
def test_devices(mode):
    """What is copied between devices, and made on the current one."""

    def fn(x):
        host = x.cpu() + 1
        with torch.device("cuda"):
            made = torch.arange(4) * 2.0
        return host, host.to("cuda", non_blocking=True) + made, torch.rand(4, device=x.device)

    module = traced_twice(fn, mode, (torch.randn(4, device="cuda"),), (torch.randn(4, device="cuda"),))
    devices = [node.meta["val"].device.type for node in module.graph.nodes if "val" in node.meta]
    assert {"cpu", "cuda"} == set(devices)


@MODES
def test_functions_of_torch_func(mode):
    x, w = torch.randn(3, 4, device="cuda"), torch.randn(4, device="cuda")
    traced_twice(
        torch.func.vmap(torch.func.grad(lambda w, x: (w * x).sin().sum()), (None, 0)), mode, (w, x), (w, x * 2)
    )


def test_decompositions():
    table = torch._decomp.core_aten_decompositions()
    fn = lambda x: F.gelu(F.layer_norm(x, (8,))).softmax(-1)  # noqa: E731
    x = torch.randn(2, 8, device="cuda")
    torch.testing.assert_close(stator.make_fx(fn, decomposition_table=table)(x)(x), fn(x))


def test_an_error_leaves_the_device_usable():
    def fn(x):
        y = x * 2
        raise ValueError(y.device.type)

    for mode in op_database.MODES:
        with pytest.raises(ValueError, match="cuda"):
            stator.make_fx(fn, tracing_mode=mode)(torch.ones(2, device="cuda"))
        traced_twice(lambda x: x + 1, mode, (torch.ones(2, device="cuda"),))
