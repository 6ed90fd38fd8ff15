#include "bindings/backend_bindings.h"

#include "capture/pycompat/ref.h"
#include "compile/native_backend.h"
#include "core/backend/registry.h"

namespace stator::bindings {
namespace {

Ref text_object(const std::string& text) {
  return Ref::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

Ref option_object(const backend::OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return Ref::borrow(*flag ? Py_True : Py_False);
  if (const auto* number = std::get_if<int64_t>(&value)) return Ref::steal(PyLong_FromLongLong(*number));
  if (const auto* number = std::get_if<double>(&value)) return Ref::steal(PyFloat_FromDouble(*number));
  return text_object(std::get<std::string>(value));
}

/// False with a Python error set for a value of another type.
bool read_option(PyObject* object, const char* name, backend::OptionValue& into) {
  if (PyBool_Check(object)) {
    into = object == Py_True;
  } else if (PyLong_Check(object)) {
    into = static_cast<int64_t>(PyLong_AsLongLong(object));
  } else if (PyFloat_Check(object)) {
    into = PyFloat_AS_DOUBLE(object);
  } else if (PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text) into = std::string(text, static_cast<size_t>(size));
  } else {
    PyErr_Format(PyExc_ValueError, "option '%s' is a %s; options are bool, int, float or str", name,
                 Py_TYPE(object)->tp_name);
  }
  return !PyErr_Occurred();
}

/// (name, tuple of aliases, {option: (default, help)})
Ref backend_row(const backend::Backend& backend) {
  Ref aliases = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(backend.aliases.size())));
  for (size_t i = 0; aliases && i < backend.aliases.size(); ++i)
    PyTuple_SET_ITEM(aliases.get(), static_cast<Py_ssize_t>(i), text_object(backend.aliases[i]).release());
  Ref options = Ref::steal(PyDict_New());
  for (const backend::OptionSpec& spec : backend.options) {
    Ref row = Ref::steal(Py_BuildValue("(Os)", option_object(spec.default_value).get(), spec.help.c_str()));
    if (!row || !options || PyDict_SetItemString(options.get(), spec.name.c_str(), row.get()) < 0) return Ref();
  }
  return Ref::steal(Py_BuildValue("(sOO)", backend.name.c_str(), aliases.get(), options.get()));
}

/// native_backends() -> rows of the backends in C++, the default first.
PyObject* py_native_backends(PyObject*, PyObject*) {
  Ref rows = Ref::steal(PyList_New(0));
  for (const backend::Backend* backend : backend::all_backends()) {
    Ref row = backend_row(*backend);
    if (!row || !rows || PyList_Append(rows.get(), row.get()) < 0) return nullptr;
  }
  return rows.release();
}

/// native_backend(name, {option: value}) -> (what `CompiledFunction` takes as `compiler`, cache key). ValueError for an
/// unknown backend or option.
PyObject* py_native_backend(PyObject*, PyObject* args) {
  const char* name;
  PyObject* given;
  if (!PyArg_ParseTuple(args, "sO!", &name, &PyDict_Type, &given)) return nullptr;
  const backend::Backend* found = backend::find_backend(name);
  if (!found) return PyErr_Format(PyExc_ValueError, "no native backend is named '%s'", name);
  backend::Options options;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(given, &at, &key, &value);) {
    const char* option = PyUnicode_AsUTF8(key);
    if (!option || !read_option(value, option, options[option])) return nullptr;
  }
  try {
    auto choice = std::make_shared<const backend::Choice>(*found, std::move(options));
    Ref cache_key = text_object(choice->cache_key());
    Ref capsule = native_backend_object(std::move(choice));
    return capsule && cache_key ? PyTuple_Pack(2, capsule.get(), cache_key.get()) : nullptr;
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  }
}

PyMethodDef backend_functions[] = {{"native_backends", py_native_backends, METH_NOARGS, nullptr},
                                   {"native_backend", py_native_backend, METH_VARARGS, nullptr},
                                   {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_backend_bindings(PyObject* module) { return PyModule_AddFunctions(module, backend_functions) == 0; }

}  // namespace stator::bindings
