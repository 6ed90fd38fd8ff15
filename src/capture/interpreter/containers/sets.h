#pragma once

#include <vector>

#include "capture/interpreter/protocol/interpreter.h"

/// Sets, set parts of instances, and set-like views.
namespace stator::capture {

/// A set of these elements, in the order given.
SetValue* make_set(Interpreter& in, const std::vector<Value*>& items, PyTypeObject* type);
/// `set(iterable)` or `frozenset(iterable)`.
SetValue* set_from(Interpreter& in, Value* iterable, PyTypeObject* type);
/// `set.update(iterable)`.
void set_merge(Interpreter& in, SetValue* set, Value* iterable);
size_t set_size(const SetValue* set);
/// All elements in the set's order. Breaks if the order depends on addresses.
std::vector<Value*> set_items(Interpreter& in, SetValue* set);
bool set_has(Interpreter& in, SetValue* set, Value* item);
/// Changes a set and logs the effect if it is an external one.
void set_insert(Interpreter& in, SetValue* set, Value* item);
bool set_remove(Interpreter& in, SetValue* set, Value* item);
void set_empty(Interpreter& in, SetValue* set);
/// An independent copy.
SetValue* set_copy(Interpreter& in, SetValue* set, PyTypeObject* type);
/// The value as a set, where set methods accept any iterable.
SetValue* as_set(Interpreter& in, Value* value);
/// `&`, `|`, `-`, `^` by BinaryOp.
SetValue* set_combine(Interpreter& in, int op, SetValue* a, SetValue* b);
/// `&=`, `|=`, `-=`, `^=` by the number of the plain operator.
void set_change(Interpreter& in, int op, SetValue* set, SetValue* by);
/// `<=` and friends by Py_LT ...
bool set_compare(Interpreter& in, int op, SetValue* a, SetValue* b);

/// The value of an external set or instance of a subclass; its elements are guarded.
SetValue* external_set(Interpreter& in, PyObject* object, Source* source);
/// The set part of a value: itself, or the base of an instance of a subclass. Null for anything else.
SetValue* set_part(Interpreter& in, Value* value);
/// The value as an operand of set operators: sets, frozensets and set-like dict views. Null for anything else.
SetValue* set_operand(Interpreter& in, Value* value);

}  // namespace stator::capture
