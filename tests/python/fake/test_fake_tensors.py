"""Guarantees of fakes besides metadata: aliasing, autograd, modes, unchanged generators and thread state."""

import pytest
import torch

from stator import _C
from tests.python.helpers import fake_scope

_fake = _C._fake


def fakes(*reals):
    made = _fake.from_reals(list(reals))
    return made[0] if len(made) == 1 else made


def same_storage(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def test_from_real_keeps_metadata():
    real = torch.randn(4, 6, dtype=torch.float64)[1:, ::2].t().requires_grad_()
    fake = fakes(real)
    assert _fake.is_fake(fake) and not _fake.is_fake(real)
    assert type(fake) is torch.Tensor
    assert fake.shape == real.shape and fake.stride() == real.stride()
    assert fake.storage_offset() == real.storage_offset()
    assert fake.dtype == real.dtype and fake.device == real.device
    assert fake.requires_grad and fake.is_leaf
    assert fake.untyped_storage().nbytes() == real.untyped_storage().nbytes()


def test_shared_storages_stay_shared():
    base = torch.zeros(8)
    a, b, other = fakes(base[:4], base[4:], torch.zeros(8))
    assert same_storage(a, b) and not same_storage(a, other)
    assert b.storage_offset() == 4


def test_conj_and_neg_bits():
    real = torch.randn(3, dtype=torch.complex64)
    conj, neg = fakes(real.conj(), real.conj().imag)
    assert conj.is_conj() and neg.is_neg()
    with fake_scope():
        assert not conj.resolve_conj().is_conj()


@pytest.mark.parametrize("make", [lambda: torch.eye(2).to_sparse(), lambda: torch.empty(2, device="meta")])
def test_no_fake_of_other_kinds(make):
    with pytest.raises(RuntimeError, match="no fake"):
        fakes(make())


def test_views_alias_their_base_and_share_its_version():
    fake = fakes(torch.zeros(4, 5))
    with fake_scope():
        views = [
            fake.t(),
            fake[1],
            fake[:, 1:3],
            fake.view(20),
            fake.reshape(5, 4),
            fake.expand(2, 4, 5),
            *fake.split(2),
        ]
        for view in views:
            assert view._is_view() and view._base is fake and same_storage(view, fake)
        version = fake._version
        views[1].add_(1)
        assert fake._version == version + 1 and views[0]._version == version + 1


def test_in_place_keeps_identity_and_bumps_the_version():
    fake = fakes(torch.zeros(4))
    with fake_scope():
        assert fake.add_(1) is fake
        assert fake._version == 1
        assert fake.unsqueeze_(0).shape == (1, 4)


def test_out_is_resized():
    fake, out = fakes(torch.zeros(4, 3), torch.zeros(0))
    with fake_scope():
        assert torch.add(fake, 1, out=out) is out
    assert out.shape == (4, 3) and out.untyped_storage().nbytes() == 48


def test_autograd_runs_above():
    x, w = fakes(torch.randn(4, 5, requires_grad=True), torch.randn(5, requires_grad=True))
    with fake_scope():
        loss = (x * w).tanh().sum()
        assert loss.requires_grad and "Sum" in type(loss.grad_fn).__name__
        gx, gw = torch.autograd.grad(loss, [x, w])
    assert _fake.is_fake(gx) and gx.shape == x.shape and gw.shape == w.shape
    with fake_scope(), torch.no_grad():
        assert not (x * w).requires_grad


def test_inference_mode():
    normal = fakes(torch.randn(4, 5))
    with fake_scope(), torch.inference_mode():
        made = normal * 2
        assert made.is_inference() and not normal.t().is_inference()
        assert torch.nn.functional.silu(normal).is_inference()
        assert normal.flatten().shape == (20,) and normal.reshape(5, 4).shape == (5, 4)
        inside = torch.randn(3)
        assert _fake.is_fake(inside) and inside.is_inference()
        assert fakes(normal.new_zeros(2)).is_inference()
    with torch.inference_mode():
        real = torch.randn(3)
    assert fakes(real).is_inference() and not fakes(torch.randn(3)).is_inference()


RANDOM = {
    "randn": lambda x: torch.randn(3),
    "rand_like": torch.rand_like,
    "randint": lambda x: torch.randint(0, 9, (3,)),
    "randperm": lambda x: torch.randperm(5),
    "normal": lambda x: torch.normal(x, 1.0),
    "normal_": lambda x: x.normal_(),
    "uniform_": lambda x: x.uniform_(),
    "bernoulli": lambda x: torch.bernoulli(x),
    "exponential_": lambda x: x.exponential_(),
    "multinomial": lambda x: torch.multinomial(x, 2),
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
    "poisson": torch.poisson,
    "rrelu": lambda x: torch.nn.functional.rrelu(x, training=True),
}


@pytest.mark.parametrize("name", RANDOM)
def test_no_generator_is_touched(name):
    fake = fakes(torch.rand(4))
    state = torch.get_rng_state()
    with fake_scope():
        assert _fake.is_fake(RANDOM[name](fake))
    assert torch.equal(torch.get_rng_state(), state)


FACTORIES = {
    "empty": lambda: torch.empty(2, 3),
    "zeros": lambda: torch.zeros(2, 3, dtype=torch.int8),
    "full": lambda: torch.full((2,), 3),
    "full_bool": lambda: torch.full((2,), True),
    "arange": lambda: torch.arange(7),
    "arange_float": lambda: torch.arange(0, 1, 0.1),
    "arange_step": lambda: torch.arange(10, 0, -3),
    "arange_mixed": lambda: torch.arange(0.5, 5, 2, dtype=torch.int64),
    "new_zeros": lambda: torch.ones(1).new_zeros(2),
    "linspace": lambda: torch.linspace(0, 1, 5),
    "logspace": lambda: torch.logspace(0, 1, 5),
    "eye": lambda: torch.eye(3, 4),
    "tril_indices": lambda: torch.tril_indices(4, 3, -1),
    "triu_indices": lambda: torch.triu_indices(4, 6, 2),
    "scalar_tensor": lambda: torch.scalar_tensor(3),
    "hann_window": lambda: torch.hann_window(8),
    "ones_like": lambda: torch.ones_like(torch.zeros(2, 3).t()),
    "channels_last": lambda: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last),
    "empty_strided": lambda: torch.empty_strided((2, 3), (1, 2)),
    "fftfreq": lambda: torch.fft.fftfreq(5),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name):
    real = FACTORIES[name]()
    with fake_scope():
        fake = FACTORIES[name]()
    assert _fake.is_fake(fake)
    assert (fake.shape, fake.stride(), fake.dtype, fake.device) == (real.shape, real.stride(), real.dtype, real.device)


