"""Operators with symbolic sizes ask no more of the sizes than torch's fake tensors do."""

import pytest

from tests.python.fake import peer_guards

pytestmark = pytest.mark.usefixtures("one_thread")

# Operators whose kernels ask what torch's fake tensors leave out: whether the sizes of two operands fit, and whether a
# diagonal is empty, which decides where it begins.
KERNELS_ASK = {
    "aten.diagonal.default",
    "aten.diagonal_backward.default",
    "aten.diagonal_copy.default",
    "aten.diagonal_scatter.default",
    "aten.slice_backward.default",
    "aten.slice_scatter.default",
}
NAMES = {
    "add", "addmm", "bmm", "cat", "clamp", "cumsum", "diagonal", "einsum", "expand", "flip", "gather", "index_select",
    "layer_norm", "matmul", "nn.functional.avg_pool2d", "nn.functional.conv2d", "nn.functional.group_norm",
    "nn.functional.max_pool2d", "nn.functional.pad.constant", "permute", "reshape", "slice", "softmax", "sort", "split",
    "stack", "sum", "transpose", "tril", "unfold", "view", "where",
}  # fmt: skip


def test_no_more_guards_than_torch():
    found = peer_guards.count(samples=2, most=3, names=NAMES)
    assert sum(counts.calls for counts in found.values()) > 60
    more = {name: counts.worst for name, counts in peer_guards.more_than_torch(found).items()}
    assert set(more) <= KERNELS_ASK, {name: worst for name, worst in more.items() if name not in KERNELS_ASK}
    assert sum(counts.ours for counts in found.values()) <= sum(counts.theirs for counts in found.values())
