#include "bindings/fake_bindings.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "bindings/symbolic_fakes.h"
#include "capture/call/host_hooks.h"
#include "capture/call/python_node.h"
#include "capture/pycompat/ref.h"
#include "capture/pycompat/text.h"
#include "capture/tensors/tensor_object.h"
#include "core/fake/fake_tensor.h"
#include "core/observe/counters.h"
#include "core/tracer/tracer.h"

namespace stator::bindings {
using namespace capture;

namespace {

PyObject* py_install(PyObject*, PyObject*) {
  const std::string reason = fake::install();
  return PyUnicode_FromStringAndSize(reason.data(), static_cast<Py_ssize_t>(reason.size()));
}

/// from_reals(sequence of tensors) -> list of fakes, which share storages as the real tensors do.
PyObject* py_from_reals(PyObject*, PyObject* reals) {
  return handle_errors([&]() -> PyObject* {
    PyObject* sequence = PySequence_Fast(reals, "from_reals takes a sequence of tensors");
    if (!sequence) return nullptr;
    fake::FakeMode mode;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
    PyObject* result = PyList_New(count);
    for (Py_ssize_t i = 0; result && i < count; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(sequence, i);
      PyObject* made = nullptr;
      if (!is_tensor_object(item)) {
        PyErr_SetString(PyExc_TypeError, "from_reals takes a sequence of tensors");
      } else {
        try {
          made = wrap_tensor(mode.from_real(tensor_of(item)));
        } catch (...) {
          Py_DECREF(result);
          Py_DECREF(sequence);
          throw;
        }
      }
      if (!made) {
        Py_CLEAR(result);
        break;
      }
      PyList_SET_ITEM(result, i, made);
    }
    Py_DECREF(sequence);
    return result;
  });
}

PyObject* py_is_fake(PyObject*, PyObject* value) {
  if (!is_tensor_object(value)) Py_RETURN_FALSE;
  return PyBool_FromLong(fake::is_fake(tensor_of(value)));
}

PyObject* py_scope(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  const bool before = c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake);
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, wanted != 0);
  tracer::set_hook(wanted != 0);
  return PyBool_FromLong(before);
}

PyObject* py_take_poison(PyObject*, PyObject*) {
  if (!fake::is_poisoned()) Py_RETURN_NONE;
  const std::string reason = fake::take_poison();
  return PyUnicode_FromStringAndSize(reason.data(), static_cast<Py_ssize_t>(reason.size()));
}

PyObject* py_note_error(PyObject*, PyObject* text) { return PyBool_FromLong(fake::note_error(text_of(text))); }

PyObject* py_tier_counts(PyObject*, PyObject*) {
  auto of = [](const char* tier) { return static_cast<long long>(observe::count_of(std::string("tiers.") + tier)); };
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L}", "own", of("own"), "composite", of("composite"), "cpp_meta",
                       of("cpp_meta"), "python", of("python"), "refused", of("refused"));
}

PyObject* py_reset_tier_counts(PyObject*, PyObject*) {
  observe::reset_counts("tiers");
  Py_RETURN_NONE;
}

/// tier_of("aten::add.Tensor") -> (tier, reason); the reason is empty unless the tier is "refused".
PyObject* py_tier_of(PyObject*, PyObject* name) {
  return handle_errors([&]() -> PyObject* {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    const std::string full(text);
    const size_t dot = full.find('.');
    const auto op = c10::Dispatcher::singleton().findSchema(
        {full.substr(0, dot), dot == std::string::npos ? std::string() : full.substr(dot + 1)});
    if (!op) return PyErr_Format(PyExc_KeyError, "no operator %s", text);
    static constexpr const char* kNames[] = {"own", "composite", "cpp_meta", "python", "refused"};
    const fake::TierOf answer = fake::tier_of(*op);
    return Py_BuildValue("(ss)", kNames[static_cast<size_t>(answer.tier)], answer.reason.c_str());
  });
}

/// {hint: value}
SymbolValues read_values(PyObject* dict) {
  SymbolValues values;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Check(dict) && PyDict_Next(dict, &position, &key, &value))
    values[PyLong_AsLongLong(key)] = PyLong_AsLongLong(value);
  return values;
}

Ref int_list(const std::vector<int64_t>& numbers) {
  Ref list = Ref::steal(PyList_New(0));
  for (const int64_t number : numbers) {
    const Ref item = Ref::steal(PyLong_FromLongLong(number));
    if (!list || !item || PyList_Append(list.get(), item.get()) < 0) return {};
  }
  return list;
}

PyObject* py_symbolic(PyObject*, PyObject* model) {
  return handle_errors([&]() -> PyObject* {
    if (!is_tensor_object(model)) return PyErr_Format(PyExc_TypeError, "symbolic takes a tensor");
    return wrap_tensor(make_symbolic(tensor_of(model)));
  });
}

