"""Metadata of exported nodes: it is made when it is asked for, and belongs to a definition."""

import copy
import pickle

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import stator
from stator.fx import to_graph_module
from tests.python.helpers import Counting


def exported(fn, *args):
    counting = Counting()
    stator.compile(fn, backend=counting)(*args)
    assert counting.count == 1
    return counting.graphs[0]


def nodes_of(gm, name):
    return [node for node in gm.graph.nodes if node.op == "call_function" and name in str(node.target)]


def test_val_is_a_fake_tensor_of_the_node():
    gm = exported(lambda x, y: (x @ y).relu().to(torch.float64), torch.ones(2, 3), torch.ones(3, 4, requires_grad=True))
    for node in gm.graph.nodes:
        if node.op == "output":
            continue
        val = node.meta["val"]
        assert isinstance(val, FakeTensor) and node.meta["example_value"] is val
        assert node.meta["tensor_meta"].shape == val.shape
    (product,) = nodes_of(gm, "matmul")
    val = product.meta["val"]
    assert (val.shape, val.dtype, val.device, val.requires_grad) == ((2, 4), torch.float32, torch.device("cpu"), True)
    modes = {node.meta["val"].fake_mode for node in gm.graph.nodes if "val" in node.meta}
    assert len(modes) == 1


def test_writes_have_metadata_before_and_after():
    def fn(x):
        y = x * 2
        y.t_()
        return y + 1

    gm = exported(fn, torch.ones(2, 3))
    assert nodes_of(gm, "mul")[0].meta["val"].shape == (2, 3)
    assert nodes_of(gm, "aten.t_")[0].meta["val"].shape == (3, 2)
    assert nodes_of(gm, "aten.t_")[0].meta["val"].stride() == (1, 3)


def test_lines_and_modules():
    class Inner(nn.Module):
        def forward(self, x):
            return x.relu()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Inner(), Inner()])
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(self.blocks[1](x)).exp()

    gm = exported(Outer(), torch.ones(2, 3))
    stacks = {str(node.target): node.meta["nn_module_stack"] for node in gm.graph.nodes if node.op == "call_function"}
    classes = {name: [entry[1].rpartition(".")[2] for entry in stack.values()] for name, stack in stacks.items()}
    assert classes["aten.relu.default"] == ["Outer", "Inner"]
    assert classes["aten.linear.default"] == ["Outer", "Linear"]
    assert classes["aten.exp.default"] == ["Outer"]
    relu_paths = [path for path, _ in stacks["aten.relu.default"].values()]
    assert relu_paths[1].startswith(relu_paths[0]) and "1" in relu_paths[1]
    (relu,) = nodes_of(gm, "relu")
    assert "x.relu()" in relu.meta["stack_trace"]


def test_meta_is_a_dict():
    gm = exported(lambda x: x.sin() + 1, torch.ones(2))
    (node,) = nodes_of(gm, "sin")
    assert type(node.meta).__name__ == "NodeMeta" and isinstance(node.meta, dict)
    assert set(node.meta) == set(dict(node.meta)) >= {"val", "example_value", "tensor_meta", "stack_trace"}
    assert node.meta.get("nothing") is None and "nothing" not in node.meta
    plain = {}
    plain.update(nodes_of(gm, "add")[0].meta)
    assert "val" in plain
    copied = copy.copy(node.meta)
    del copied["val"]
    assert "val" in node.meta and "val" not in copied
    assert copied.pop("stack_trace") and "stack_trace" not in copied
    again = pickle.loads(pickle.dumps(gm))
    assert nodes_of(again, "sin")[0].meta["stack_trace"] == node.meta["stack_trace"]
    assert torch.equal(copy.deepcopy(gm)(torch.ones(2))[0], torch.ones(2).sin() + 1)


def test_sub_graphs_share_the_fake_mode():
    def fn(p, x):
        return torch.cond(p, lambda t: t.sin(), lambda t: t.cos(), (x,)) * 2

    gm = exported(fn, torch.tensor(True), torch.ones(2))
    (cond,) = [node for node in gm.graph.nodes if node.target is torch.ops.higher_order.cond]
    branch = getattr(gm, cond.args[1].target)
    (sin,) = nodes_of(branch, "sin")
    (mul,) = nodes_of(gm, "mul")
    assert sin.meta["val"].shape == (2,)
    assert sin.meta["val"].fake_mode is mul.meta["val"].fake_mode


def test_text_tells_dtypes_and_shapes_and_comes_back():
    def fn(p, x):
        return torch.cond(p, lambda t: t.sin(), lambda t: t * x.sum(), (x,)).t()

    counting = Counting()
    compiled = stator.compile(fn, backend=counting)
    compiled(torch.tensor(True), torch.ones(2, 3))
    graph = counting.graphs[0].__dict__["_native"]
    text = graph.text()
    assert "float32[3, 2]{1, 3}" in text and "stator::cond(%" in text and "python(" not in text
    again = type(graph).parse(text)
    assert again.text() == text
    for p in (True, False):
        x = torch.arange(6.0).reshape(2, 3)
        assert torch.equal(again(torch.tensor(p), x)[0], fn(torch.tensor(p), x))
    assert torch.equal(to_graph_module(again)(torch.tensor(False), x)[0], fn(torch.tensor(False), x))
