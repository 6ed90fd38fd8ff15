"""Writes to memory that two inputs share without sharing a storage: torch takes such tensors for independent."""

import numpy as np
import pytest
import torch

from tests.python.parity.test_aliases import BACKENDS, WRITES, agree


def two_arrays():
    return [torch.from_numpy(np.arange(6.0)), torch.from_numpy(np.arange(6.0))]


def one_array():
    array = np.arange(6.0)
    return [torch.from_numpy(array), torch.from_numpy(array)]


def parts_of_an_array():
    array = np.arange(8.0)
    return [torch.from_numpy(array[:6]), torch.from_numpy(array[2:])]


def tensor_and_its_array():
    tensor = torch.arange(6.0, dtype=torch.float64)
    return [tensor, torch.from_numpy(tensor.numpy())]


def one_buffer():
    buffer = bytearray(np.arange(6.0).tobytes())
    return [torch.frombuffer(buffer, dtype=torch.float64), torch.frombuffer(buffer, dtype=torch.float64)]


def one_storage():
    tensor = torch.arange(6.0, dtype=torch.float64)
    return [tensor, tensor.view(6)]


HIDDEN = [one_array, parts_of_an_array, tensor_and_its_array, one_buffer]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shared", HIDDEN, ids=lambda make: make.__name__)
@pytest.mark.parametrize("fn", WRITES[:2], ids=lambda fn: fn.__name__)
def test_writes_to_memory_that_two_storages_share(fn, shared, backend):
    agree(fn, two_arrays, shared, one_storage, backend=BACKENDS[backend])
    agree(fn, shared, two_arrays, one_storage, backend=BACKENDS[backend])
    agree(fn, one_storage, shared, two_arrays, backend=BACKENDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_to_an_array_and_a_tensor_of_it(backend):
    def f(array, tensor):
        torch.from_numpy(array).add_(1)
        return tensor * 2

    def arrays_are(*, one):
        def made():
            array = np.arange(6.0)
            return [array, torch.from_numpy(array if one else array.copy())]

        return made

    agree(f, arrays_are(one=True), arrays_are(one=False), backend=BACKENDS[backend])
    agree(f, arrays_are(one=False), arrays_are(one=True), backend=BACKENDS[backend])
