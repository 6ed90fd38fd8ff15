#include "capture/call/bind.h"

namespace stator::capture {
namespace {

/// The number of named parameters.
size_t parameter_count(const pycompat::Code& code) {
  return static_cast<size_t>(code.argcount) + static_cast<size_t>(code.kwonlyargcount);
}

/// The slot of the parameter that can be passed by this name; `parameter_count` if there is none.
size_t slot_of(const pycompat::Code& code, PyObject* name) {
  const size_t end = parameter_count(code);
  for (size_t slot = code.posonlyargcount; slot < end; ++slot)
    if (PyTuple_GET_ITEM(code.localsplus_names, slot) == name) return slot;
  for (size_t slot = code.posonlyargcount; slot < end; ++slot)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(code.localsplus_names, slot), name) == 0) return slot;
  return end;
}

}  // namespace

bool BoundArguments::bind(const pycompat::Code& code, PyObject* function, PyObject* const* args, size_t positional,
                          PyObject* names) {
  if (!names && positional == static_cast<size_t>(code.argcount) && code.kwonlyargcount == 0 &&
      !(code.flags & (CO_VARARGS | CO_VARKEYWORDS))) {
    data_ = args;
    return true;
  }
  return bind_slowly({code, function, args, positional, names});
}

bool BoundArguments::bind_slowly(const Call& call) {
  const size_t slots = call.code.parameter_slots();
  PyObject** to = inline_;
  if (slots > kInline) {
    heap_.resize(slots);
    to = heap_.data();
  }
  std::fill(to, to + slots, nullptr);
  data_ = to;
  return bind_positional(call, to) && bind_keywords(call, to) && fill_defaults(call, to);
}

bool BoundArguments::bind_positional(const Call& call, PyObject** to) {
  const size_t given = std::min(call.positional, static_cast<size_t>(call.code.argcount));
  std::copy(call.args, call.args + given, to);
  if (!call.code.has_varargs()) return call.positional == given;
  varargs_ = Ref::steal(PyTuple_New(call.positional - given));
  for (size_t i = given; i < call.positional; ++i)
    PyTuple_SET_ITEM(varargs_.get(), i - given, Ref::borrow(call.args[i]).release());
  to[parameter_count(call.code)] = varargs_.get();
  return true;
}

bool BoundArguments::bind_keywords(const Call& call, PyObject** to) {
  const size_t parameters = parameter_count(call.code);
  if (call.code.has_varkeywords()) {
    varkeywords_ = Ref::steal(PyDict_New());
    to[parameters + call.code.has_varargs()] = varkeywords_.get();
  }
  const size_t keywords = call.names ? PyTuple_GET_SIZE(call.names) : 0;
  for (size_t k = 0; k < keywords; ++k) {
    PyObject *name = PyTuple_GET_ITEM(call.names, k), *value = call.args[call.positional + k];
    const size_t slot = slot_of(call.code, name);
    if (slot < parameters) {
      if (to[slot]) return false;
      to[slot] = value;
    } else if (!varkeywords_) {
      return false;
    } else if (PyDict_SetItem(varkeywords_.get(), name, value) < 0) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

bool BoundArguments::fill_defaults(const Call& call, PyObject** to) {
  const size_t parameters = call.code.argcount, total = parameter_count(call.code);
  PyObject* defaults = PyFunction_GET_DEFAULTS(call.function);
  const size_t count = defaults ? PyTuple_GET_SIZE(defaults) : 0;
  for (size_t slot = std::min(call.positional, parameters); slot < parameters; ++slot) {
    if (to[slot]) continue;
    if (slot + count < parameters) return false;
    to[slot] = PyTuple_GET_ITEM(defaults, slot + count - parameters);
  }
  PyObject* keyword_defaults = PyFunction_GET_KW_DEFAULTS(call.function);
  for (size_t slot = parameters; slot < total; ++slot) {
    if (to[slot]) continue;
    if (!keyword_defaults) return false;
    to[slot] = PyDict_GetItemWithError(keyword_defaults, PyTuple_GET_ITEM(call.code.localsplus_names, slot));
    if (!to[slot]) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

}  // namespace stator::capture
