// The Python type of compiled functions; their calls are in compiled_call.cpp.
#include "compile/compiled_function.h"

#include <structmember.h>

#include "compile/compiled_call.h"
#include "compile/native_backend.h"
#include "compile/reports.h"

namespace stator {
using namespace capture;

namespace {

/// Of a tuple (filter, exported, failed) with None for those that are not given. Null with a Python error set.
std::shared_ptr<const GuardCallbacks> callbacks_of(PyObject* tuple) {
  PyObject* given[3];
  if (!PyArg_ParseTuple(tuple, "OOO", &given[0], &given[1], &given[2])) return nullptr;
  auto ref = [](PyObject* callable) { return callable == Py_None ? Ref() : Ref::borrow(callable); };
  return std::make_shared<GuardCallbacks>(GuardCallbacks{ref(given[0]), ref(given[1]), ref(given[2])});
}

/// As `functools.wraps` does: the function's own attributes, then its name, documentation and so on.
void copy_attributes(CompiledFunction* self, PyObject* fn) {
  self->dict = PyDict_New();
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(fn)->func_dict;
  if (attributes && PyDict_Update(self->dict, attributes) < 0) PyErr_Clear();
  PyDict_SetItemString(self->dict, "__wrapped__", fn);
  for (const char* copied : {"__name__", "__qualname__", "__module__", "__doc__", "__annotations__"}) {
    Ref value = Ref::steal(PyObject_GetAttrString(fn, copied));
    if (value)
      PyDict_SetItemString(self->dict, copied, value.get());
    else
      PyErr_Clear();
  }
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {
      "fn",     "compiler",        "fullgraph", "dynamic", "name", "cache_key", "error_on_graph_break",
      "guards", "recompile_limit", "spec",      nullptr};
  PyObject *fn, *compiler, *dynamic, *name, *cache_key, *guards = Py_None, *stated = Py_None;
  int fullgraph, break_is_error = 0;
  long long recompile_limit = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OpOUO|pOLO", const_cast<char**>(keywords), &PyFunction_Type, &fn,
                                   &compiler, &fullgraph, &dynamic, &name, &cache_key, &break_is_error, &guards,
                                   &recompile_limit, &stated))
    return nullptr;
  std::shared_ptr<const GuardCallbacks> callbacks;
  if (guards != Py_None && !(callbacks = callbacks_of(guards))) return nullptr;
  std::shared_ptr<const ShapesSpec> spec;
  if (stated != Py_None && !(spec = ShapesSpec::of(stated, PyFunction_GET_CODE(fn)))) return nullptr;
  auto* self = reinterpret_cast<CompiledFunction*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->vectorcall = call_compiled;
  self->fn = Ref::borrow(fn).release();
  self->name = Ref::borrow(name).release();
  std::shared_ptr<const backend::Choice> native = native_backend_of(compiler);
  self->request = new CompileRequest{native ? Ref() : Ref::borrow(compiler),
                                     native,
                                     Ref::borrow(cache_key),
                                     text_of(name),
                                     fullgraph != 0,
                                     break_is_error != 0,
                                     std::move(callbacks),
                                     recompile_limit,
                                     dynamic == Py_None ? std::nullopt : std::optional(dynamic == Py_True),
                                     std::move(spec)};
  self->cache = new std::shared_ptr<CodeCache>;
  copy_attributes(self, fn);
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<CompiledFunction*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->fn);
  Py_VISIT(self->dict);
  if (self->request) {
    Py_VISIT(self->request->compiler.get());
    Py_VISIT(self->request->cache_key.get());
    if (self->request->spec) Py_VISIT(self->request->spec->object());
    // This object is their only owner, except during a call, which also owns this object.
    if (const GuardCallbacks* guards = self->request->guards.get())
      for (const Ref* callback : {&guards->filter, &guards->exported, &guards->failed}) Py_VISIT(callback->get());
  }
  return 0;
}

int clear(PyObject* object) {
  auto* self = reinterpret_cast<CompiledFunction*>(object);
  Py_CLEAR(self->dict);
  return 0;
}

