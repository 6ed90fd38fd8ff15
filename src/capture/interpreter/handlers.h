#pragma once

#include <utility>
#include <vector>

#include "capture/interpreter/interpreter.h"

/// What opcode handlers share beyond the interpreter's own operations.
namespace stator::capture {

Value* load_cell(Interpreter& in, CellValue* cell);  // null: unbound
void store_cell(Interpreter& in, CellValue* cell, Value* value);
/// The globals of a frame as a value, for effects.
Value* globals_value(Interpreter& in, Frame& frame);
void store_global(Interpreter& in, Frame& frame, PyObject* name, Value* value);
Value* import_name(Interpreter& in, Frame& frame, PyObject* name, Value* from_list, Value* level);

Value* make_set(Interpreter& in, const std::vector<Value*>& items, PyTypeObject* type);
void add_to_set(Interpreter& in, SetValue* set, Value* item);
/// Raises the current Python error, which an operation on literals set, in the program's own terms.
[[noreturn]] void raise_current(Interpreter& in);
/// list.sort by CPython's rules (stable, `key` called once an item); breaks when items cannot be compared.
void sort_list(Interpreter& in, SequenceValue* list, Value* key, Value* reverse);
/// Items of anything that `**` or `dict.update` takes.
std::vector<std::pair<Value*, Value*>> mapping_items(Interpreter& in, Value* mapping);

/// `__dict__` of an instance.
Value* instance_dict(Interpreter& in, ObjectValue* object);
/// object.__getattribute__: no __getattribute__ or __getattr__ of the class is asked. Null if there is nothing.
Value* generic_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// object.__setattr__: no __setattr__ of the class is asked.
void plain_set_attr(Interpreter& in, ObjectValue* object, PyObject* name, Value* to);
/// A special method looked up on the class, bound to the object.
Value* type_method(Interpreter& in, Value* object, PyObject* name);
/// A bare instance, as object.__new__ (or the built-in base) makes it.
Value* new_instance(Interpreter& in, PyTypeObject* type);
bool exception_matches(Interpreter& in, Value* exception, Value* classes);
/// `yield from` reached the end of the inner generator: its return value takes the iterator's place.
void finish_send(Interpreter& in, Frame& frame, int target);

}  // namespace stator::capture
