"""Tensors that have no fake: sparse, mkldnn, quantized ones; tensors on the meta device; strides and offsets."""

import pytest
import torch
import torch.nn.functional as F

import stator
from tests.python.make_fx.helpers import calls

MODES = ["real", "fake", "symbolic"]
INDICES = torch.tensor([[0, 1], [1, 2]])


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


def quantized(a):
    return torch.quantize_per_tensor(a, 0.1, 0, torch.qint8)


PROGRAMS = {
    "sparse operator": lambda a: (a.to_sparse() * 2).sin().to_dense(),
    "sparse sum": lambda a: (a.to_sparse().t().coalesce() + a.to_sparse().t()).to_dense(),
    "sparse product": lambda a: torch.sparse.mm(a.to_sparse(), a.t()),
    "sparse reduction": lambda a: torch.sparse.sum(a.to_sparse(), 0).to_dense(),
    "rows": lambda a: a.to_sparse_csr() @ a.t(),
    "layout": lambda a: a + (1 if a.to_sparse().sin().layout is torch.sparse_coo else 0),
    "mkldnn": lambda a: a.to_mkldnn().relu().to_dense(),
    "quantized view": lambda a: quantized(a).view(-1).dequantize(),
    "quantized operator": lambda a: quantized(a).relu().dequantize() * quantized(a).q_scale(),
    "constructor": lambda a: torch.sparse_coo_tensor(INDICES, a[0, :2], (3, 4)).to_dense(),
    "given elements": lambda a: torch.sparse_coo_tensor(INDICES, a[0, :2], (3, 4))._values() * 2,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts_that_fakes_do_not_have(x, name, mode):
    program = PROGRAMS[name]
    module = stator.make_fx(program, tracing_mode=mode, _allow_non_fake_inputs=True)(x)
    for given in (x, x + 1):
        torch.testing.assert_close(module(given), program(given))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize(
    "read",
    [
        lambda a: a.new_zeros(a.to_sparse()._nnz()),
        lambda a: a.to_sparse().values() * 2,
        lambda a: (a.to_sparse() * 2)._indices() + 1,
        lambda a: a.to_sparse_csr().crow_indices() + 1,
        lambda a: a * torch.quantize_per_tensor_dynamic(a, torch.qint8, False).q_scale(),
    ],
)
def test_what_depends_on_the_elements_is_refused(x, read, mode):
    with pytest.raises(RuntimeError, match=r"depends on data.*test_layouts.py"):
        stator.make_fx(read, tracing_mode=mode)(x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_are_sparse(mode):
    def program(w, i):
        return torch.autograd.grad(F.embedding(i, w, sparse=True).sum(), w)[0].to_dense()

    w, i = torch.randn(5, 3, requires_grad=True), torch.tensor([1, 2, 2])
    module = stator.make_fx(program, tracing_mode=mode)(w, i)
    assert torch.equal(module(w, i + 1), program(w, i + 1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to_sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
def test_sparse_inputs(x, to_sparse, mode):
    def program(a):
        return (a * 2).to_dense() + 1

    module = stator.make_fx(program, tracing_mode=mode)(to_sparse(x))
    assert torch.equal(module(to_sparse(x.relu())), program(x.relu()))


@pytest.mark.parametrize("mode", MODES)
def test_inputs_on_the_meta_device(x, mode):
    module = stator.make_fx(lambda a: (a * 2).sum(0), tracing_mode=mode)(x.to("meta"))
    assert torch.equal(module(x), (x * 2).sum(0))
    assert all(node.meta["val"].device == torch.device("meta") for node in module.graph.nodes if node.op != "output")


# ---- strides and offsets


def test_strides_and_offsets_are_nodes():
    def program(a):
        return a * 1, a.stride(0), a.storage_offset()

    module = stator.make_fx(program, tracing_mode="symbolic")(torch.randn(6, 8)[:, 2:])
    assert {"sym_stride.int", "sym_storage_offset.default"} <= set(calls(module))
    other = torch.randn(6, 9)[:, 3:]
    assert module(other)[1:] == (9, 3) and torch.equal(module(other)[0], other)


def test_a_view_by_strides_of_an_input():
    def program(a):
        return a.as_strided((2, 2), (a.stride(0), 1), a.storage_offset())

    module = stator.make_fx(program, tracing_mode="symbolic")(torch.arange(48.0).view(6, 8)[:, 2:])
    other = torch.arange(54.0).view(6, 9)[:, 3:]
    assert torch.equal(module(other), program(other))


def test_an_offset_is_read_before_the_tensor_moves():
    def program(a):
        b = a.view(a.shape)
        b.t_()
        return b + 1, a.storage_offset() + a.stride(0)

    module = stator.make_fx(program, tracing_mode="symbolic")(torch.randn(6, 8)[:, 2:])
    other = torch.randn(6, 9)[:, 3:]
    assert module(other)[1] == 12 and torch.equal(module(other)[0], other.t() + 1)


@pytest.mark.parametrize(
    "program",
    [
        lambda a: (a + 1).relu().sum(1),
        lambda a: a.reshape(-1) * 2,
        lambda a: a.contiguous().view(-1),
        lambda a: a.t() @ a,
        lambda a: F.layer_norm(a, (a.shape[1],)),
        lambda a: torch.cat([a, a.flip(0)]),
        lambda a: a[1:].clone().mul_(2),
        lambda a: torch.empty_like(a).stride(0),
    ],
)
def test_operators_on_symbolic_strides(program):
    module = stator.make_fx(program, tracing_mode="symbolic")(torch.randn(5, 8)[:, 2:])
    other = torch.randn(4, 10)[:, 3:]
    found, wanted = module(other), program(other)
    torch.testing.assert_close(found, wanted)
    if isinstance(wanted, torch.Tensor):
        assert found.stride() == wanted.stride()


# ---- tensors whose sizes depend on data


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize(
    "program",
    [
        lambda a: a.nonzero() * 2,
        lambda a: (a.nonzero() + 1).float().sin(),
        lambda a: a[a > 0] + a[a > 0],
    ],
)
def test_operators_on_results_with_open_sizes(x, program, mode):
    module = stator.make_fx(program, tracing_mode=mode)(x)
    for given in (x, x + 1):
        assert torch.equal(module(given), program(given))


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_two_open_sizes_that_differ(x, mode):
    def program(a):
        return a[a > 0] + a[a > 1]

    module = stator.make_fx(program, tracing_mode=mode)(x)
    with pytest.raises(RuntimeError):
        module(torch.tensor([[0.5, 0.5, 0.5, 1.5], [2, 2, 2, 2], [2, 2, 2, 2]]))


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_lists_of_items(x, mode):
    module = stator.make_fx(lambda a: sum(a[0].tolist()) * a, tracing_mode=mode)(x)
    assert calls(module).count("_local_scalar_dense.default") == 4
    torch.testing.assert_close(module(x + 1), sum((x + 1)[0].tolist()) * (x + 1))
    assert torch.Tensor.tolist is torch._C.TensorBase.tolist


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_positions_in_a_tensor(x, mode):
    def program(a, positions):
        return torch.tensor_split(a, positions, 1)

    module = stator.make_fx(program, tracing_mode=mode)(x, torch.tensor([1, 3]))
    for positions in (torch.tensor([1, 3]), torch.tensor([0, 2])):
        for found, wanted in zip(module(x, positions), program(x, positions), strict=True):
            assert torch.equal(found, wanted)
