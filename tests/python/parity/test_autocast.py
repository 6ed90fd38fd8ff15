"""Autocast across graph breaks: casts are cached while the outermost block is open, and dropped where it ends."""

import copy

import pytest
import torch
from torch import nn

import stator


def linear():
    torch.manual_seed(0)
    return nn.Linear(4, 4)


def open_blocks():
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def cut_inside(layer, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        stator.graph_break()
        return layer(y) + layer(x)


def cut_twice(layer, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        stator.graph_break()
        z = layer(y)
        stator.graph_break()
        return layer(z) + layer(x)


def two_blocks(layer, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        stator.graph_break()
        y = layer(y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return layer(y) + y


def nested_blocks(layer, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.autocast("cpu", enabled=False):
            y = layer(x)
            stator.graph_break()
        y = layer(y)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(y)
            stator.graph_break()
        return layer(y)


def cleared_inside(layer, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        torch.clear_autocast_cache()
        return layer(y) + layer(x)


def fails_inside(layer, x):
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)
            torch.linalg.cholesky(-torch.eye(2))
    except RuntimeError:
        return layer(x)
    return y


PROGRAMS = [cut_inside, cut_twice, two_blocks, nested_blocks, cleared_inside, fails_inside]


def step(program, layer, x):
    layer.zero_grad()
    out = program(layer, x)
    out.float().pow(2).sum().backward()
    return out.detach(), layer.weight.grad.clone(), layer.bias.grad.clone()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_and_gradients(program):
    ours, theirs = linear(), linear()
    compiled = stator.compile(program)
    for round_ in range(3):
        x = torch.randn(3, 4)
        expected = step(program, theirs, x)
        found = step(compiled, ours, x)
        assert all(map(torch.equal, found, expected)), f"round {round_}"
        assert open_blocks() == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_weights_change_between_calls(program):
    layer = linear()
    for round_ in range(3):
        compiled = stator.compile(copy.copy(program))
        x = torch.randn(3, 4)
        expected = program(layer, x)
        for _ in range(2):
            assert torch.equal(compiled(layer, x), expected), f"round {round_}"
        assert torch.equal(program(layer, x), expected)
        with torch.no_grad():
            layer.weight.mul_(-2)


def test_a_capture_inside_an_open_block_keeps_its_casts():
    ours, theirs = linear(), linear()

    def program(layer, function, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return function(layer, layer(x)) + layer(x)

    def inner(layer, y):
        return layer(y)

    x = torch.randn(3, 4)
    compiled = stator.compile(inner)
    for _ in range(2):
        expected = step(lambda layer, x: program(layer, inner, x), theirs, x)
        found = step(lambda layer, x: program(layer, compiled, x), ours, x)
        assert all(map(torch.equal, found, expected))
