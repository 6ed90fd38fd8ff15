#pragma once

#include <utility>
#include <vector>

#include "capture/interpreter/interpreter.h"

/// What opcode handlers share beyond the interpreter's own operations.
namespace stator::capture {

Value* load_cell(Interpreter& in, CellValue* cell);  // null: unbound
void store_cell(Interpreter& in, CellValue* cell, Value* value);
/// A null value deletes.
void store_global(Interpreter& in, PyObject* globals, PyObject* name, Value* value);
/// What the program wrote to these globals under that name; a null value was deleted.
std::optional<Value*> written_global(Interpreter& in, PyObject* globals, PyObject* name);
Value* import_name(Interpreter& in, Frame& frame, PyObject* name, Value* from_list, Value* level);

/// Raises the current Python error, which an operation on literals set, in the program's own terms.
[[noreturn]] void raise_current(Interpreter& in);
/// list.sort by CPython's rules (stable, `key` called once an item); breaks when items cannot be compared.
void sort_list(Interpreter& in, SequenceValue* list, Value* key, Value* reverse);
/// Items of anything that `**` or `dict.update` takes.
std::vector<std::pair<Value*, Value*>> mapping_items(Interpreter& in, Value* mapping);
/// Whether it is a mapping and not a sequence of pairs.
bool has_keys(Interpreter& in, Value* mapping);

/// Lets an outside dict stand for the attributes of the instance whose `__dict__` it is.
void adopt_dict(Interpreter& in, ObjectValue* object, DictValue* dict);
/// `__dict__` of an instance.
Value* instance_dict(Interpreter& in, ObjectValue* object);
/// object.__getattribute__: no __getattribute__ or __getattr__ of the class is asked. Null if there is nothing.
Value* generic_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// What the instance itself has, whatever its class says; null if nothing.
Value* own_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// object.__setattr__: no __setattr__ of the class is asked.
void plain_set_attr(Interpreter& in, ObjectValue* object, PyObject* name, Value* to);
/// A special method looked up on the class, bound to the object.
Value* type_method(Interpreter& in, Value* object, PyObject* name);
/// The built-in class whose __new__ makes the instances of a class in the end.
PyTypeObject* native_base(PyTypeObject* type);
/// type.__call__: __new__, then __init__.
Value* make_instance(Interpreter& in, PyTypeObject* type, CallArgs args);
/// A bare instance, as object.__new__ (or the built-in base) makes it.
Value* new_instance(Interpreter& in, PyTypeObject* type);
/// A StopIteration that left a generator's body becomes the RuntimeError that the program sees.
[[noreturn]] void raise_from_stop(Interpreter& in, Value* stop);
/// All items, where CPython would ask for their number first.
std::vector<Value*> unpack_hinted(Interpreter& in, Value* iterable);
/// Items of anything in reverse order, as `reversed` gives them; the iterator's class is that of the container's.
Value* reversed_items(Interpreter& in, Value* container);
/// The factory of a defaultdict, or None.
Value* default_factory(Interpreter& in, DictValue* dict);
/// What a missing key of a defaultdict gives: its factory's value, stored.
Value* missing_item(Interpreter& in, DictValue* dict, Value* key);
/// object.__delattr__.
void plain_del_attr(Interpreter& in, ObjectValue* object, PyObject* name);
[[noreturn]] void raise_no_attribute(Interpreter& in, Value* value, PyObject* name);
/// `yield from` reached the end of the inner generator: its return value takes the iterator's place.
void finish_send(Interpreter& in, Frame& frame, int target);

}  // namespace stator::capture
