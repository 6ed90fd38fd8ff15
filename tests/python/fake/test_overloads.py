"""Calls directly every ATen overload with plain arguments that has a shape function of Stator's: the database reaches
operators through Python functions and misses overloads. Arguments are made from the schema; what the real
kernel rejects is skipped."""

import itertools
import warnings

import pytest
import torch

from tests.python.fake.op_samples import _fake, describe, fake_scope

SIZES = [(3, 4, 5)]
DTYPES = [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64]


def layouts(size, dtype):
    """Tensors of one shape in several layouts, and one that broadcasts against it."""
    plain = torch.randint(0, 2, size).to(dtype)
    yield plain
    yield plain.transpose(0, -1).contiguous().transpose(0, -1)
    yield plain.movedim(1, -1).contiguous().movedim(-1, 1)
    yield torch.stack([plain, plain], -1)[..., 0]
    yield plain[:1].expand(size)
    yield plain[..., :1].clone()


def plain_arguments(schema, tensors, number, flag):
    """Positional and keyword arguments, or None if the schema has other parameter types."""
    made, keywords = [], {}
    tensors = iter(tensors)
    for argument in schema.arguments:
        kind = str(argument.type)
        if argument.is_write and argument.kwarg_only:
            value = torch.empty(0)
        elif kind == "Tensor":
            value = next(tensors)
        elif argument.has_default_value() and kind not in ("bool", "Optional[bool]"):
            continue
        elif kind in ("number", "Scalar"):
            value = number
        elif kind in ("int", "SymInt"):
            value = 1
        elif kind == "float":
            value = 0.5
        elif kind == "bool":
            value = flag
        elif kind.startswith("Optional"):
            value = None
        elif kind in ("List[int]", "List[SymInt]"):
            value = [1]
        else:
            return None
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            made.append(value)
    return made, keywords


def tensor_arguments(op):
    return [a for a in op._schema.arguments if str(a.type) == "Tensor" and not (a.is_write and a.kwarg_only)]


def served_by_own_shape_functions():
    names = []
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        if not full.startswith("aten::"):
            continue
        base, _, overload = full[len("aten::") :].partition(".")
        try:
            op = getattr(getattr(torch.ops.aten, base), overload or "default")
            tier = _fake.tier_of(full)[0]
        except (AttributeError, KeyError):
            continue
        # Private kernels, and many that take several tensors, do not check shapes.
        if base.startswith("_") and not base.endswith("shift__"):
            continue
        if base == "native_batch_norm":
            continue  # the real kernel reads running statistics that do not exist
        if len(tensor_arguments(op)) > (3 if torch.Tag.pointwise in op.tags else 2):
            continue
        probe = [torch.zeros(1)] * 3
        if tier == "own" and plain_arguments(op._schema, probe, 2, False) is not None:
            names.append((full, op))
    return names


CASES = served_by_own_shape_functions()


def differences(op, arguments, keywords):
    tensors = [v for v in [*arguments, *keywords.values()] if isinstance(v, torch.Tensor)]
    fakes = dict(zip(map(id, tensors), _fake.from_reals(tensors)))
    swap = lambda v: fakes.get(id(v), v) if isinstance(v, torch.Tensor) else v
    fake_arguments = [swap(v) for v in arguments]
    fake_keywords = {k: swap(v) for k, v in keywords.items()}
    try:
        real = op(*arguments, **keywords)
    except (RuntimeError, IndexError, NotImplementedError, TypeError, ValueError):
        return None
    _fake.take_poison()
    try:
        with fake_scope():
            fake = op(*fake_arguments, **fake_keywords)
    except Exception as error:  # noqa: BLE001
        return None if _fake.take_poison() else f"raised {error}"
    flat = lambda v: list(v) if isinstance(v, (tuple, list)) else [v]
    want = [describe(v) for v in flat(real) + arguments + list(keywords.values())]
    got = [describe(v) for v in flat(fake) + fake_arguments + list(fake_keywords.values())]
    return None if want == got else f"got {got}, real {want}"


@pytest.mark.parametrize("name,op", CASES, ids=[name for name, _ in CASES])
def test_overload(name, op):
    torch.manual_seed(0)
    count = sum(str(a.type) == "Tensor" and not (a.is_write and a.kwarg_only) for a in op._schema.arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size, dtype in itertools.product(SIZES, DTYPES):
            choices = list(layouts(size, dtype))
            # All pairs of the first two operands; further ones repeat the first.
            pairs = itertools.product(choices, choices) if count > 1 else ((c, c) for c in choices)
            for (first, second), number, flag in itertools.product(pairs, (2, 1.5), (False, True)):
                tensors = [first, second, first, second, first][:count]
                # Arguments that are written must not be shared between the runs.
                made = plain_arguments(
                    op._schema,
                    [
                        t.clone(memory_format=torch.preserve_format) if a.is_write else t
                        for t, a in zip(tensors, tensor_arguments(op))
                    ],
                    number,
                    flag,
                )
                difference = differences(op, *made)
                assert not difference, f"{[t.stride() for t in tensors]} {dtype} {number} {flag}: {difference}"
