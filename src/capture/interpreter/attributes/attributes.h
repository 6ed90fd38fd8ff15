#pragma once

#include "capture/interpreter/interpreter.h"

/// Attribute lookup by kind of owner. Null when there is none.
namespace stator::capture {

Value* constant_attr(Interpreter& in, ConstantValue* constant, PyObject* name);
Value* class_object_attr(Interpreter& in, PyTypeObject* type, PyObject* name);
Value* super_attr(Interpreter& in, SuperValue* super, PyObject* name);
Value* function_attr(Interpreter& in, FunctionValue* function, PyObject* name);
/// What the program wrote to a class or one of its bases, where the lookup finds it; null if nothing.
Value* written_class_attr(Interpreter& in, PyTypeObject* type, PyObject* name);
void set_function_attr(Interpreter& in, FunctionValue* function, PyObject* name, Value* to);
Value* builtin_instance_attr(Interpreter& in, Value* value, PyObject* name);

/// What nn.Module keeps in its tables of parameters, buffers and submodules.
/// `holder` gets the table.
Value* module_member(Interpreter& in, ObjectValue* module, PyObject* name, DictValue** holder = nullptr);
/// The source of an instance's `__dict__`.
Source* instance_dict_source(Interpreter& in, Source* owner, PyObject* dict);

inline bool is_data_descriptor(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_set != nullptr; }
std::string text_of(PyObject* name);
[[noreturn]] void unknown_attribute(PyTypeObject* type, PyObject* name, const char* why);

}  // namespace stator::capture
