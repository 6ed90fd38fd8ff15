"""Runs shape functions on fakes with symbols as sizes, for calls of operators that PyTorch's operator database makes.

A call is recorded as a template: tensors are replaced by their geometry. Every size of at least 2 becomes a symbol;
equal sizes share one. The results must be those of the same call on fakes with plain sizes: for the recorded sizes,
and for other sizes that satisfy the guards of the symbolic call.
"""

import itertools
import re
import warnings
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from stator import _C
from tests.python.fake import op_samples
from tests.python.helpers import fake_scope

_fake = _C._fake


@dataclass(frozen=True)
class Geometry:
    sizes: tuple
    strides: tuple
    dtype: torch.dtype

    @staticmethod
    def of(tensor):
        return Geometry(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)

    def on(self, device):
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device=device)


class Recorder(TorchDispatchMode):
    """Collects templates of the calls of ATen's operators: {operator: [(flat arguments, structure)]}."""

    def __init__(self, most):
        super().__init__()
        self.calls = {}
        self.most = most
        self._known = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.namespace == "aten":
            self._record(func, args, kwargs)
        return func(*args, **kwargs)

    def _record(self, func, args, kwargs):
        calls = self.calls.setdefault(func, [])
        if len(calls) >= self.most:
            return
        flat, spec = pytree.tree_flatten((args, kwargs))
        if any(isinstance(v, torch.Tensor) and v.layout is not torch.strided for v in flat):
            return
        flat = [Geometry.of(v) if isinstance(v, torch.Tensor) else v for v in flat]
        key = (func, repr(flat))
        if key not in self._known:
            self._known.add(key)
            calls.append((flat, spec))


def _gradients(outputs, inputs):
    outputs = [v for v in outputs if isinstance(v, torch.Tensor) and v.requires_grad]
    inputs = [v for v in inputs if isinstance(v, torch.Tensor) and v.requires_grad]
    if outputs and inputs:
        grads = [torch.ones_like(v) for v in outputs]
        torch.autograd.grad(outputs, inputs, grads, allow_unused=True)


def record(names=None, samples=2, most=6):
    """The calls that entries of the database make, forward and backward, row-major and permuted."""
    recorder = Recorder(most)
    for name, op in sorted(op_samples.entries().items()):
        if (names is None or name in names) and op.supports_dtype(torch.float32, "cpu"):
            _record_entry(recorder, op, samples)
    return recorder.calls


