"""One trace, two lists of operators: above and below autograd."""

import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import stator
from stator import _C, fx


def trace(fn, *inputs):
    tracer = _C.Tracer("traced", aten=True)
    fakes = [tracer.input(tensor, f"x{i}") for i, tensor in enumerate(inputs)]
    outputs = tracer.call(fn, *fakes)
    return tracer.finish(outputs if isinstance(outputs, (list, tuple)) else [outputs])


def ops(graph):
    return [name.removeprefix("aten::") for name, *_ in graph.nodes()]


def check(fn, *inputs, grad=True):
    """Both lists compute eager's values, including changed inputs; the native executor, the text form and fx agree."""

    def copies():
        return [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in inputs]

    with torch.set_grad_enabled(grad):
        graph = trace(fn, *inputs)
    aten = graph.aten
    again = _C.Graph.parse(*aten.parts())
    assert again.text() == aten.text()
    runners = [graph, aten, again, fx.to_graph_module(aten), pickle.loads(pickle.dumps(fx.to_graph_module(aten)))]
    with torch.no_grad():
        given = copies()
        torch.manual_seed(3)
        wanted = fn(*given)
        wanted = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
        for run in runners:
            mine = copies()
            torch.manual_seed(3)
            for got, want in zip(run(*mine), wanted, strict=True):
                assert got.dtype == want.dtype and got.stride() == want.stride() and torch.equal(got, want)
            for mine_after, given_after in zip(mine, given, strict=True):
                assert torch.equal(mine_after, given_after)
    return graph


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
    return model, list(model.parameters())


def test_composites_above_their_parts_below():
    model, parameters = network()
    names = [name for name, _ in model.named_parameters()]

    def forward(x, *values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (x,)).sum()

    graph = check(forward, torch.randn(2, 8), *parameters)
    assert ops(graph) == ["linear", "layer_norm", "gelu", "linear", "sum"]
    assert ops(graph.aten) == ["t", "addmm", "native_layer_norm", "gelu", "t", "addmm", "sum"]


def test_every_value_has_metadata_and_every_node_its_line():
    tracer = _C.Tracer("traced", aten=True)
    x = tracer.input(torch.randn(2, 3, requires_grad=True), "x")
    w = tracer.input(torch.randn(4, 3), "w")
    tracer.location("program.py", "f", 7)
    y = tracer.call(F.linear, x, w)
    tracer.location("program.py", "f", 8)
    aten = tracer.finish([tracer.call(torch.relu, y)]).aten
    assert ops(aten) == ["t", "mm", "relu"]
    assert [aten.locations()[node[6]][2] for node in aten.nodes()] == [7, 7, 8]
    assert [aten.meta(value)[1] for value in range(5)] == [(2, 3), (4, 3), (3, 4), (2, 4), (2, 4)]
    assert aten.meta(2)[2] == (1, 3), "a transposed view"
    text = aten.text()
    assert "%t: float32[3, 4]" in text and 'location 1 "program.py":7' in text
    assert aten.states() == [(False, False, [], True, 0)]


def test_not_recorded_unless_requested():
    tracer = _C.Tracer("traced")
    x = tracer.input(torch.ones(2), "x")
    assert tracer.finish([tracer.call(torch.relu, x)]).aten is None


def in_place_on_views(x):
    y = x * 1
    y[:, 0].add_(3)
    y.t().mul_(2)
    return y, y.view(-1)[2:].sum()


def chunks(x):
    a, b = (x * 2).chunk(2)
    return a + b, torch.stack([a, b]).unbind(0)[1]


def detached(x):
    y = x.detach()
    return y * x, y.expand_as(x), x.view_as(x)


def inner_states(x):
    with torch.no_grad():
        y = x.sigmoid()
    return y * x


