"""Compares programs that use torch.utils.checkpoint with their compiled form."""

import functools

import torch
from torch.utils.checkpoint import checkpoint

import stator
from tests.python.helpers import assert_same

WATCHED = (
    "sin",
    "cos",
    "exp",
    "tanh",
    "sigmoid",
    "mul",
    "add",
    "mm",
    "addmm",
    "bernoulli_",
    "native_dropout",
    "rand",
    "neg",
)
once = functools.partial(checkpoint, use_reentrant=False)
reentrant = functools.partial(checkpoint, use_reentrant=True)


def leaf(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def compare(fn, scenario, captures=True):
    """Runs the scenario on the function and on the compiled function, which has captured it before. Each scenario
    returns what it observed; the random state and the operators that ran are observed as well."""
    compiled = stator.compile(fn)
    if captures:
        stator.reset()
        scenario(compiled)
        assert not stator.counters()["breaks"], stator.counters()["breaks"]
    if stator.config.oracle:
        scenario(compiled)  # checks the hits; below, the operators of its captures would be observed
    found = []
    for run in (fn, compiled):
        torch.manual_seed(1)
        with (
            stator.config.patch(oracle=False),
            torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as record,
        ):
            observed = scenario(run)
        ops = [event.name[6:] for event in record.events() if event.name.startswith("aten::")]
        found.append((observed, torch.get_rng_state(), [op for op in ops if op in WATCHED]))
    assert_same(*found)
    return found[0]


def plain(t):
    return (t.sin() * t).exp().tanh()
