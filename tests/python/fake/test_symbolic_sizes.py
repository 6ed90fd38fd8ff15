"""Shape functions on symbolic sizes, for the calls that PyTorch's operator database makes.

Every size of at least 2 is a symbol. For the recorded sizes, and for other sizes that satisfy the guards, the results
must be those of the same call with plain sizes. A call that is refused must be named here with the reason.
"""

import functools

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils import _pytree as pytree

from tests.python.fake import symbolic_calls

pytestmark = pytest.mark.usefixtures("one_thread")

READS_SIZES = "a size that depends on data was asked for"
PLAIN = "its shape function takes no symbolic sizes"

# Operators that are refused: {name: a part of the reason}.
REFUSED = {
    "aten._chunk_cat.default": READS_SIZES,
    "aten._ctc_loss.default": PLAIN,
    "aten._unsafe_masked_index.default": READS_SIZES,
    "aten._unsafe_masked_index_put_accumulate.default": READS_SIZES,
}

# Operators whose guards fix sizes, by what they mean: no other sizes satisfy the guards of a call.
FIXED = {
    "aten._histogramdd_bin_edges.default",  # a number of bins for each column
    "aten._histogramdd_from_bin_cts.default",
    "aten._histogramdd_from_bin_tensors.default",
    "aten.convolution_backward.default",  # the gradient has the size that follows from the input
    "aten.fractional_max_pool3d.default",  # three random numbers for each window
    "aten.split_with_sizes.default",  # the sizes add up
    "aten.split_with_sizes_copy.default",
    "aten.unbind_copy.int",  # as many results
}

MINIMUM_OPERATORS = 550


@functools.cache
def outcomes():
    """{operator: [outcome or reason of the refusal]} of the calls that plain sizes allow."""
    made = {}
    for func, recorded in symbolic_calls.record(samples=3, most=5).items():
        for flat, spec in recorded:
            try:
                symbolic_calls.plain_results(func, flat, spec)
            except symbolic_calls.Refused:
                continue
            made.setdefault(str(func), []).append(_outcome(func, flat, spec))
    return made


def _outcome(func, flat, spec):
    try:
        outcome = symbolic_calls.run_call(func, flat, spec)
        if outcome.difference is None and outcome.others == 0:
            # Numbers of the call that happen to equal sizes need not follow them.
            outcome = symbolic_calls.run_call(func, flat, spec, numbers=False)
        return outcome
    except symbolic_calls.Refused as refused:
        return str(refused)


def test_results_are_those_of_plain_sizes():
    wrong = {
        name: made.difference
        for name, runs in outcomes().items()
        for made in runs
        if not isinstance(made, str) and made.difference
    }
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())


def test_refusals_are_named():
    unnamed = {
        (name, made)
        for name, runs in outcomes().items()
        for made in runs
        if isinstance(made, str) and (name not in REFUSED or REFUSED[name] not in made)
    }
    assert not unnamed
    stale = [name for name in REFUSED if not any(isinstance(made, str) for made in outcomes().get(name, ()))]
    assert not stale


def test_most_operators_are_covered():
    answered = [name for name, runs in outcomes().items() if any(not isinstance(made, str) for made in runs)]
    assert len(answered) >= MINIMUM_OPERATORS


def test_guards_allow_other_sizes():
    symbolic = {
        name
        for name, runs in outcomes().items()
        if any(not isinstance(made, str) and made.guards for made in runs)
        and all(isinstance(made, str) or made.others == 0 for made in runs)
    }
    assert symbolic <= FIXED, symbolic - FIXED


def _outcome_of(func, *args):
    """The outcome of a call with the sizes of meta tensors as symbols."""
    flat, spec = pytree.tree_flatten((args, {}))
    flat = [symbolic_calls.Geometry.of(v) if isinstance(v, torch.Tensor) else v for v in flat]
    outcome = symbolic_calls.run_call(func, flat, spec)
    assert outcome.difference is None
    return outcome


def _meta(*sizes, dtype=torch.float32):
    return torch.empty(sizes, device="meta", dtype=dtype)


aten = torch.ops.aten