@pytest.mark.parametrize("rows", range(5))
@pytest.mark.parametrize("columns", range(5))
def test_triangle_indices(rows, columns):
    for offset in range(-6, 7):
        for make in (torch.tril_indices, torch.triu_indices):
            with fake_scope():
                fake = make(rows, columns, offset)
            assert fake.shape == make(rows, columns, offset).shape, (make, offset)


def test_real_tensors_are_refused_and_numbers_are_not():
    fake = fakes(torch.zeros(3))
    _fake.take_poison()
    with fake_scope():
        assert (fake + 2).dtype == torch.float32 and (fake.long() * 2.5).dtype == torch.float32
        with pytest.raises(RuntimeError, match="does not know"):
            fake + REAL
    assert "does not know" in _fake.take_poison()


REAL = torch.ones(3)


def test_scope_leaves_thread_state_as_it_was():
    fake = fakes(torch.zeros(3))
    included = torch._C._dispatch_tls_is_dispatch_key_included("Fake")
    with fake_scope():
        fake + 1
        with pytest.raises(RuntimeError):
            fake.item()
        with torch.inference_mode():
            fake.view(3)
    assert torch._C._dispatch_tls_is_dispatch_key_included("Fake") == included
    _fake.take_poison()
    assert not _fake.is_fake(torch.zeros(3))


def test_tiers_are_counted():
    fake = fakes(torch.zeros(3))
    _fake.reset_tier_counts()
    with fake_scope():
        fake + 1
    assert _fake.tier_counts()["own"] == 1 and _fake.tier_counts()["python"] == 0
    assert _fake.tier_of("aten::add.Tensor") == ("own", "")
    assert _fake.tier_of("aten::nonzero.out")[0] == "refused"
    with pytest.raises(KeyError):
        _fake.tier_of("aten::no_such_operator")


@pytest.mark.parametrize("sizes", [(5, 2, 1), (1, 1), (1,), ()])
def test_strides_of_an_expanded_tensor_without_dimensions(sizes):
    number = torch.tensor(1.0)
    with fake_scope():
        expanded = fakes(number).expand(sizes)
    assert expanded.stride() == number.expand(sizes).stride()


def test_unbind_without_dimensions_raises_as_eager():
    number = torch.tensor(1.0)
    with pytest.raises(IndexError, match="no dimensions"):
        number.unbind()
    with fake_scope(), pytest.raises(IndexError, match="no dimensions"):
        fakes(number).unbind()
