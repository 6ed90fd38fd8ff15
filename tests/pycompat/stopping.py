"""Runs a function up to an instruction, reads the state of its frame, and continues in a new frame."""

import builtins
import dis
import sys
import types

import stator_pycompat_ext as ext

V = sys.version_info[:2]


class TrapBuiltins(dict):
    __getitem__ = ext.trap


def stack_depths(code):
    """Stack depth before each reachable instruction."""
    rows, exceptions, _ = ext.decode(code)
    raw = {i.offset // 2: i for i in dis.get_instructions(code)}
    ends = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
    depths, todo = {}, [(0, 0)]
    while todo:
        at, depth = todo.pop()
        if depths.setdefault(at, depth) != depth:
            raise AssertionError(f"{code}: depths {depths[at]} and {depth} at {rows[at]}")
        op, _, _, target, _, unit, _ = rows[at]
        new = [] if op in ends else [(at + 1, depth + effect(op, raw[unit], False))]
        if op == "CALL" and V == (3, 11):  # PRECALL shares the work
            new = [(at + 1, depth - raw[unit].arg - 1)]
        if target >= 0:
            jumped = depth - 1 if op == "FOR_ITER" else depth + effect(op, raw[unit], True)
            new = ([] if op == "JUMP" else new) + [(target, jumped)]
        for start, end, handler, base, lasti in exceptions:
            if start <= at < end:
                new.append((handler, base + lasti + 1))
        todo.extend(n for n in new if n[0] not in depths and n[0] < len(rows))
    return depths


def effect(op, instruction, jump):
    arg = instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(instruction.opcode, arg, jump=jump)


def stopping_copy(function, stop):
    """A copy of the function that stops before the instruction at `stop`; its code object is used once."""
    code = function.__code__
    units = bytearray(code.co_code) + bytes([dis.opmap["NOP"], 0]) * (code.co_stacksize + 2)
    units[2 * stop : 2 * stop + 2] = bytes([dis.opmap["LOAD_BUILD_CLASS"], 0])
    copied = code.replace(co_code=bytes(units), co_stacksize=code.co_stacksize + 1)
    scope = function.__globals__
    missing = object()
    kept = scope.get("__builtins__", missing)
    scope["__builtins__"] = TrapBuiltins()
    try:
        copy = types.FunctionType(copied, scope, function.__name__, function.__defaults__, function.__closure__)
    finally:
        if kept is missing:
            del scope["__builtins__"]
        else:
            scope["__builtins__"] = kept
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


class Stopped:
    """The state of a function before an instruction; `run` continues from there."""

    def __init__(self, function, stop, state):
        self.function, self.stop, (self.slots, self.stack, self.handled) = function, stop, state

    def run(self, throw=None):
        handled, self.handled = self.handled, None
        ext.set_handled(handled)
        handled = None
        if throw is None:
            return ext.resume(self.function, self.slots, self.stack, self.stop)
        return ext.resume(self.function, self.slots, self.stack, self.stop, throw)


def run_to(function, stop, depth, args, kwargs):
    """A `Stopped`, or None if the function ended before."""
    copy = stopping_copy(function, stop)
    before = sys.exception() if V >= (3, 11) else None
    ext.arm(copy.__code__, stop, depth, vars(builtins))
    try:
        copy(*args, **kwargs)
    except BaseException:
        if ext.disarm() is not None:
            raise
        return None
    finally:
        args = kwargs = None
    ext.set_handled(before)  # the copy may have stopped inside an exception handler
    state = ext.disarm()
    return None if state is None else Stopped(function, stop, state)
