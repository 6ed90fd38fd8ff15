"""What programs do on a GPU beside operators: attention kernels, layers of cuDNN, optimizers, mixed precision, streams,
copies, devices, random numbers. Each program is equal to eager in several calls, and in one graph unless it says so."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import stator
from tests.python.helpers import assert_same, captures


def randn(*sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*sizes, generator=generator).to("cuda", dtype)


def check(fn, *calls, graphs=1, fullgraph=True, **settings):
    """Calls `fn` compiled and plain with the same arguments and seeds."""
    compiled = stator.compile(fn, fullgraph=fullgraph, **settings)
    for seed, args in enumerate(calls):
        mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
        torch.manual_seed(seed)
        expected = fn(*theirs)
        state = torch.cuda.get_rng_state()
        torch.manual_seed(seed)
        assert_same(compiled(*mine), expected)
        assert_same(mine, theirs, "arguments")
        assert torch.equal(torch.cuda.get_rng_state(), state)
    assert captures() == graphs
    return compiled


def gradients(fn, *calls, **settings):
    """Compares results and gradients of the arguments that require them."""

    def with_gradients(*args):
        leaves = [arg.detach().requires_grad_() if arg.is_floating_point() else arg for arg in args]
        result = fn(*leaves)
        inputs = [leaf for leaf in leaves if leaf.requires_grad]
        return result.detach(), torch.autograd.grad(result.float().square().sum(), inputs)

    return check(with_gradients, *calls, **settings)


# ---- attention

SHAPES = [(2, 4, 16, 16, 32), (1, 2, 7, 30, 64), (2, 3, 33, 33, 24), (1, 2, 130, 130, 128), (2, 2, 5, 9, 17)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(shape, dtype, causal):
    batch, heads, length, keys, width = shape

    def fn(q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)

    def call(seed):
        return tuple(
            randn(batch, n, heads, width, dtype=dtype, seed=seed + i) for i, n in enumerate((length, keys, keys))
        )

    with torch.no_grad():
        check(fn, call(0), call(5))
    stator.reset()
    compiled = stator.compile(fn, fullgraph=True)
    results = []
    for run in (compiled, fn):
        leaves = [x.requires_grad_() for x in call(1)]
        out = run(*leaves)
        out.float().square().sum().backward()
        results.append((out.detach(), [leaf.grad for leaf in leaves]))
    assert_same(results[0][0], results[1][0])
    for mine, theirs in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(mine, theirs)  # kernels add the gradients of keys in any order


@pytest.mark.parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
@pytest.mark.parametrize("mask", [False, True])
def test_a_chosen_kernel(backend, mask):
    if mask and backend is SDPBackend.FLASH_ATTENTION:
        pytest.skip("the kernel takes no mask")

    def fn(q, k, v, bias):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias if mask else None)

    q, k, v = (randn(2, 2, 16, 32, dtype=torch.bfloat16, seed=i) for i in range(3))
    check(fn, (q, k, v, randn(16, 16, dtype=torch.bfloat16)))


def test_dropout_in_attention():
    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    check(fn, *[tuple(randn(2, 2, 16, 32, dtype=torch.bfloat16, seed=3 * n + i) for i in range(3)) for n in range(3)])


# ---- layers


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(8, 16, **options)

    def forward(self, x):
        return self.layer(x)[0]


LAYERS = {
    "LSTM": lambda: Recurrent(nn.LSTM),
    "LSTM, two layers and ways": lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True, batch_first=True),
    "LSTM, projected": lambda: Recurrent(nn.LSTM, proj_size=4),
    "GRU": lambda: Recurrent(nn.GRU, num_layers=2, dropout=0.3),
    "RNN": lambda: Recurrent(nn.RNN, nonlinearity="relu"),
    "encoder layer": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
    "rms norm": lambda: nn.RMSNorm(8),
    "layer norm": lambda: nn.LayerNorm(8),
    "group norm": lambda: nn.Sequential(nn.Unflatten(-1, (2, 4)), nn.Flatten(0, 1), nn.GroupNorm(2, 2)),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)),
}


def run_layer(layer, training, dtype):
    layer = layer.to("cuda", dtype).train(training)
    twin = copy.deepcopy(layer)
    compiled = stator.compile(layer, fullgraph=True)
    for seed in range(3):
        outputs = []
        for run, owner in ((compiled, layer), (twin, twin)):
            owner.zero_grad()
            torch.manual_seed(seed)
            with torch.set_grad_enabled(training):
                result = run(randn(5, 3, 8, dtype=dtype, seed=seed))
            if training:
                result.float().square().sum().backward()
            outputs.append((result.detach(), [p.grad for p in owner.parameters()]))
        assert_same(outputs[0], outputs[1])
    assert captures() == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, training, dtype):
    run_layer(LAYERS[name](), training, dtype)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["", "channels last"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions_and_norms(dims, last, dtype, training):
    if last and dims == 1:
        pytest.skip("1-d images have one format")
    convolution = getattr(nn, f"Conv{dims}d")
    net = nn.Sequential(
        convolution(4, 8, 3, padding=1),
        getattr(nn, f"BatchNorm{dims}d")(8),
        nn.ReLU(),
        convolution(8, 8, 3, groups=8),
        getattr(nn, f"MaxPool{dims}d")(2),
        getattr(nn, f"ConvTranspose{dims}d")(8, 4, 2, stride=2),
    )
    net = net.to("cuda", dtype).train(training)
    if last:
        form = torch.channels_last if dims == 2 else torch.channels_last_3d
        net = net.to(memory_format=form)
    twin = copy.deepcopy(net)
    compiled = stator.compile(net, fullgraph=True)
    for seed in range(2):
        x = randn(2, 4, *[8] * dims, dtype=dtype, seed=seed)
        x = x.to(memory_format=form) if last else x
        with torch.set_grad_enabled(training):
            assert_same(compiled(x), twin(x))
    for mine, theirs in zip(net.buffers(), twin.buffers(), strict=True):
        assert_same(mine, theirs)
    assert captures() == 1


# ---- training

OPTIMIZERS = {
    "SGD": lambda ps: torch.optim.SGD(ps, 0.1, momentum=0.9),
    "SGD, fused": lambda ps: torch.optim.SGD(ps, 0.1, momentum=0.9, fused=True),
    "Adam, foreach": lambda ps: torch.optim.Adam(ps, 0.01, foreach=True),
    "Adam, fused": lambda ps: torch.optim.Adam(ps, 0.01, fused=True),
    "AdamW, capturable": lambda ps: torch.optim.AdamW(ps, 0.01, capturable=True),
    "AdamW, one by one": lambda ps: torch.optim.AdamW(ps, 0.01, foreach=False),
    "RMSprop": lambda ps: torch.optim.RMSprop(ps, 0.01),
    "NAdam": lambda ps: torch.optim.NAdam(ps, 0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_steps(name):
    nets, ends = [], []
    for compiled in (True, False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).cuda()
        optimizer = OPTIMIZERS[name](net.parameters())
        step = stator.compile(optimizer.step) if compiled else optimizer.step
        for seed in range(6):
            optimizer.zero_grad()
            net(randn(3, 8, seed=seed)).square().sum().backward()
            step()
        nets.append(net)
        ends.append(list(net.parameters()))
    assert_same(ends[0], ends[1])
    assert captures() > 0 and not stator.counters()["breaks"].get("no_shape_function"), stator.counters()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_mixed_precision_with_a_scaler(dtype):
    ends = []
    for compiled in (True, False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).cuda()
        optimizer, scaler = torch.optim.AdamW(net.parameters(), 0.01), torch.amp.GradScaler("cuda", init_scale=1024.0)
        forward = stator.compile(net, fullgraph=True) if compiled else net
        for seed in range(4):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype):
                loss = forward(randn(3, 8, seed=seed)).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        ends.append((list(net.parameters()), scaler.get_scale()))
    assert_same(ends[0], ends[1])
    assert captures() == 1


def test_autocast_inside():
    def fn(x, w):
        with torch.autocast("cuda", torch.bfloat16):
            y = x @ w
            z = F.softmax(y, -1)
        return y, z, x @ w

    check(fn, (randn(4, 8), randn(8, 8)), (randn(4, 8, seed=1), randn(8, 8, seed=2)))


# ---- devices, copies, streams


def test_devices_are_guarded_by_index():
    def fn(x):
        return x + 1, x.device, torch.zeros(2, device=x.device), x.device.index, x.is_cuda, x.get_device()

    compiled = stator.compile(fn, fullgraph=True)
    for x in (randn(3), torch.ones(3), randn(3, seed=1), torch.zeros(3)):
        assert_same(compiled(x), fn(x))
    assert captures() == 2


def test_a_device_as_context():
    def fn(x):
        with torch.device("cuda"):
            y = torch.arange(4)
        with torch.cuda.device(0):
            z = torch.ones(4, device="cuda")
        return x[:4] + y + z, torch.cuda.current_device()

    check(fn, (randn(8),), (randn(8, seed=1),))


def test_copies_between_devices():
    def fn(x, host):
        y = host.to("cuda", non_blocking=True)
        return (x + y).cpu(), y.to(torch.bfloat16), x.to("cpu", torch.float64), host.cuda()

    check(fn, (randn(4), torch.ones(4)), (randn(4, seed=1), torch.arange(4.0)))


def test_pinned_memory():
    compiled = stator.compile(lambda host: host.to("cuda", non_blocking=True) * 2)
    host = torch.arange(6.0).pin_memory()
    assert_same(compiled(host), host.cuda() * 2)
    assert_same(compiled(host), host.cuda() * 2)
    pins = stator.compile(lambda host: host.pin_memory())
    assert pins(torch.ones(3)).is_pinned()


def test_streams_and_events():
    def fn(x):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x * 2
        event = torch.cuda.Event()
        event.record(stream)
        event.wait()
        torch.cuda.current_stream().wait_stream(stream)
        return y + 1

    compiled = stator.compile(fn)
    for seed in range(3):
        x = randn(1000, seed=seed)
        assert_same(compiled(x), fn(x))
        torch.cuda.synchronize()
    assert captures() > 0


def test_a_call_on_another_stream():
    compiled = stator.compile(lambda x: x * 2 + 1, fullgraph=True)
    x = randn(1 << 16)
    expected = x * 2 + 1
    assert_same(compiled(x), expected)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = compiled(x)
    stream.synchronize()
    assert_same(y, expected)


# ---- random numbers


def test_random_numbers_are_those_of_eager():
    def fn(x):
        return (
            torch.rand(3, device="cuda"),
            torch.randn_like(x),
            F.dropout(x, 0.5),
            torch.randint(0, 9, (4,), device="cuda"),
            torch.randperm(5, device="cuda"),
            torch.bernoulli(x.sigmoid()),
            x.clone().normal_(),
        )

    check(fn, (randn(8),), (randn(8, seed=1),), (randn(8, seed=2),))


def test_values_from_the_device():
    def fn(x):
        n = int((x > 0).sum())
        return x[:n] * 2, x[x > 0], torch.nonzero(x), x.max().item()

    check(fn, (randn(8),), (randn(8, seed=1),), fullgraph=False, graphs=1)


# ---- backends


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_backends_of_torch(backend):
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).cuda()
    twin = copy.deepcopy(net)
    compiled = stator.compile(net, backend=backend)
    for seed in range(2):
        for run in (compiled, twin):
            run(randn(3, 8, seed=seed)).square().sum().backward()
    for mine, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
