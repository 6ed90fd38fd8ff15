#pragma once

#include "capture/interpreter/interpreter.h"

/// Attributes of instances. Lookups give null when there is none.
namespace stator::capture {

Value* builtin_instance_attr(Interpreter& in, Value* value, PyObject* name);

/// object.__getattribute__: no __getattribute__ or __getattr__ of the class is asked.
Value* generic_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// What the instance itself has, whatever its class says.
Value* own_attr(Interpreter& in, ObjectValue* object, PyObject* name);
/// A special method looked up on the class, bound to the object; raises if there is none.
Value* type_method(Interpreter& in, Value* object, PyObject* name);
/// Lets an outside dict stand for the attributes of the instance whose `__dict__` it is.
void adopt_dict(Interpreter& in, ObjectValue* object, DictValue* dict);
/// `__dict__` of an instance.
Value* instance_dict(Interpreter& in, ObjectValue* object);

/// What nn.Module keeps in its tables of parameters, buffers and submodules.
/// `holder` gets the table.
Value* module_member(Interpreter& in, ObjectValue* module, PyObject* name, DictValue** holder = nullptr);
/// The source of an instance's `__dict__`.
Source* instance_dict_source(Interpreter& in, Source* owner, PyObject* dict);

/// Whether it is a special method that built-in classes share, such as the ordinary lookup of attributes: each class
/// that names it has a wrapper of its own round the same C function.
template <class F>
bool wraps(PyObject* method, F* function) {
  return Py_TYPE(method) == &PyWrapperDescr_Type &&
         reinterpret_cast<PyWrapperDescrObject*>(method)->d_wrapped == reinterpret_cast<void*>(function);
}
/// Whether a class may have it as one of the methods that read and write attributes: a function, or a method of a
/// built-in class under another name.
inline bool is_accessor(PyObject* method) {
  return PyFunction_Check(method) || Py_TYPE(method) == &PyMethodDescr_Type || Py_TYPE(method) == &PyWrapperDescr_Type;
}
inline bool is_data_descriptor(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_set != nullptr; }
std::string text_of(PyObject* name);
[[noreturn]] void raise_no_attribute(Interpreter& in, Value* value, PyObject* name);
[[noreturn]] void unknown_attribute(PyTypeObject* type, PyObject* name, const char* why);

}  // namespace stator::capture
