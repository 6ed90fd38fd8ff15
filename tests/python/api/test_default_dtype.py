"""A program that changes the default dtype, in one graph for a Python backend."""

import pytest
import torch

import stator
from tests.python.helpers import assert_same

BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def same_dtype():
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


def made(x, dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        parts = [torch.ones(2), torch.full((2,), 1.5), torch.arange(2.0), torch.linspace(0, 1, 2), torch.eye(2)]
        parts += [torch.zeros(2, dtype=torch.int64), torch.tensor(2.5), torch.tensor([1.0, 2.0]), torch.rand(2).shape]
        return [x + part if isinstance(part, torch.Tensor) else part for part in parts]
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_factories_have_the_dtype(backend, dtype):
    compiled = stator.compile(made, fullgraph=True, **({"backend": backend} if backend else {}))
    x = torch.ones(2)
    for _ in range(3):
        assert_same(compiled(x, dtype), made(x, dtype))
        assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("backend", [None, "eager"])
def test_parameters_have_the_dtype(backend):
    """Graphs for compilers that trace ahead of time hold no new parameters: those break."""

    def program():
        torch.set_default_dtype(torch.float64)
        try:
            return torch.nn.Linear(2, 2).weight.dtype
        finally:
            torch.set_default_dtype(torch.float32)

    compiled = stator.compile(program, fullgraph=True, **({"backend": backend} if backend else {}))
    assert compiled() == compiled() == torch.float64


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_may_stay_changed(backend):
    def program(x):
        torch.set_default_dtype(torch.float64)
        return x + torch.ones(2)

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(3):
        torch.set_default_dtype(torch.float32)
        assert compiled(torch.ones(2)).dtype == torch.float64
        assert torch.get_default_dtype() == torch.float64


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "line", ["n / 2", "n.sin()", "n * 2.5", "torch.true_divide(n, n)", "n.float() / 2", "n.mean(dtype=x.dtype)"]
)
def test_operators_that_promote_integers(backend, line):
    space = {"torch": torch}
    exec(
        "def program(x, n):\n    torch.set_default_dtype(torch.float64)\n"
        f"    try:\n        return x + {line}\n    finally:\n        torch.set_default_dtype(torch.float32)",
        space,
    )
    program, compiled = space["program"], stator.compile(space["program"], backend=backend)
    x, n = torch.ones(3), torch.arange(3)
    for _ in range(3):
        assert_same(compiled(x, n), program(x, n))
        assert torch.get_default_dtype() == torch.float32
