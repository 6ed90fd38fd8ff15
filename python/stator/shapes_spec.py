"""`compile(shapes_spec=...)`: torch's statement of which sizes and ints of the arguments vary, and what holds for them.

A spec has slots: dimensions of tensors, and ints, each named by the path of guards (`x.size(0)`, `d['k']`). The first
slot of a variable binds it; for other slots the spec states conditions over slots. The extension assumes those of the
slots that a capture used, and the graph verifies them.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from .errors import ConstraintViolation, InvalidOption
from .spec_expressions import Expression, shown, slots_in, translated, value


def normal(spec: Any) -> Any:
    """The spec as torch's ShapesSpec."""
    if spec is None:
        return None
    from torch.fx.experimental.dynamic_spec import ShapesSpec

    return spec if isinstance(spec, ShapesSpec) else ShapesSpec(spec)


class _Step(NamedTuple):
    is_attribute: bool
    key: Any

    def text(self) -> str:
        return f".{self.key}" if self.is_attribute else f"[{self.key!r}]"


class _Leaf(NamedTuple):
    """What the spec says of one tensor or int."""

    root: str
    steps: tuple[_Step, ...]
    spec: Any

    def text(self) -> str:
        return self.root + "".join(step.text() for step in self.steps)

    def find(self, arguments: Mapping[str, Any]) -> Any:
        """The object there; None if the call has none."""
        found: Any = arguments.get(self.root)
        try:
            for step in self.steps:
                found = getattr(found, step.key) if step.is_attribute else found[step.key]
        except (LookupError, AttributeError, TypeError):
            return None
        return found