PyObject* py_forget_symbols(PyObject*, PyObject*) {
  forget_symbols();
  Py_RETURN_NONE;
}

/// geometry(tensor, {hint: value}) -> (sizes, strides, offset)
PyObject* py_geometry(PyObject*, PyObject* args) {
  return handle_errors([&]() -> PyObject* {
    PyObject *tensor = nullptr, *values = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &tensor, &values)) return nullptr;
    if (!is_tensor_object(tensor)) return PyErr_Format(PyExc_TypeError, "geometry takes a tensor");
    const PlainGeometry plain = geometry_for(tensor_of(tensor), read_values(values));
    const Ref sizes = int_list(plain.sizes), strides = int_list(plain.strides);
    if (!sizes || !strides) return nullptr;
    return Py_BuildValue("(OOL)", sizes.get(), strides.get(), static_cast<long long>(plain.offset));
  });
}

/// guards({hint: value}) -> [(text, holds)]
PyObject* py_guards(PyObject*, PyObject* values) {
  return handle_errors([&]() -> PyObject* {
    Ref list = Ref::steal(PyList_New(0));
    for (const auto& [text, holds] : guards_for(read_values(values))) {
      const Ref item = Ref::steal(Py_BuildValue("(sO)", text.c_str(), holds ? Py_True : Py_False));
      if (!list || !item || PyList_Append(list.get(), item.get()) < 0) return nullptr;
    }
    return list.release();
  });
}

// torch's own method would let a C++ exception pass through CPython, which ends the process.
PyObject* is_shared_of_torch = nullptr;

PyObject* py_storage_is_shared(PyObject* self, PyObject*) {
  if (!fake::is_fake(storage_of(self))) return PyObject_CallOneArg(is_shared_of_torch, self);
  fake::poison("the data of a fake tensor was asked for");
  PyErr_SetString(PyExc_RuntimeError, "a fake tensor's storage has no data, so it is not known whether it is shared");
  return nullptr;
}

PyMethodDef storage_is_shared = {"is_shared", py_storage_is_shared, METH_NOARGS, nullptr};

bool guard_storage_methods() {
  Ref torch = Ref::steal(PyImport_ImportModule("torch._C"));
  Ref base = torch ? Ref::steal(PyObject_GetAttrString(torch.get(), "StorageBase")) : Ref();
  if (!base) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(base.get());
  is_shared_of_torch = Py_XNewRef(PyDict_GetItemString(type->tp_dict, "is_shared"));
  if (!is_shared_of_torch) return true;
  Ref guarded = Ref::steal(PyDescr_NewMethod(type, &storage_is_shared));
  if (!guarded || PyDict_SetItemString(type->tp_dict, "is_shared", guarded.get()) < 0) return false;
  PyType_Modified(type);
  return true;
}

PyMethodDef fake_functions[] = {
    {"install", py_install, METH_NOARGS, "Why the Fake key could not be used, or an empty string."},
    {"from_reals", py_from_reals, METH_O, "Fakes of real tensors; shared storages stay shared."},
    {"is_fake", py_is_fake, METH_O, nullptr},
    {"scope", py_scope, METH_O,
     "Puts both keys of a trace into this thread's set or takes them out; returns what was."},
    {"take_poison", py_take_poison, METH_NOARGS, "The reason, which is cleared, or None."},
    {"note_error", py_note_error, METH_O, "Poisons when the text is that of a fake's storage."},
    {"tier_counts", py_tier_counts, METH_NOARGS, nullptr},
    {"reset_tier_counts", py_reset_tier_counts, METH_NOARGS, nullptr},
    {"tier_of", py_tier_of, METH_O, nullptr},
    {"symbolic", py_symbolic, METH_O, "A fake like this tensor, with symbols as sizes."},
    {"forget_symbols", py_forget_symbols, METH_NOARGS, "Ends the use of symbols and guards."},
    {"geometry", py_geometry, METH_VARARGS, "Sizes, strides and offset for these values of the symbols."},
    {"guards", py_guards, METH_O, "The guards, and whether they hold for these values of the symbols."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef fake_module = {PyModuleDef_HEAD_INIT, "stator._C._fake", "Fake tensors by hand.", -1, fake_functions};

}  // namespace

bool add_fake_bindings(PyObject* module) {
  fake::install();
  tracer::install();
  capture::install_python_node();
  capture::install_host_hooks();
  if (!guard_storage_methods()) return false;
  PyObject* part = PyModule_Create(&fake_module);
  if (!part) return false;
  if (PyModule_AddObject(module, "_fake", part) < 0) {
    Py_DECREF(part);
    return false;
  }
  return true;
}

}  // namespace stator::bindings
