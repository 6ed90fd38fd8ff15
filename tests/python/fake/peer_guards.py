"""Guards that torch's FakeTensorMode records for calls of operators with symbolic sizes, beside those of Stator."""

import contextlib
import warnings
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from tests.python.fake import symbolic_calls
from tests.python.fake.symbolic_calls import Geometry


def torch_guards(func, flat, spec, numbers=True):
    """What the call asks of the sizes, as texts. Every size of at least 2 is a symbol; equal sizes share one. None if
    torch's fake tensors refuse the call."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    mode.cache_enabled = False  # a result from the cache asks nothing
    places = symbolic_calls._number_places(func, spec, len(flat)) if numbers else set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            sizes = {n: mode.from_tensor(torch.empty(n)).shape[0] for n in symbolic_calls._symbols(flat)}
            values = []
            for i, value in enumerate(flat):
                if isinstance(value, Geometry):
                    value = mode.from_tensor(value.on("cpu"))
                elif i in places and type(value) is int and value in sizes:
                    value = sizes[value]
                values.append(value)
            before = len(env.guards)
            args, kwargs = pytree.tree_unflatten(values, spec)
            with mode, torch.no_grad():
                func(*args, **kwargs)
        except Exception:  # noqa: BLE001
            return None
    return [str(guard.expr) for guard in env.guards[before:]]


@dataclass
class Counts:
    """Of one operator, over the calls that both take."""

    calls: int = 0
    ours: int = 0
    theirs: int = 0
    refused: int = 0  # calls that only Stator refuses
    only_ours: int = 0  # calls that only Stator takes
    worst: tuple = ()  # the call with the most guards more than torch's: the texts of both sides


def count(samples=3, most=5, names=None):
    """{operator: Counts} for the calls that entries of the operator database make."""
    found = {}
    for func, recorded in symbolic_calls.record(names, samples, most).items():
        counts = Counts()
        for flat, spec in recorded:
            with contextlib.suppress(symbolic_calls.Refused):
                symbolic_calls.plain_results(func, flat, spec)
                add(counts, func, flat, spec)
        if counts.calls or counts.refused or counts.only_ours:
            found[str(func)] = counts
    return found


def add(counts, func, flat, spec):
    theirs = torch_guards(func, flat, spec)
    try:
        ours = list(symbolic_calls.run_call(func, flat, spec).guards)
    except symbolic_calls.Refused:
        counts.refused += theirs is not None
        return
    if theirs is None:
        counts.only_ours += 1
        return
    counts.calls += 1
    counts.ours += len(ours)
    counts.theirs += len(theirs)
    if len(ours) - len(theirs) > (len(counts.worst[0]) - len(counts.worst[1]) if counts.worst else 0):
        counts.worst = (ours, theirs, flat)


def more_than_torch(found):
    """The operators with more guards than torch's."""
    return {name: counts for name, counts in found.items() if counts.ours > counts.theirs}
