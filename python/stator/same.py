"""`stator.testing.same`: whether two results are the same, up to rounding."""

from __future__ import annotations

import collections
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

_log = logging.getLogger("stator.testing")

_SEQUENCES = (list, tuple, collections.deque, torch.nn.ParameterList, torch.Size)
_PLAIN = (str, int, type(None), bool, torch.device, torch.dtype, bytes)
# Booleans that agree in this share of their union are the same, if that is asked for.
_IOU = 0.99
_COSINE = 0.99


@dataclass(frozen=True)
class Rules:
    """What counts as the same; see `same`."""

    tol: float = 1e-4
    cos_similarity: bool = False
    equal_nan: bool = False
    exact_dtype: bool = True
    relax_numpy_equality: bool = False
    ignore_non_fp: bool = False
    use_iou_for_bool: bool = False
    force_max_multiplier: bool = False
    use_larger_multiplier_for_smaller_tensor: bool = False
    compare_objects: bool = False


def rmse(ref: torch.Tensor, res: torch.Tensor) -> float:
    """The root of the mean squared difference, in double precision."""
    return math.sqrt(torch.mean(torch.square(_double(ref) - _double(res))).item()) if ref.numel() else 0.0


def same(ref: Any, res: Any, fp64_ref: Any = None, **rules: Any) -> bool:
    """Whether the result `res` is the same as the reference `ref`. What differs first is logged ("stator.testing").

    Lists, tuples and the like are compared by element, dicts by key, sets as a whole; tensors and floats by
    `|res - ref| <= tol + tol * |res|`. AssertionError if the kinds of objects differ, or the keys of dicts;
    RuntimeError for an object of a type that it does not know.

    fp64_ref: the same in double precision. If `tol` fails, the errors of `res` and `ref` against it are compared: that
        of `res` may be twice as large (three times for half precision and for small tensors).
    tol: 1e-4. cos_similarity: tensors may also point in the same direction instead.
    equal_nan: NaNs are the same. exact_dtype: dtypes must be the same.
    relax_numpy_equality: a NumPy scalar is the same as the Python number. ignore_non_fp: what has no floating point is
        not compared. use_iou_for_bool: booleans may differ in 1% of their union.
    force_max_multiplier, use_larger_multiplier_for_smaller_tensor: allow larger errors against `fp64_ref`.
    compare_objects: other objects are compared by their attributes.
    """
    return _same(ref, res, fp64_ref, Rules(**rules))


def bitwise_same(ref: Any, res: Any, equal_nan: bool = False) -> bool:
    """`same` without tolerance."""
    return same(ref, res, tol=0, equal_nan=equal_nan)


def _same(ref: Any, res: Any, referee: Any, rules: Rules) -> bool:
    if isinstance(ref, _SEQUENCES):
        return _same_sequences(ref, res, referee, rules)
    if isinstance(ref, dict):
        return _same_dicts(ref, res, referee, rules)
    if isinstance(ref, (set, frozenset)):
        assert set(ref) == set(res), f"the sets differ: {ref!r} and {res!r}"
        return True
    if isinstance(ref, (torch.Tensor, float)):
        return _same_tensors(ref, res, referee, rules)
    if isinstance(ref, _PLAIN):
        return _logged(rules.ignore_non_fp or ref == res, "%r is not %r", res, ref)
    if type(ref).__module__ == "numpy":
        return _same_numpy(ref, res, referee, rules)
    if rules.compare_objects and hasattr(ref, "__dict__"):
        assert type(ref) is type(res), f"{type(ref)} and {type(res)}"
        return all(
            _logged(_same(vars(ref)[name], getattr(res, name), _attribute(referee, name), rules), "attribute %s", name)
            for name in vars(ref)
        )
    raise RuntimeError(f"values of type {type(ref).__name__} cannot be compared")


def _attribute(referee: Any, name: str) -> Any:
    return getattr(referee, name, None)


def _logged(ok: bool, text: str, *args: Any) -> bool:
    if not ok:
        _log.error("different: " + text, *args)
    return ok


def _same_sequences(ref: Any, res: Any, referee: Any, rules: Rules) -> bool:
    assert isinstance(res, _SEQUENCES), f"{type(ref)} and {type(res)}"
    if len(ref) != len(res):
        return _logged(False, "lengths %d and %d", len(ref), len(res))
    referees = [None] * len(ref) if referee is None else referee
    return all(_same(a, b, c, rules) for a, b, c in zip(ref, res, referees, strict=True))


def _same_dicts(ref: dict[Any, Any], res: Any, referee: Any, rules: Rules) -> bool:
    assert isinstance(res, dict), f"{type(ref)} and {type(res)}"
    assert set(ref) == set(res), f"the keys differ: {set(ref)} and {set(res)}"
    return all(
        _logged(_same(ref[key], res[key], None if referee is None else referee[key], rules), "key %r", key)
        for key in sorted(ref, key=str)
    )