void dealloc(PyObject* object) {
  auto* self = reinterpret_cast<CompiledFunction*>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  Py_CLEAR(self->dict);
  delete self->request;
  delete self->cache;
  Py_CLEAR(self->fn);
  Py_CLEAR(self->name);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* bind_method(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Ref::borrow(self).release();
  return PyMethod_New(self, instance);
}

PyObject* repr(PyObject* object) {
  auto* self = reinterpret_cast<CompiledFunction*>(object);
  return PyUnicode_FromFormat("<compiled %R>", self->fn);
}

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledFunction, weakrefs), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledFunction, vectorcall), READONLY, nullptr},
    {},
};

/// An attribute of the function itself; `closure` is its name.
PyObject* attribute_of_function(PyObject* object, void* closure) {
  return PyObject_GetAttrString(reinterpret_cast<CompiledFunction*>(object)->fn, static_cast<const char*>(closure));
}

/// An entry of the object's `__dict__`; `closure` is its name.
PyObject* attribute_in_dict(PyObject* object, void* closure) {
  const char* name = static_cast<const char*>(closure);
  PyObject* found = PyDict_GetItemString(reinterpret_cast<CompiledFunction*>(object)->dict, name);
  if (!found) PyErr_SetString(PyExc_AttributeError, name);
  return Py_XNewRef(found);
}

constexpr const char* kFunctionAttributes[] = {"__code__", "__globals__", "__defaults__", "__kwdefaults__",
                                               "__closure__"};
void* closure_of(const char* name) { return const_cast<char*>(name); }

// Tools that read a function, or ask whether something is one, get the same answers as from the function itself.
// The attributes that torch.compile looks for are not entries of `__dict__`, which functools.wraps would copy.
PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"__class__", [](PyObject*, void*) { return Py_NewRef(reinterpret_cast<PyObject*>(&PyFunction_Type)); }, nullptr,
     nullptr, nullptr},
    {kFunctionAttributes[0], attribute_of_function, nullptr, nullptr, closure_of(kFunctionAttributes[0])},
    {kFunctionAttributes[1], attribute_of_function, nullptr, nullptr, closure_of(kFunctionAttributes[1])},
    {kFunctionAttributes[2], attribute_of_function, nullptr, nullptr, closure_of(kFunctionAttributes[2])},
    {kFunctionAttributes[3], attribute_of_function, nullptr, nullptr, closure_of(kFunctionAttributes[3])},
    {kFunctionAttributes[4], attribute_of_function, nullptr, nullptr, closure_of(kFunctionAttributes[4])},
    {"get_compiler_config", attribute_in_dict, nullptr, nullptr, closure_of("_stator_config")},
    {"_torchdynamo_orig_callable",
     [](PyObject* self, void*) { return Py_NewRef(reinterpret_cast<CompiledFunction*>(self)->fn); }, nullptr, nullptr,
     nullptr},
    {"_torchdynamo_wrapper_id", [](PyObject* self, void*) { return PyLong_FromVoidPtr(self); }, nullptr, nullptr,
     nullptr},
    {},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
    {Py_tp_repr, reinterpret_cast<void*>(repr)},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {Py_tp_doc, const_cast<char*>("A Python function with a cache of captured graphs.")},
    {0, nullptr},
};
PyType_Spec spec = {"stator._C.CompiledFunction", sizeof(CompiledFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                    slots};

}  // namespace

PyTypeObject* compiled_function_type() {
  static PyTypeObject* type = nullptr;
  if (!type) type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type;
}

bool answer_calls(PyTypeObject* cls) {
  PyObject* own = cls->tp_dict ? PyDict_GetItemString(cls->tp_dict, "__call__") : nullptr;
  if (!own || !Py_IS_TYPE(own, compiled_function_type())) return false;
  // If the program changes the class's `__call__`, CPython puts its own slot back.
  cls->tp_call = call_instance;
  return true;
}

}  // namespace stator
