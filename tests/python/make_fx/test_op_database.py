"""A slice of the operator database in the three modes; `make conformance` runs all of it beside torch's make_fx."""

import pytest
import torch

import stator
from tests.python.make_fx import op_database

# Several threads make operators that write one place twice (`max_unpool3d`) depend on their order.
pytestmark = pytest.mark.usefixtures("one_thread")

# What depends on data, which no graph can express; lstsq has no shape function for what its kernels call.
# The number of parts of a split is the number of results.
LEFT = {"equal", "linalg.lstsq", "tensor_split"}
NOT_TRACED = {"real": {"equal", "item", "tensor_split"}, "fake": LEFT, "symbolic": LEFT}
# Composites that look at plain sizes, views without elements, wrapped indices.
ALWAYS = (
    "gradient",
    "stft",
    "linalg.multi_dot",
    "_unsafe_masked_index",
    "_chunk_cat",
    "take_along_dim",
    "matmul",
    "item",
)
NAMES = sorted({*list(op_database.entries())[::12], *ALWAYS, *LEFT})


@pytest.mark.parametrize("mode", op_database.MODES)
@pytest.mark.parametrize("name", NAMES)
def test_traced_graph(name, mode):
    limit = None if name in ALWAYS else 2
    problem, _ = op_database.judge(stator.make_fx, op_database.entries()[name], mode, limit)
    if name in NOT_TRACED[mode]:
        assert "not traced" in problem
    else:
        assert problem is None


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.bool, torch.bfloat16], ids=str)
def test_other_dtypes(dtype):
    for name, info in list(op_database.entries(dtype).items())[::15]:
        problem, _ = op_database.judge(stator.make_fx, info, "symbolic", 1, dtype)
        assert problem is None or "not traced" in problem, name


def test_out_of_a_composite_that_takes_fakes_for_subclasses():
    """The kernel of `matrix_rank` returns a new tensor for such inputs, and does not write to `out`."""

    def rank(x):
        out = torch.zeros((), dtype=torch.int64)
        torch.linalg.matrix_rank(x, out=out)
        return out

    x = torch.eye(3)
    for mode in ("real", "fake"):
        assert stator.make_fx(rank, tracing_mode=mode)(x)(x) == 3
    assert stator.functionalize(rank)(x) == 3


@pytest.mark.parametrize("name", ["istft", "linalg.lu_solve"])
def test_complex_numbers_with_symbolic_sizes(name):
    info = op_database.entries(torch.complex64)[name]
    assert op_database.judge(stator.make_fx, info, "symbolic", None, torch.complex64)[0] is None
