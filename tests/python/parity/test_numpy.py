"""NumPy code on arrays that share memory with tensors: types, dtypes, layouts, aliasing and values are NumPy's."""

import numpy as np
import pytest
import torch

import stator

CALLS = {
    "arithmetic": lambda a: (a + 1, 2 * a, a - a, a / 2, -a, +a, 1 - a, a * np.float32(2), a + True),
    "comparisons": lambda a: (a > 0, a == a, a <= 1, 0 < a, a != 2),
    "reductions": lambda a: (a.sum(), a.max(), a.min(axis=0), a.sum(axis=1), a.mean(), np.any(a), np.all(a, axis=0)),
    "keepdims": lambda a: (a.sum(axis=0, keepdims=True), np.mean(a, axis=1, keepdims=True)),
    "dtypes": lambda a: (a.astype(np.float64), a.astype("int32"), a.astype(a.dtype), a.astype(bool)),
    "views": lambda a: (a[0], a[:, 1], a[..., -1], a.T, a[1:, ::2], a[None], a.reshape(a.shape)),
    "shapes": lambda a: (a.reshape(-1), a.ravel(), a.flatten(), np.transpose(a), a.squeeze(), np.swapaxes(a, 0, 1)),
    "numbers": lambda a: (a[0, 0], a[1, 1] + 1, a.sum() * 2, np.sqrt(abs(a.max()))),
    "joins": lambda a: (np.concatenate([a, a]), np.stack([a, a], axis=1), np.vstack([a, a]), np.hstack([a, a])),
    "elementwise": lambda a: (np.abs(a), np.sqrt(abs(a) + 1), np.sin(a), np.exp(a), np.where(a > 0, a, 0)),
    "limits": lambda a: (np.clip(a, 0, 1), np.maximum(a, 0), np.minimum(a, a)),
    "sorting": lambda a: (np.sort(a, axis=0), np.argsort(a, axis=1, kind="stable"), a.argmax(), a.argmin(axis=0)),
    "products": lambda a: (a @ a.T, np.dot(a, a.T), np.einsum("ij->ji", a), np.outer(a[0], a[1])),
    "facts": lambda a: (a.shape, a.ndim, a.size, a.dtype, a.itemsize, a.nbytes, len(a), a.strides),
    "made": lambda a: (np.zeros(3), np.ones_like(a), np.arange(4), np.full((2, 2), 7), np.linspace(0, 1, 3), np.eye(2)),
    "loops": lambda a: [row.sum() for row in a],
    "accumulations": lambda a: (np.cumsum(a, axis=0), np.prod(a, axis=1), a.var(axis=0), a.std()),
    "copies": lambda a: (a.copy(), np.copy(a), np.array(a), np.asarray(a) is a),
}
LAYOUTS = {
    "plain": lambda t: t,
    "transposed": lambda t: t.t().contiguous().t(),
    "part": lambda t: torch.cat([t, t], 1)[:, ::2],
}
DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32]


def describe(value):
    if isinstance(value, (tuple, list)):
        return type(value), [describe(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        steps = [step for step, n in zip(value.strides, value.shape, strict=True) if n > 1]
        return type(value), value.dtype, value.shape, steps
    return type(value), value


def assert_near(actual, expected):
    if isinstance(expected, (tuple, list)):
        for mine, theirs in zip(actual, expected, strict=True):
            assert_near(mine, theirs)
    elif isinstance(expected, (np.ndarray, np.generic)):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_as_numpy_does(name, dtype, layout):
    call = CALLS[name]

    def program(x):
        return call(x.numpy())

    compiled = stator.compile(program)
    for seed in (0, 1):
        torch.manual_seed(seed)
        x = LAYOUTS[layout]((torch.randn(3, 4) * 3).to(dtype))
        expected, actual = program(x), compiled(x)
        assert describe(actual) == describe(expected)
        assert_near(actual, expected)
        for mine, theirs in zip(actual, expected, strict=True):
            if isinstance(theirs, np.ndarray):
                assert np.shares_memory(mine, x.numpy()) == np.shares_memory(theirs, x.numpy())


def test_in_one_graph():
    @stator.compile(fullgraph=True)
    def program(x, b):
        a = x.numpy()
        y = torch.from_numpy(np.tanh(a) * 2 + b)
        return y.sum(), np.asarray(y), a.mean(axis=0)

    for n in (2, 3):
        x, b = torch.randn(n, 3), np.ones((n, 3))
        total, array, mean = program(x, b)
        wanted = np.tanh(x.numpy()) * 2 + b
        np.testing.assert_allclose(array, wanted, rtol=1e-5)
        assert array.dtype == np.float64 and total.dtype == torch.float64 and type(mean) is np.ndarray
    assert stator.counters["captures"]["graphs"] == 2


def test_array_arguments_are_distinguished():
    def program(a):
        return a * 2, a.dtype

    compiled = stator.compile(program)
    arrays = [np.ones(3), np.ones(4), np.ones(3, np.float32), np.ones((3, 2)), np.ones((2, 3)).T, np.arange(3)[::-1]]
    frozen = np.ones(3)
    frozen.flags.writeable = False
    for array in [*arrays, frozen, np.array(["a"] * 2, object), np.ones(3)]:
        assert describe(compiled(array)) == describe(program(array))


def test_writes_reach_the_tensor_and_the_argument():
    def program(x, b):
        a = x.numpy()
        a[0] = 7
        a += 1
        b[1:] = b[:-1]
        b *= 2
        return x * 2, b

    for _ in range(2):
        results = []
        for run in (program, stator.compile(program, fullgraph=True)):
            x, b = torch.arange(6.0).reshape(2, 3), np.arange(4.0)
            y, same = run(x, b)
            assert same is b
            results.append((x, b, y))
        for mine, theirs in zip(*results, strict=True):
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


def test_warnings_and_errors_of_numpy_break():
    def program(x):
        a = x.numpy()
        try:
            return a + np.ones(7)
        except ValueError as error:
            return str(error)

    x = torch.ones(2, 3)
    assert stator.compile(program)(x) == program(x)
    refused = stator.compile(lambda x: np.random.rand() + x.numpy(), fullgraph=True)
    with pytest.raises(stator.Unsupported):
        refused(x)


def test_exact_setting_leaves_rounding_to_numpy():
    x = torch.randn(5, 7)
    with stator.config.patch(numpy_exact=True):
        np.testing.assert_array_equal(stator.compile(lambda x: np.exp(x.numpy()))(x), np.exp(x.numpy()))
        with pytest.raises(stator.Unsupported, match="numpy_exact"):
            stator.compile(lambda x: np.exp(x.numpy()), fullgraph=True)(x)
        stator.compile(lambda x: np.abs(x.numpy()) + 1, fullgraph=True)(x)
