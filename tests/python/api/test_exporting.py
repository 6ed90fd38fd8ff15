"""Compiled and disabled functions under torch's own exporter."""

import pytest
import torch
from torch.fx.traceback import preserve_node_meta

import stator

aten = torch.ops.aten


@stator.disable
def whole(x):
    return x.sin()


@stator.disable(recursive=False)
def shallow(x):
    return x.cos()


@stator.disable
class Inner(torch.nn.Module):
    def forward(self, x):
        return whole(x.exp()).tanh()


@stator.disable
def bad(x):
    raise ValueError("no")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = stator.disable(torch.nn.Sigmoid())
        self.made = Inner()

    def forward(self, x):
        try:
            bad(x)
        except ValueError:
            x = x.relu()
        return self.made(self.inner(shallow(x) + 1))


@pytest.fixture(scope="module")
def notes():
    """The annotations of the nodes of an exported graph, by operator."""
    with preserve_node_meta():
        exported = torch.export.export(Net(), (torch.ones(3),), strict=False)
    return {n.target: n.meta.get("custom", {}) for n in exported.graph.nodes if n.op == "call_function"}


def disabled(name, recursive=True):
    return {
        "_torchdynamo_disable": True,
        "_torchdynamo_disable_recursive": recursive,
        "_torchdynamo_disable_method": name,
    }


def test_nodes_of_disabled_functions_are_annotated(notes):
    assert notes[aten.sin.default] == disabled("whole")
    assert notes[aten.cos.default] == disabled("shallow", recursive=False)


def test_nodes_of_disabled_modules_and_classes(notes):
    assert notes[aten.sigmoid.default] == disabled("Sigmoid")
    assert notes[aten.exp.default]["_torchdynamo_disable"] is True
    assert notes[aten.tanh.default] == notes[aten.exp.default]


def test_other_nodes_are_not_annotated(notes):
    # Torch may wrap all of them in a disabled function of its own.
    said = {notes[op].get("_torchdynamo_disable_method") for op in (aten.add.Tensor, aten.relu.default)}
    assert not said & {"bad", "whole", "shallow", "forward"}
    assert not torch.fx.traceback.current_meta.get("custom")