def _same_numpy(ref: Any, res: Any, referee: Any, rules: Rules) -> bool:
    import numpy as np

    if isinstance(ref, np.ndarray):
        assert type(ref) is type(res), f"{type(ref)} and {type(res)}"
        other = None if referee is None else torch.as_tensor(referee)
        return _same_tensors(torch.as_tensor(ref), torch.as_tensor(res), other, rules)
    if type(ref) is not type(res) and not (rules.relax_numpy_equality and isinstance(res, (int, float, np.generic))):
        return _logged(False, "types %s and %s", type(ref).__name__, type(res).__name__)
    return _logged(bool(ref == res) or (rules.equal_nan and ref != ref and res != res), "%r is not %r", res, ref)


# ---- tensors


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)


def _as_tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)


def _same_tensors(ref: Any, res: Any, referee: Any, rules: Rules) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    assert isinstance(res, (torch.Tensor, float)), f"{type(ref)} and {type(res)}"
    assert not isinstance(ref, FakeTensor) and not isinstance(res, FakeTensor), "a tensor without data"
    ref, res = _as_tensor(ref).detach(), _as_tensor(res).detach()
    referee = None if referee is None else _as_tensor(referee).detach()
    if ref.layout is not torch.strided or res.layout is not torch.strided:
        assert ref.layout is not torch.strided and res.layout is not torch.strided, "only one of the tensors is sparse"
        ref, res = ref.to_dense(), res.to_dense()
        referee = referee if referee is None or referee.layout is torch.strided else referee.to_dense()
    if rules.exact_dtype and ref.dtype is not res.dtype:
        return _logged(False, "dtypes %s and %s", ref.dtype, res.dtype)
    if ref.shape != res.shape:
        return _logged(False, "sizes %s and %s", tuple(ref.shape), tuple(res.shape))
    if ref.dtype is torch.bool and res.dtype is torch.bool:
        return rules.ignore_non_fp or _same_booleans(ref, res, rules)
    if not rules.exact_dtype:
        ref = ref.to(res.dtype)
    if not (ref.is_floating_point() or ref.is_complex()):
        return _logged(rules.ignore_non_fp or _is_close(ref, res, rules), "integers")
    if rules.cos_similarity:
        return _same_direction(ref, res, rules)
    if _is_close(ref, res, rules):
        return True
    if referee is not None and _is_as_exact(ref, res, referee, rules):
        return True
    if referee is None:
        difference = (_double(ref) - _double(res)).abs()
        largest = difference[~difference.isnan()].max().item() if (~difference.isnan()).any() else math.nan
        _log.error("different: by up to %g, sizes %s, %s, tol %g", largest, tuple(ref.shape), ref.dtype, rules.tol)
    return False


def _is_close(ref: torch.Tensor, res: torch.Tensor, rules: Rules) -> bool:
    if not ref.is_floating_point() and not ref.is_complex() and rules.tol < 1:
        return torch.equal(ref, res)
    return torch.allclose(_double(ref), _double(res), atol=rules.tol, rtol=rules.tol, equal_nan=rules.equal_nan)


def _same_booleans(ref: torch.Tensor, res: torch.Tensor, rules: Rules) -> bool:
    if not rules.use_iou_for_bool:
        return _logged(torch.equal(ref, res), "booleans differ in %d places", int((ref != res).sum()))
    both, either = int((ref & res).sum()), int((ref | res).sum())
    share = both / either if either else 1.0
    return _logged(share >= _IOU, "%d of %d booleans agree, sizes %s", both, either, tuple(ref.shape))


def _same_direction(ref: torch.Tensor, res: torch.Tensor, rules: Rules) -> bool:
    a, b = ref.flatten().to(torch.float32), res.flatten().to(torch.float32)
    if torch.allclose(a, b, atol=rules.tol, rtol=rules.tol, equal_nan=True):
        return True
    score = torch.nn.functional.cosine_similarity(a, b, dim=0, eps=1e-6).item()
    return _logged(score >= _COSINE, "cosine similarity %f", score)


def _multiplier(res: torch.Tensor, rules: Rules) -> float:
    """How much larger the error of the result may be than that of the reference."""
    if rules.force_max_multiplier:
        return 10
    if rules.use_larger_multiplier_for_smaller_tensor and res.numel() <= 10:
        return 10
    if rules.use_larger_multiplier_for_smaller_tensor and res.numel() <= 500:
        return 8
    is_small = res.numel() < 1000 or (res.ndim == 4 and res.shape[-1] == res.shape[-2] == 1)
    if is_small or rules.tol >= 2e-2 or res.dtype in (torch.float16, torch.bfloat16):
        return 3
    return 2


def _is_as_exact(ref: torch.Tensor, res: torch.Tensor, referee: torch.Tensor, rules: Rules) -> bool:
    is_nan: Callable[[torch.Tensor], bool] = lambda tensor: bool(tensor.isnan().any())  # noqa: E731
    if is_nan(ref):
        if not is_nan(res) and not is_nan(referee):
            # The reference overflowed, and the result did not.
            if torch.allclose(_double(res), _double(referee), atol=0.04, rtol=0.04):
                return True
        elif rules.equal_nan and is_nan(res):
            return True
    allowed = _multiplier(res, rules)
    ref_error, res_error = rmse(referee, ref), rmse(referee, res)
    ok = res_error <= allowed * ref_error + rules.tol / 10
    return _logged(
        ok,
        "errors %g and %g against double precision, sizes %s, %s, multiplier %g, tol %g",
        res_error,
        ref_error,
        tuple(res.shape),
        res.dtype,
        allowed,
        rules.tol,
    )
