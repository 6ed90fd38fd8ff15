"""Every way to read a tensor's data: on a fake it raises and sets the flag, and never returns garbage or crashes."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch

from stator import _C

_fake = _C._fake

EXITS = {
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "memoryview": lambda t: memoryview(t.numpy()),
    "tolist": lambda t: t.tolist(),
    "item": lambda t: t[0, 0].item(),
    "bool": lambda t: bool(t.sum()),
    "int": lambda t: int(t.sum()),
    "float": lambda t: float(t.sum()),
    "complex": lambda t: complex(t.sum()),
    "index": lambda t: [1, 2, 3][t[0, 0].long()],
    "contains": lambda t: 1.0 in t,
    "format": lambda t: f"{t[0, 0]:.2f}",
    "repr": repr,
    "str": str,
    "to_dlpack": torch.utils.dlpack.to_dlpack,
    "numpy_from_dlpack": np.from_dlpack,
    "torch_from_dlpack": torch.from_dlpack,
    "data_ptr": lambda t: t.data_ptr(),
    "storage_data_ptr": lambda t: t.untyped_storage().data_ptr(),
    "storage_tolist": lambda t: t.untyped_storage().tolist(),
    "storage_item": lambda t: t.untyped_storage()[0],
    "storage_clone": lambda t: t.untyped_storage().clone(),
    "storage_fill": lambda t: t.untyped_storage().fill_(1),
    "storage_resize": lambda t: t.untyped_storage().resize_(0),
    "pickle": pickle.dumps,
    "save": lambda t: torch.save(t, io.BytesIO()),
    "deepcopy": copy.deepcopy,
    "share_memory": lambda t: t.share_memory_(),
    "is_shared": lambda t: t.is_shared(),
    "storage_is_shared": lambda t: t.untyped_storage().is_shared(),
    "is_pinned": lambda t: t.is_pinned(),
    "equal": lambda t: torch.equal(t, t),
    "allclose": lambda t: torch.allclose(t, t),
    "tensor_of_tensors": lambda t: torch.tensor([t[0, 0], 1.0]),
    "new_tensor": lambda t: t.new_tensor([1.0]),
    "nonzero": lambda t: t.nonzero(),
    "boolean_index": lambda t: t[t > 0],
    "masked_select": lambda t: t.masked_select(t > 0),
    "unique": torch.unique,
    "bincount": lambda t: torch.bincount(t[0].long()),
    "repeat_interleave": lambda t: torch.repeat_interleave(t[0].long()),
}


@pytest.mark.parametrize("name", EXITS)
@pytest.mark.parametrize("inside", [True, False], ids=["in_scope", "out_of_scope"])
def test_raises_and_poisons(name, inside):
    (fake,) = _fake.from_reals([torch.randn(3, 4)])
    _fake.take_poison()
    before = _fake.scope(inside)
    try:
        with pytest.raises(RuntimeError) as raised:
            EXITS[name](fake)
    finally:
        _fake.scope(before)
    _fake.note_error(str(raised.value))
    assert _fake.take_poison()


def test_storages_of_real_tensors_still_tell_whether_they_are_shared():
    tensor = torch.ones(3)
    assert not tensor.is_shared() and not tensor.untyped_storage().is_shared()
    assert tensor.share_memory_().is_shared()


def test_operators_recorded_as_one_node_exit_only_without_a_shape_function():
    (fake,) = _fake.from_reals([torch.randn(2, 3, 4)])
    _fake.take_poison()
    before = _fake.scope(True)
    try:
        pooled = torch.max_pool1d(fake, 2)
    finally:
        _fake.scope(before)
    assert _fake.is_fake(pooled) and pooled.shape == (2, 3, 2) and _fake.take_poison() is None
    with pytest.raises(RuntimeError) as raised:
        torch.max_pool1d(fake, 2)
    _fake.note_error(str(raised.value))
    assert _fake.take_poison()


def test_poison_outlives_a_swallowed_exception():
    (fake,) = _fake.from_reals([torch.randn(3)])
    _fake.take_poison()
    try:
        answer = bool(fake.sum())
    except RuntimeError:
        answer = False
    assert answer is False
    assert "_local_scalar_dense" in _fake.take_poison()
    assert _fake.take_poison() is None


def test_ordinary_errors_do_not_poison():
    a, b = _fake.from_reals([torch.randn(3), torch.randn(4)])
    _fake.take_poison()
    with pytest.raises(RuntimeError, match="must match the size of tensor b") as raised:
        a + b
    assert not _fake.note_error(str(raised.value))
    assert _fake.take_poison() is None
