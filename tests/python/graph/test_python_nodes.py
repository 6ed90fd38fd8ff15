"""Nodes that call Python: they print, are exported to torch.fx as modules, and drop their references."""

import subprocess
import sys
import weakref
from pathlib import Path

import torch
from torch.autograd import Function

import stator
from tests.python.helpers import Counting, collect

ROOT = Path(__file__).resolve().parents[3]


def program_and_class():
    class Tripled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0] * 3

    def program(x):
        return Tripled.apply(x) + 1

    return program, Tripled


def test_a_backend_sees_a_module():
    program, _ = program_and_class()
    backend = Counting()
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    x = torch.randn(3, requires_grad=True)
    compiled(x).sum().backward()
    assert torch.equal(x.grad, x.detach() * 3)
    (module,) = backend.graphs
    kinds = [node.op for node in module.graph.nodes]
    assert kinds.count("call_module") == 1
    assert "Tripled" in str(module)
    assert "python_0" in module.code
    (again,) = module(x)
    assert type(again.grad_fn.next_functions[0][0]).__name__ == "TripledBackward"


def test_no_node_where_nothing_is_followed():
    program, _ = program_and_class()
    backend = Counting()
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    x = torch.randn(3)
    assert torch.equal(compiled(x), program(x))
    assert all(node.op != "call_module" for node in backend.graphs[0].graph.nodes)


def check_lifetime():
    program, function = program_and_class()
    compiled = stator.compile(program)
    x = torch.randn(3, requires_grad=True)
    compiled(x)
    watched = weakref.ref(function)
    del program, function, compiled
    stator.reset()
    collect()
    assert watched() is None


def test_what_a_node_holds_goes_with_its_graph():
    """In a process of its own: what other tests leave behind must not keep the class alive."""
    program = f"from {__name__} import check_lifetime; check_lifetime()"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_an_error_of_the_node_is_the_programs_error():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward("text")
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    def program(x):
        try:
            return Wrong.apply(x)
        except TypeError as error:
            return x, str(error)

    x = torch.randn(3, requires_grad=True)
    got, wanted = stator.compile(program)(x), program(x)
    assert got[1] == wanted[1]