def _record_entry(recorder, op, samples):
    torch.manual_seed(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
            made = list(itertools.islice(made, samples))
    except Exception:  # noqa: BLE001
        return  # the database has no samples for this dtype
    for number, sample in enumerate(made):
        for layout in ("contiguous", "permuted") if number == 0 else ("contiguous",):
            flat, spec = pytree.tree_flatten((sample.input, sample.args, dict(sample.kwargs)))
            for i, value in enumerate(flat):
                if isinstance(value, torch.Tensor):
                    flat[i] = op_samples.relayout(value, layout).requires_grad_(value.requires_grad)
            first, args, kwargs = pytree.tree_unflatten(flat, spec)
            try:
                with warnings.catch_warnings(), recorder:
                    warnings.simplefilter("ignore")
                    _gradients(pytree.tree_flatten(op(first, *args, **kwargs))[0], flat)
            except Exception:  # noqa: BLE001
                pass  # the sample does not support this layout


class Refused(Exception):
    """The shape function refused the call."""


def _symbols(flat):
    return sorted({n for v in flat if isinstance(v, Geometry) for n in v.sizes if n >= 2})


def _number_places(func, spec, count):
    """The flat positions of numbers that may be symbolic. A function of Python's has none."""
    if not hasattr(func, "_schema"):
        return set()
    args, kwargs = pytree.tree_unflatten(list(range(count)), spec)
    names = [a.name for a in func._schema.arguments]
    given = dict(zip(names, args)) | kwargs
    taken = set(re.findall(r"SymInt(?:\[\d*\])?\??\)? (\w+)", str(func._schema)))
    return {i for name, value in given.items() if name in taken for i in pytree.tree_flatten(value)[0]}


def _call(func, flat, spec):
    args, kwargs = pytree.tree_unflatten(flat, spec)
    _fake.take_poison()
    try:
        with fake_scope(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = func(*args, **kwargs)
    except Exception as error:  # noqa: BLE001
        _fake.note_error(str(error))
        raise Refused(_fake.take_poison() or f"raised {type(error).__name__}: {error}") from None
    reason = _fake.take_poison()
    if reason is not None:
        raise Refused(reason)
    return pytree.tree_flatten(results)[0]


def _described(values, symbol_values):
    made = []
    for value in values:
        if isinstance(value, torch.Tensor):
            sizes, strides, offset = _fake.geometry(value, symbol_values)
            empty = 0 in sizes
            strides = [0 if n == 1 or empty else s for n, s in zip(sizes, strides)]
            made.append((sizes, strides, offset, str(value.dtype), str(value.device)))
        elif not isinstance(value, torch.SymInt):
            made.append(repr(value))
    return made


def plain_results(func, flat, spec):
    fakes = []
    with fake_scope():
        for value in flat:
            fakes.append(value.on("cpu") if isinstance(value, Geometry) else value)
    return _described(_call(func, fakes, spec) + [v for v in fakes if isinstance(v, torch.Tensor)], {})


@dataclass
class Outcome:
    guards: tuple
    difference: str | None = None
    others: int = 0  # other sizes for which the results were compared


def other_sizes(symbols):
    """Values for the symbols that satisfy the guards."""
    together = [
        {n: n + 1 for n in symbols},
        {n: 2 * n for n in symbols},
        {n: symbols[-1 - i] + 1 for i, n in enumerate(symbols)},
    ]
    alone = [{n: n * by} for n in symbols for by in (2, 3)]
    for several in (together, alone):
        allowed = [values for values in several if all(holds for _, holds in _fake.guards(values))]
        if allowed:
            return allowed
    return []


def run_call(func, flat, spec, numbers=True):
    """Raises Refused; the outcome names the first difference from calls with plain sizes."""
    symbols = _symbols(flat)
    expected = plain_results(func, flat, spec)
    _fake.forget_symbols()
    places = _number_places(func, spec, len(flat)) if numbers else set()
    sizes_of = {n: _fake.symbolic(torch.empty(n, device="meta")).shape[0] for n in symbols}
    values = []
    for i, value in enumerate(flat):
        if isinstance(value, Geometry):
            value = _fake.symbolic(value.on("meta"))
        elif i in places and type(value) is int and value in sizes_of:
            value = sizes_of[value]
        values.append(value)
    results = _call(func, values, spec) + [v for v in values if isinstance(v, torch.Tensor)]
    outcome = Outcome(tuple(text for text, _ in _fake.guards({})))
    got = _described(results, {})
    if got != expected:
        outcome.difference = f"for {flat}: got {got}, plain sizes give {expected}"
        return outcome
    for changed in other_sizes(symbols):
        difference = _compare_other(func, flat, spec, places, changed, results)
        if difference:
            outcome.difference = difference
            return outcome
        outcome.others += 1
    return outcome


def _compare_other(func, flat, spec, places, changed, results):
    other = []
    for i, value in enumerate(flat):
        if isinstance(value, Geometry):
            sizes = tuple(changed.get(n, n) if n >= 2 else n for n in value.sizes)
            strides = _scaled_strides(value, changed)
            value = Geometry(sizes, strides, value.dtype)
        elif i in places and type(value) is int:
            value = changed.get(value, value)
        other.append(value)
    try:
        expected = plain_results(func, other, spec)
    except Refused as refused:
        return f"for {other} plain sizes are refused: {refused}; the guards do not say so"
    got = _described(results, changed)
    if got != expected:
        return f"for {other}: got {got}, plain sizes give {expected}"
    return None


def _scaled_strides(value, changed):
    fresh = _fake.symbolic(value.on("meta"))
    return tuple(_fake.geometry(fresh, changed)[1])
