"""Real models: one graph each, equal to eager in eval and in a training step, over several calls."""

import copy

import pytest
import torch
from torch.utils import _pytree as pytree

import stator
from benchmarks import models
from stator import _C, fx
from tests.python.helpers import assert_same, captures, run_program

CASES = pytest.mark.parametrize("case", models.ALL, ids=lambda case: case.name)


def run_seeded(model, inputs, seed):
    torch.manual_seed(seed)
    return model(**inputs)


@CASES
def test_eval(case):
    model = case.build().eval()
    compiled = stator.compile(model, fullgraph=True)
    with torch.no_grad():
        for seed in range(2):
            assert_same(compiled(**case.inputs(seed)), model(**case.inputs(seed)))
    assert captures() == 1, "other values of the same shape must hit the cache"


ATTENDING = [case for case in models.TRANSFORMERS if case.name not in ("ResNet", "ConvNeXt")]


@pytest.mark.parametrize("case", ATTENDING, ids=lambda case: case.name)
def test_attention_is_called_as_in_eager(case, monkeypatch):
    """A mask that eager leaves out would select another kernel."""
    attention, eager, captured = torch.nn.functional.scaled_dot_product_attention, [], []

    def seen(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **others):
        eager.append((attn_mask is not None, is_causal))
        return attention(query, key, value, attn_mask, dropout_p, is_causal, **others)

    def reader(gm, example_inputs):
        for node in gm.graph.nodes:
            if node.target is torch.ops.aten.scaled_dot_product_attention.default:
                given = dict(
                    zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), node.args, strict=False)
                )
                given |= node.kwargs
                captured.append((given.get("attn_mask") is not None, given.get("is_causal", False)))
        return gm.forward

    model, inputs = case.build().eval(), case.inputs(0)
    with torch.no_grad():
        stator.compile(model, backend=reader, fullgraph=True)(**inputs)
        monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", seen)
        model(**inputs)
    assert captured == eager != []


@CASES
def test_changed_shape(case):
    model = case.build().eval()
    compiled = stator.compile(model, fullgraph=True)
    with torch.no_grad():
        for variant in (0, 2, 0, 3):
            assert_same(compiled(**case.inputs(variant)), model(**case.inputs(variant)))
    assert captures() == 2


@CASES
def test_training_step(case):
    model = case.build().train()
    twin = copy.deepcopy(model)
    compiled = stator.compile(model, fullgraph=True)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    for step in range(3):
        inputs = case.inputs(step % 2)
        losses = []
        for runner, optimizer in zip((compiled, twin), optimizers, strict=True):
            optimizer.zero_grad()
            loss = case.loss(run_seeded(runner, inputs, step))
            loss.backward()
            losses.append(loss)
        assert_same(losses[0], losses[1], "loss")
        for (name, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
            assert (mine.grad is None) == (theirs.grad is None), name
            if theirs.grad is not None:
                assert torch.equal(mine.grad, theirs.grad), f"step {step}: gradient of {name}"
        for (name, mine), theirs in zip(model.named_buffers(), twin.buffers(), strict=True):
            assert torch.equal(mine, theirs), f"step {step}: buffer {name}"
        for optimizer in optimizers:
            optimizer.step()
    assert captures() == 1


def leaves(output):
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


@CASES
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
def test_operators_below_autograd(case, training, grad):
    """The list below autograd, recorded with and without grad, computes eager's results."""
    model = case.build().train(training)
    twin = copy.deepcopy(model)
    lists = []

    def backend(gm, example_inputs):
        aten = fx.aten_graph(gm)
        lists.append(aten)

        def run(*inputs):
            with torch.no_grad():
                return aten(*inputs)

        return run

    with stator.config.patch(aten_graphs=True):
        compiled = stator.compile(model, fullgraph=True, backend=backend)
        for seed in range(2):
            with torch.set_grad_enabled(grad):
                got = leaves(run_seeded(compiled, case.inputs(seed), seed))
                wanted = leaves(run_seeded(twin, case.inputs(seed), seed))
            assert_same([leaf.detach() for leaf in got], [leaf.detach() for leaf in wanted])
        for (name, mine), theirs in zip(model.named_buffers(), twin.buffers(), strict=True):
            assert torch.equal(mine, theirs), f"buffer {name}"
    (aten,) = lists
    assert aten.num_nodes > 0
    assert all("aten::linear" != node[0] for node in aten.nodes())
    assert _C.Graph.parse(*aten.parts()).text() == aten.text()


@CASES
def test_switching_between_train_and_eval(case):
    model = case.build()
    compiled = stator.compile(model, fullgraph=True)
    inputs = case.inputs(0)
    for training in (True, False, True, False):
        compiled.train(training)
        assert model.training is training
        twin = copy.deepcopy(model)
        with torch.no_grad():
            assert_same(run_seeded(compiled, inputs, 5), run_seeded(twin, inputs, 5))
    assert captures() <= 2


# Importing these takes seconds; Stator must not import them for any model.
HEAVY = ("sympy", "torch._dynamo", "torch._inductor")


def test_heavy_parts_of_torch_stay_unloaded():
    program = f"""
        import sys, stator
        from benchmarks import models
        for case in models.OWN:
            case.loss(stator.compile(case.build().train(), fullgraph=True)(**case.inputs(0))).backward()
        assert stator.counters()["captures"]["graphs"] == len(models.OWN)
        print([name for name in {HEAVY} if name in sys.modules])
    """
    assert run_program(program) == "[]"


def test_transformers_models_do_not_import_heavy_parts_of_torch():
    """Rejects a second import of modules that transformers imports itself, so that an import by Stator is noticed."""
    program = f"""
        import importlib.abc, sys, stator
        from benchmarks import models
        built = [(case, case.build().train()) for case in models.TRANSFORMERS]
        for case, model in built:
            model(**case.inputs(0))

        class Refuse(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                assert not name.startswith({HEAVY}), name

        for name in [name for name in sys.modules if name.startswith({HEAVY})]:
            del sys.modules[name]
        sys.meta_path.insert(0, Refuse())
        for case, model in built:
            case.loss(stator.compile(model, fullgraph=True)(**case.inputs(0))).backward()
        assert stator.counters()["captures"]["graphs"] == len(built)
        print([name for name in {HEAVY} if name in sys.modules])
    """
    assert run_program(program) == "[]"
