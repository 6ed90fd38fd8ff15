#pragma once

#include <vector>

#include "capture/interpreter/interpreter.h"

/// Sets, and those that other values are, or have as a part.
namespace stator::capture {

/// A set of these elements, in the order given.
SetValue* make_set(Interpreter& in, const std::vector<Value*>& items, PyTypeObject* type);
/// `set(iterable)` or `frozenset(iterable)`.
SetValue* set_from(Interpreter& in, Value* iterable, PyTypeObject* type);
/// `set.update(iterable)`.
void set_merge(Interpreter& in, SetValue* set, Value* iterable);
size_t set_size(const SetValue* set);
/// All elements in the set's own order. Breaks where that order hangs on addresses and could be seen.
std::vector<Value*> set_items(Interpreter& in, SetValue* set);
bool set_has(Interpreter& in, SetValue* set, Value* item);
/// Changes a set and logs the effect if it is an outside one.
void set_insert(Interpreter& in, SetValue* set, Value* item);
bool set_remove(Interpreter& in, SetValue* set, Value* item);
void set_empty(Interpreter& in, SetValue* set);
/// A copy that changes on its own.
SetValue* set_copy(Interpreter& in, SetValue* set, PyTypeObject* type);
/// The set that a value is, or that it is made into where set methods take any iterable.
SetValue* as_set(Interpreter& in, Value* value);
/// `&`, `|`, `-`, `^` by BinaryOp.
SetValue* set_combine(Interpreter& in, int op, SetValue* a, SetValue* b);
/// `&=`, `|=`, `-=`, `^=` by the number of the plain operator.
void set_change(Interpreter& in, int op, SetValue* set, SetValue* by);
/// `<=` and friends by Py_LT ...
bool set_compare(Interpreter& in, int op, SetValue* a, SetValue* b);

/// The set that an outside one, or an instance of a subclass, is; its elements are guarded.
SetValue* outside_set(Interpreter& in, PyObject* object, Source* source);
/// The set part of a value: itself, or the base of an instance of a subclass. Null for anything else.
SetValue* set_part(Interpreter& in, Value* value);
/// What set operators take: sets, frozensets and the set-like views of dicts. Null for anything else.
SetValue* set_operand(Interpreter& in, Value* value);

}  // namespace stator::capture