NO_QUESTIONS = {
    "linear": (aten.addmm.default, _meta(7), _meta(5, 3), _meta(3, 7)),
    "batched product": (aten.bmm.default, _meta(6, 5, 3), _meta(6, 3, 5)),
    "softmax": (aten._softmax.default, _meta(2, 4, 5, 5), -1, False),
    "transposed sum": (aten.add.Tensor, _meta(3, 5, 7).transpose(1, 2), _meta(3, 7, 5)),
    "broadcast": (aten.mul.Tensor, _meta(3, 5, 7), _meta(1, 7)),
    "channels last": (aten.relu.default, _meta(2, 3, 5, 7).to(memory_format=torch.channels_last)),
    "heads": (aten.view.default, _meta(3, 5, 36).transpose(0, 1), [5, 3, -1, 1]),
    "attention": (F.scaled_dot_product_attention, _meta(2, 4, 7, 8), _meta(2, 4, 9, 8), _meta(2, 4, 9, 8)),
    "pooling": (F.adaptive_avg_pool2d, _meta(2, 3, 7, 9), [1, 1]),
    "nearest by 2": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), _meta(2, 3, 7, 9)),
    "linear by 1.5": (lambda x: F.interpolate(x, scale_factor=1.5, mode="linear"), _meta(2, 3, 7)),
    "kron": (torch.kron, _meta(3, 5), _meta(7, 4)),
}


@pytest.mark.parametrize("case", NO_QUESTIONS)
def test_asks_nothing(case):
    outcome = _outcome_of(*NO_QUESTIONS[case])
    assert outcome.guards == ()
    assert outcome.others > 0


def _recurrent(gates, cells=1, layers=1, directions=1, batch_first=True):
    """The arguments of a recurrent layer with 3 sequences of 5, 7 numbers to 6."""
    rows, state = gates * 6, _meta(layers * directions, 3, 6)
    weights = []
    for layer in range(layers):
        for _ in range(directions):
            taken = 7 if layer == 0 else directions * 6
            weights += [_meta(rows, taken), _meta(rows, 6), _meta(rows), _meta(rows)]
    inputs = _meta(3, 5, 7) if batch_first else _meta(5, 3, 7)
    states = [state] * cells if cells > 1 else state
    return inputs, states, weights, True, layers, 0.0, False, directions == 2, batch_first


SAME_RESULTS = {
    "lstm": (torch._VF.lstm, *_recurrent(4, cells=2)),
    "deep lstm": (torch._VF.lstm, *_recurrent(4, cells=2, layers=2, directions=2, batch_first=False)),
    "gru": (torch._VF.gru, *_recurrent(3, layers=2)),
    "rnn": (torch._VF.rnn_tanh, *_recurrent(1, directions=2)),
    "lstm cell": (
        torch._VF.lstm_cell,
        _meta(3, 7),
        [_meta(3, 6)] * 2,
        _meta(24, 7),
        _meta(24, 6),
        _meta(24),
        _meta(24),
    ),
    "gru cell": (torch._VF.gru_cell, _meta(3, 7), _meta(3, 6), _meta(18, 7), _meta(18, 6), _meta(18), _meta(18)),
    "slice of heads": (lambda x: x[:, :, :12].view(2, 5, 3, 4), _meta(2, 5, 36)),
    "chunk": (lambda x: torch.unsafe_chunk(x, 3, -1), _meta(2, 5, 9)),
    "along": (lambda x, i: torch.take_along_dim(x, i, 1), _meta(3, 5, 7), _meta(3, 4, 1, dtype=torch.long)),
    "bilinear by 4.3": (lambda x: F.interpolate(x, scale_factor=4.3, mode="bilinear"), _meta(2, 3, 7, 9)),
    "interpolate to size": (lambda x: F.interpolate(x, size=(4, 6), mode="bicubic"), _meta(2, 3, 7, 9)),
    "convolution of images": (F.conv2d, _meta(2, 3, 9, 9), _meta(4, 3, 5, 5), _meta(4), 1, 2),
    "convolution in space": (
        F.conv3d,
        _meta(2, 3, 9, 9, 9).to(memory_format=torch.channels_last_3d),
        _meta(4, 3, 5, 5, 5),
    ),
    "transposed convolution": (F.conv_transpose2d, _meta(2, 3, 9, 9), _meta(3, 4, 5, 5), _meta(4), 2, 1),
    "reflection": (lambda x: F.pad(x, (1, 2, 0, 1), mode="reflect"), _meta(2, 3, 7, 9)),
    "gathered rows": (lambda x, i: x[:, i], _meta(3, 5, 7).transpose(1, 2), _meta(4, dtype=torch.long)),
}


@pytest.mark.parametrize("case", SAME_RESULTS)
def test_results_are_those_of_plain_calls(case):
    _outcome_of(*SAME_RESULTS[case])