class Spec:
    """A spec for the arguments of one compiled function."""

    def __init__(self, spec: Any, fn: types.FunctionType):
        from torch.fx.experimental import dynamic_spec

        self._torch = dynamic_spec
        self._signature = _own_signature(fn)
        self._parameters = fn.__code__.co_varnames
        self._leaves = {leaf.text(): leaf for leaf in self._all_leaves(spec, fn)}
        self._assumptions = [each.node.expr for each in spec.assumptions]
        self._names = {each.sympy_sym: each.name for each in self._variables()}
        self._check_expressions()
        self.used: set[str] = set()
        self._wiring: Wiring | None = None
        # Read by the extension: how many dimensions a tensor has, and those that vary; the ints that vary. What is
        # stated as something else is listed as well, so that it is found to be wrong where it is used.
        self.tensors = {text: self._dimensions(leaf.spec) for text, leaf in self._leaves.items()}
        self.ints = frozenset(text for text, leaf in self._leaves.items() if isinstance(leaf.spec, torch.SymInt))
        self.constants = self._leaves.keys() - self.ints

    def begin(self) -> Wiring:
        """For one attempt to capture."""
        self._wiring = Wiring(self)
        return self._wiring

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Raises ConstraintViolation if a statement about arguments that any capture used does not hold for a call."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self._check(bound.arguments, self.used)

    def check_slots(self, values: tuple[Any, ...]) -> None:
        """The same for what the last attempt used. `values`: of the parameters, in the order of variables."""
        wiring, self._wiring = self._wiring, None
        if wiring is not None:
            self._check(dict(zip(self._parameters, values, strict=False)), wiring.used)

    def _check(self, arguments: Mapping[str, Any], used: set[str]) -> None:
        wiring, slots = Wiring(self), dict[str, int]()
        for text, leaf in self._leaves.items():
            found = leaf.find(arguments) if text in used else None
            if found is None:
                continue
            self._check_leaf(text, leaf.spec, found)
            if isinstance(found, torch.Tensor):
                slots |= {_size(text, dim): size for dim, size in enumerate(found.shape)}
            else:
                slots[text] = found
            for condition in wiring.bind(text):
                self._check_condition(condition, slots)

    def slots_of(self, text: str) -> Iterator[tuple[str, Any]]:
        """The names of the slots there that vary, and the variable or expression of each."""
        spec = self._leaves[text].spec
        if isinstance(spec, torch.SymInt):
            yield text, spec
        elif isinstance(spec, self._torch.TensorSpec):
            for dim, each in enumerate(spec):
                if isinstance(each, torch.SymInt):
                    yield _size(text, dim), each

    def is_variable(self, spec: Any) -> bool:
        return isinstance(spec, self._torch.IntVar)

    @property
    def assumptions(self) -> list[Any]:
        return self._assumptions

    def _all_leaves(self, spec: Any, fn: types.FunctionType) -> Iterator[_Leaf]:
        params = spec._params
        if params is None:
            return
        for root, steps, each in _roots(params, fn):
            yield from self._leaves_of(root, steps, each)

    def _leaves_of(self, root: str, steps: tuple[_Step, ...], spec: Any) -> Iterator[_Leaf]:
        torchs = self._torch
        if spec is None:
            return
        if isinstance(spec, torchs.SeqSpec):
            below: Any = ((_Step(False, index), each) for index, each in enumerate(spec._entries))
        elif isinstance(spec, (torchs.ObjectSpec, torchs.DictSpec)):
            below = ((_Step(isinstance(spec, torchs.ObjectSpec), key), each) for key, each in spec.items())
        elif isinstance(spec, (torchs.TensorSpec, torch.SymInt, int)):
            yield _Leaf(root, steps, spec)
            return
        else:
            raise InvalidOption(f"shapes_spec has a {type(spec).__name__} for {root}: {spec!r}")
        for step, each in below:
            yield from self._leaves_of(root, (*steps, step), each)

    @staticmethod
    def _dimensions(spec: Any) -> tuple[int, int]:
        if isinstance(spec, int | torch.SymInt):
            return -1, 0
        return len(spec), sum(1 << dim for dim, each in enumerate(spec) if isinstance(each, torch.SymInt))

    def _variables(self) -> Iterator[Any]:
        """Those that have a slot of their own."""
        return (each for text in self._leaves for _, each in self.slots_of(text) if self.is_variable(each))

    def _check_expressions(self) -> None:
        """Raises InvalidOption for an expression that cannot be computed."""
        derived = (each for text in self._leaves for _, each in self.slots_of(text) if not self.is_variable(each))
        for expression in (*self._assumptions, *(each.node.expr for each in derived)):
            unbound = sorted(each.name.partition("#")[0] for each in expression.free_symbols - self._names.keys())
            if unbound:
                raise InvalidOption(
                    f"shapes_spec: {expression} has variables that are no dimension and no int of the spec: "
                    f"{', '.join(unbound)}",
                    hint="put each variable of a derived dimension or an assumption into a slot of its own",
                )
            translated(expression, self._names)

    def _check_leaf(self, text: str, spec: Any, found: Any) -> None:
        def wrong(stated: str) -> ConstraintViolation:
            return ConstraintViolation(f"shapes_spec states {stated}", hint="call the function as its shapes_spec says")

        if not isinstance(spec, self._torch.TensorSpec):
            if type(found) is not int:
                raise wrong(f"that {text} is an int, but it is of type {type(found).__name__}")
            if not isinstance(spec, torch.SymInt) and found != spec:
                raise wrong(f"that {text} is {spec}, but it is {found}")
            return
        if not isinstance(found, torch.Tensor):
            raise wrong(f"that {text} is a tensor, but it is of type {type(found).__name__}")
        if found.dim() != len(spec):
            raise wrong(f"{len(spec)} dimensions for {text}, but it has {found.dim()}")
        for dim, (stated, size) in enumerate(zip(spec, found.shape, strict=True)):
            if isinstance(stated, int) and size != stated:
                raise wrong(f"that {_size(text, dim)} is {stated}, but it is {size}")

    def _check_condition(self, condition: Expression, slots: Mapping[str, int]) -> None:
        try:
            holds = value(condition, slots)
        except (ArithmeticError, ValueError):
            holds = False
        if holds:
            return
        values = ", ".join(f"{name} is {slots[name]}" for name in dict.fromkeys(slots_in(condition)))
        raise ConstraintViolation(
            f"shapes_spec states {shown(condition)}, but {values}", hint="call the function as its shapes_spec says"
        )


