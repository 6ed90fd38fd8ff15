#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Attributes of instances. Lookups give null if there is no such attribute.
namespace stator::capture {

Value* builtin_instance_attr(Interpreter& in, Value* value, PyObject* name);

/// An attribute of an instance, by its class's `__getattribute__` and `__getattr__`.
Value* object_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// object.__getattribute__: calls no __getattribute__ or __getattr__ of the class.
Value* generic_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// The instance's own value of the attribute, whatever its class has.
Value* own_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// The same for a real object at a source: guards the value, or that there is none.
Value* held_attribute(Interpreter& in, PyObject* instance, Source* source, PyObject* name);
/// Breaks if the `__dict__` of an external container is known to the program by another name too.
void refuse_shared_dict(Interpreter& in, const Value* container);
/// Makes a dict, which is the instance's `__dict__`, the holder of the instance's attributes.
void adopt_dict(Interpreter& in, ObjectValue* object, DictValue* dict);
/// `__dict__` of an instance.
Value* instance_dict(Interpreter& in, ObjectValue* object);

/// A parameter, buffer or submodule of an nn.Module; null if there is none. `holder` gets the dict that has it.
Value* module_member(Interpreter& in, ObjectValue* module, PyObject* name, DictValue** holder = nullptr);
/// The source of an instance's `__dict__`.
Source* instance_dict_source(Interpreter& in, Source* owner, PyObject* dict);

/// Whether the method is a wrapper around this C function. Built-in classes that share a slot function, such as the
/// ordinary attribute lookup, have a wrapper each.
template <class F>
bool wraps(PyObject* method, F* function) {
  return Py_TYPE(method) == &PyWrapperDescr_Type &&
         reinterpret_cast<PyWrapperDescrObject*>(method)->d_wrapped == reinterpret_cast<void*>(function);
}
/// Whether the method can be interpreted as `__getattr__` or one of its kind: a function, or a method of a built-in
/// class that was assigned under that name.
inline bool is_accessor(PyObject* method) {
  return PyFunction_Check(method) || Py_TYPE(method) == &PyMethodDescr_Type || Py_TYPE(method) == &PyWrapperDescr_Type;
}
inline bool is_data_descriptor(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_set != nullptr; }
[[noreturn]] void raise_no_attribute(Interpreter& in, Value* value, PyObject* name);
[[noreturn]] void unknown_attribute(PyTypeObject* type, PyObject* name, const char* why);

}  // namespace stator::capture
