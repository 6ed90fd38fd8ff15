#include "capture/call/bind.h"

namespace stator::capture {

bool BoundArguments::bind(const pycompat::Code& code, PyObject* function, PyObject* const* args, size_t positional,
                          PyObject* names) {
  if (!names && positional == static_cast<size_t>(code.argcount) && code.kwonlyargcount == 0 &&
      !(code.flags & (CO_VARARGS | CO_VARKEYWORDS))) {
    data_ = args;
    return true;
  }
  return bind_slowly(code, function, args, positional, names);
}

bool BoundArguments::bind_slowly(const pycompat::Code& code, PyObject* function, PyObject* const* args,
                                 size_t positional, PyObject* names) {
  size_t parameters = code.argcount, total = parameters + code.kwonlyargcount;
  size_t slots = total + code.has_varargs() + code.has_varkeywords();
  PyObject** to = inline_;
  if (slots > kInline) {
    heap_.resize(slots);
    to = heap_.data();
  }
  std::fill(to, to + slots, nullptr);
  data_ = to;
  size_t given = std::min(positional, parameters);
  std::copy(args, args + given, to);
  if (code.has_varargs()) {
    varargs_ = Ref::steal(PyTuple_New(positional - given));
    for (size_t i = given; i < positional; ++i)
      PyTuple_SET_ITEM(varargs_.get(), i - given, Ref::borrow(args[i]).release());
    to[total] = varargs_.get();
  } else if (positional > parameters) {
    return false;
  }
  if (code.has_varkeywords()) {
    varkeywords_ = Ref::steal(PyDict_New());
    to[total + code.has_varargs()] = varkeywords_.get();
  }
  size_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
  for (size_t k = 0; k < keywords; ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, k);
    size_t slot = code.posonlyargcount;
    while (slot < total && PyTuple_GET_ITEM(code.localsplus_names, slot) != name) ++slot;
    if (slot == total)
      for (slot = code.posonlyargcount; slot < total; ++slot)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(code.localsplus_names, slot), name) == 0) break;
    if (slot < total) {
      if (to[slot]) return false;
      to[slot] = args[positional + k];
    } else if (varkeywords_) {
      if (PyDict_SetItem(varkeywords_.get(), name, args[positional + k]) < 0) {
        PyErr_Clear();
        return false;
      }
    } else {
      return false;
    }
  }
  PyObject* defaults = PyFunction_GET_DEFAULTS(function);
  size_t count = defaults ? PyTuple_GET_SIZE(defaults) : 0;
  for (size_t slot = given; slot < parameters; ++slot) {
    if (to[slot]) continue;
    if (slot + count < parameters) return false;
    to[slot] = PyTuple_GET_ITEM(defaults, slot + count - parameters);
  }
  PyObject* keyword_defaults = PyFunction_GET_KW_DEFAULTS(function);
  for (size_t slot = parameters; slot < total; ++slot) {
    if (to[slot]) continue;
    to[slot] = keyword_defaults
                   ? PyDict_GetItemWithError(keyword_defaults, PyTuple_GET_ITEM(code.localsplus_names, slot))
                   : nullptr;
    if (!to[slot]) return false;
  }
  return true;
}

}  // namespace stator::capture