def casts(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.mm(x, x.t()), (x + 1).relu()


def random(x):
    return F.dropout(x, 0.5) + x.clone().uniform_(), torch.bernoulli(x.sigmoid())


def attention(x):
    q = x.view(1, 2, 4, 4)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def indexing(x):
    index = x[0].argsort()[:3] % 3
    return x[index], x[:, index].index_add(1, index, x[:, :3]), x.masked_fill(x > 0, 1.0)


def writes_inputs(x, y):
    x.add_(y)
    y.copy_(x)
    return x.t(), y


def fused(x):
    return torch._foreach_add([x, x * 2], 1.0)


def complex_numbers(x):
    z = torch.view_as_complex(x.view(4, 4, 2)).conj()
    return (z * 2).imag, torch.mm(z, z.mH), z.resolve_conj()


PROGRAMS = [in_place_on_views, chunks, detached, inner_states, casts, random, attention, indexing, fused]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program, requires_grad):
    torch.manual_seed(1)
    check(program, torch.randn(4, 8, requires_grad=requires_grad))


def test_inputs_are_written_as_eager_does():
    check(writes_inputs, torch.randn(4, 4), torch.randn(4, 4))


def test_complex_numbers_and_lazy_conjugates():
    check(complex_numbers, torch.randn(4, 8))


def test_no_composite_is_left_below():
    def program(x):
        return F.conv2d(x, x[:, :, :3, :3]).flatten(1).softmax(-1), torch.einsum("nchw->nhw", x).reshape(2, -1)

    graph = check(program, torch.randn(2, 2, 6, 6))
    for name, overload, *_ in graph.aten.nodes():
        key = f"{name}.{overload}" if overload else name
        assert not torch._C._dispatch_has_kernel_for_dispatch_key(key, "CompositeImplicitAutograd"), key


def test_inference_mode_shows_the_parts_too():
    def program(x, w):
        return F.linear(x, w).relu()

    x, w = torch.randn(2, 3), torch.randn(4, 3)
    with torch.inference_mode():
        graph = trace(program, x, w)
    assert ops(graph) == ["linear", "relu"]
    assert ops(graph.aten)[-2:] == ["mm", "relu"] and "linear" not in ops(graph.aten)
    assert torch.equal(graph.aten(x, w)[0], program(x, w))


def test_an_operator_that_raises_leaves_both_lists_as_they_were():
    tracer = _C.Tracer("traced", aten=True)
    x, y = tracer.input(torch.randn(2, 3), "x"), tracer.input(torch.randn(5, 7), "y")
    z = tracer.call(torch.relu, x)
    with pytest.raises(RuntimeError):
        tracer.call(F.linear, x, y)
    graph = tracer.finish([tracer.call(torch.add, z, x)])
    assert ops(graph) == ["relu", "add"] and ops(graph.aten) == ["relu", "add"]


def test_a_backend_gets_the_list():
    seen = []

    def backend(gm, example_inputs):
        seen.append(fx.aten_graph(gm))
        assert gm.graph is not None
        assert fx.aten_graph(gm).text() == seen[0].text(), "also once the module is a real one"
        return seen[0]

    model, _ = network()
    x = torch.randn(3, 8)
    with stator.config.patch(aten_graphs=True), torch.no_grad():
        assert torch.equal(stator.compile(model, backend=backend, fullgraph=True)(x), model(x))
    assert ops(seen[0]) == ["t", "addmm", "native_layer_norm", "gelu", "t", "addmm"]


def test_factories_and_constants_of_a_compiled_program():
    def program(x):
        y = torch.zeros(3) + torch.tensor([1.0, 2.0, 3.0])
        noise = torch.rand_like(x)
        return x[torch.tensor([1, 0])] * y, noise, torch.arange(3).to(x.dtype), x.new_full((2,), 7.0)

    stator.reset()
    x = torch.randn(4, 3)
    with stator.config.patch(aten_graphs=True):
        compiled = stator.compile(program, backend=lambda gm, _: fx.aten_graph(gm), fullgraph=True)
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            wanted = program(x)
            torch.manual_seed(seed)
            for got, want in zip(compiled(x), wanted, strict=True):
                assert got.dtype == want.dtype and got.stride() == want.stride() and torch.equal(got, want)


def test_aten_graph_without_a_record_raises():
    def backend(gm, example_inputs):
        with pytest.raises(ValueError, match="aten_graphs"):
            fx.aten_graph(gm)
        return gm.forward

    stator.reset()
    stator.compile(lambda x: x + 1, backend=backend, fullgraph=True)(torch.ones(2))