class _Pending(NamedTuple):
    """A condition: an expression that holds, or that a slot is equal to."""

    expression: Any
    slot: Expression | None

    def is_due(self, bound: Mapping[Any, str]) -> bool:
        return self.expression.free_symbols <= bound.keys()

    def condition(self, bound: Mapping[Any, str]) -> Expression:
        stated = translated(self.expression, bound)
        return stated if self.slot is None else ("eq", self.slot, stated)


class Wiring:
    """Which slots bind the variables of a spec, in the order in which one attempt uses the arguments."""

    def __init__(self, spec: Spec):
        self._spec = spec
        self.used: set[str] = set()
        self._bound: dict[Any, str] = {}
        self._pending = [_Pending(each, None) for each in spec.assumptions]  # variables of these are not bound

    def bind(self, text: str) -> list[Expression]:
        """The conditions that are known once the tensor or int there is used."""
        self.used.add(text)
        self._spec.used.add(text)
        known: list[Expression] = []
        for name, spec in self._spec.slots_of(text):
            slot = ("slot", name)
            if not self._spec.is_variable(spec):
                self._pending.append(_Pending(spec.node.expr, slot))
            elif (first := self._bound.setdefault(spec.sympy_sym, name)) != name:
                known.append(("eq", slot, ("slot", first)))
            else:
                known += [(op, slot, bound) for op, bound in (("ge", spec.min), ("le", spec.max)) if bound is not None]
        due = [each for each in self._pending if each.is_due(self._bound)]
        self._pending = [each for each in self._pending if not each.is_due(self._bound)]
        return known + [each.condition(self._bound) for each in due]


def _size(text: str, dim: int) -> str:
    return f"{text}.size({dim})"


def _roots(params: Any, fn: types.FunctionType) -> Iterator[tuple[str, tuple[_Step, ...], Any]]:
    """The specs of the parameters, with the path of each from a variable of the frame that is captured."""
    called = _called(fn)
    names = list(_parameters_of(called) if called is not None else _own_signature(fn).parameters.values())
    positional = [each.name for each in names if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    rest = next((each.name for each in names if each.kind is each.VAR_POSITIONAL), "args")
    named_rest = next((each.name for each in names if each.kind is each.VAR_KEYWORD), "kwargs")
    if called is not None:
        rest, named_rest = "args", "kwargs"
    for name, spec in params._named_args.items():
        if called is None:
            yield name, (), spec
            continue
        yield named_rest, (_Step(False, name),), spec
        if name in positional:
            yield rest, (_Step(False, positional.index(name)),), spec
    first = len(positional) if called is not None else 0
    for index, spec in enumerate(params._varargs or ()):
        yield rest, (_Step(False, first + index),), spec
    for name, spec in (params._varkw or {}).items():
        yield named_rest, (_Step(False, name),), spec


def _own_signature(fn: types.FunctionType) -> inspect.Signature:
    """Of the function's own code, whatever a decorator copied to it."""
    plain = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    plain.__kwdefaults__ = fn.__kwdefaults__
    return inspect.signature(plain)


def _parameters_of(called: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):  # a C function without a signature
        return []


def _called(fn: types.FunctionType) -> Any:
    """What one of our functions that passes all arguments on calls; None for a function of the program."""
    from . import modules, targets

    if all(fn.__globals__ is not vars(each) for each in (modules, targets)):
        return None
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    if "target" in cells:
        return cells["target"].cell_contents
    return cells["self"].cell_contents.forward if "self" in cells else None
