#include "compile/compiled_function.h"

#include <structmember.h>

#include "capture/call/bind.h"
#include "capture/guards/break_policy.h"
#include "capture/guards/global_state.h"
#include "capture/pycompat/facts.h"
#include "compile/frame_compiler.h"
#include "compile/options.h"
#include "compile/reports.h"
#include "compile/stance.h"
#include "core/observe/counters.h"

namespace stator {
using namespace capture;

namespace {

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* fn;
  PyObject* dict;
  PyObject* weakrefs;
  CompileRequest* request;
  std::shared_ptr<CodeCache>* cache;  // of the function's code now
  PyObject* name;                     // keeps the backend's name for repr
};

PyObject* call_plain(CompiledFunction* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  return PyObject_Vectorcall(self->fn, args, nargsf, names);
}

PyObject* run_entry(CompiledFunction* self, const Entry& entry, PyObject* const* args, size_t nargsf, PyObject* names) {
  if (entry.broke && (self->request->fullgraph || entry.broke->is_error)) {
    // The program itself raises it. Should it not, there is still no graph.
    if (entry.raises && !Ref::steal(call_plain(self, args, nargsf, names))) return nullptr;
    raise_unsupported(*entry.broke);
    return nullptr;
  }
  if (!entry.plan) {
    FrameCompiler compiler(*self->request);
    return call_watched(compiler, self->fn, args, nargsf, names);
  }
  Outcome outcome;
  // A block whose end runs as plain Python, as torch's own may, leaves it as it was inside.
  std::optional<BreakPolicyScope> policy;
  if (!entry.plan->frames.empty()) policy.emplace();
  if (!run_plan(entry, outcome)) {
    if (!outcome.operator_failed) return nullptr;
    // Nothing has happened yet: the program itself raises it, at its own line and into its own handlers.
    PyErr_Clear();
    observe::count("plans.failed");
    return call_plain(self, args, nargsf, names);
  }
  if (entry.plan->frames.empty()) return outcome.result.release();
  FrameCompiler compiler(*self->request);
  return go_on(compiler, self->fn, *entry.plan, std::move(outcome));
}

/// Whether the error that is set says that a capture failed, and is none of the program's.
bool is_own_error() {
  const ErrorTypes& types = error_types();
  for (const Ref* type : {&types.unsupported, &types.internal, &types.backend_failed})
    if (PyErr_ExceptionMatches(type->get())) return true;
  return false;
}

PyObject* on_miss(CompiledFunction* self, CodeCache& cache, PyObject* const* bound, PyObject* const* args,
                  size_t nargsf, PyObject* names) {
  FrameCompiler compiler(*self->request);
  std::shared_ptr<Entry> entry = compiler.capture(cache, {self->fn, cache.decoded, 0, bound, 0});
  if (!entry && !PyErr_Occurred()) return call_plain(self, args, nargsf, names);
  PyObject* result = entry ? run_entry(self, *entry, args, nargsf, names) : nullptr;
  if (!result && is_own_error()) {
    const pycompat::Code& code = *cache.decoded;
    size_t count = code.argcount + code.kwonlyargcount + code.has_varargs() + code.has_varkeywords();
    record_failure(self->fn, bound, count, self->request->fullgraph);
  }
  return result;
}

/// Whether a call on this thread is to be made by `backward_caller`, and is not being made by it already.
thread_local bool captures_backward = false;
bool wants_backward() { return config().compiled_autograd && !captures_backward; }

PyObject* call_with_backward(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  Py_ssize_t count = PyVectorcall_NARGS(nargsf), named = names ? PyTuple_GET_SIZE(names) : 0;
  Ref positional = Ref::steal(PyTuple_New(count)), keywords = Ref::steal(PyDict_New());
  if (!positional || !keywords) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; i < named; ++i)
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[count + i]) < 0) return nullptr;
  captures_backward = true;
  PyObject* result =
      PyObject_CallFunctionObjArgs(backward_caller().get(), self, positional.get(), keywords.get(), nullptr);
  captures_backward = false;
  return result;
}

/// The entry for a call of a form that was seen before, if there is one.
std::shared_ptr<Entry> find_known(CompiledFunction* self, const RawCall& raw) {
  return (*self->cache)->find(self->request->cache_key.get(), self->fn, raw);
}

/// Whether the function's cache is that of its code now, and calls may use it.
bool is_ready(CompiledFunction* self) {
  if (config().disable || wants_backward()) return false;
  const CodeCache* cache = self->cache->get();
  return cache && reinterpret_cast<PyObject*>(cache->code()) == PyFunction_GET_CODE(self->fn) && !cache->is_detached();
}

PyObject* call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  auto* self = reinterpret_cast<CompiledFunction*>(object);
  std::optional<RunMode> allowed = mode_now();
  if (!allowed) return nullptr;
  const RunMode mode = *allowed;
  if (mode == RunMode::Off || config().disable) return call_plain(self, args, nargsf, names);
  if (wants_backward()) return call_with_backward(object, args, nargsf, names);
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(self->fn));
  if (!is_ready(self)) *self->cache = code_cache(code);
  RawCall raw(args, PyVectorcall_NARGS(nargsf), names);
  if (std::shared_ptr<Entry> found = find_known(self, raw)) return run_entry(self, *found, args, nargsf, names);
  std::shared_ptr<CodeCache> cache = *self->cache;
  if (!cache->decoded) cache->decoded = pycompat::decode(code);
  BoundArguments bound;
  if (!cache->decoded || !bound.bind(*cache->decoded, self->fn, args, raw.positional, names)) {
    PyErr_Clear();
    return call_plain(self, args, nargsf, names);
  }
  GuardInput input{bound.data(), self->fn, &raw};
  if (std::shared_ptr<Entry> found = cache->find(0, self->request->cache_key.get(), input))
    return run_entry(self, *found, args, nargsf, names);
  if (mode == RunMode::RunOnly || cache->skipped || stator_is_tracing(PyThreadState_Get()) || GlobalState::obstacle()) {
    if (const char* why = GlobalState::obstacle(); why && mode == RunMode::Compile)
      observe::count(std::string("skips.") + why);
    return call_plain(self, args, nargsf, names);
  }
  if (mode == RunMode::FailOnMiss) {
    refuse_capture(*cache, {self->fn, cache->decoded, 0, bound.data()}, self->request->cache_key.get());
    return nullptr;
  }
  if (is_first_call(*cache)) return call_plain(self, args, nargsf, names);
  if (Py_EnterRecursiveCall(" in a compiled function")) return nullptr;
  PyObject* result = on_miss(self, *cache, bound.data(), args, nargsf, names);
  Py_LeaveRecursiveCall();
  return result;
}

PyObject* call_laid_out(CompiledFunction* self, PyObject* instance, PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> row{instance};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) row.push_back(PyTuple_GET_ITEM(args, i));
  return PyObject_VectorcallDict(reinterpret_cast<PyObject*>(self), row.data(), row.size(), kwargs);
}

/// tp_call of a class whose `__call__` is a compiled function: what is known is found without names and arguments
/// being laid out anew.
PyObject* call_instance(PyObject* instance, PyObject* args, PyObject* kwargs) {
  static PyObject* const name = PyUnicode_InternFromString("__call__");
  PyObject* found = _PyType_Lookup(Py_TYPE(instance), name);
  if (!found || !Py_IS_TYPE(found, compiled_function_type())) {
    PyErr_SetString(PyExc_TypeError, "the class has no compiled __call__");
    return nullptr;
  }
  Ref kept = Ref::borrow(found);
  auto* self = reinterpret_cast<CompiledFunction*>(found);
  size_t positional = PyTuple_GET_SIZE(args) + 1, given = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
  constexpr size_t kInline = 16;
  if (positional + given > kInline) return call_laid_out(self, instance, args, kwargs);
  PyObject *row[kInline], *names[kInline];
  RefRow<kInline> values(given);  // the dict may change meanwhile
  row[0] = instance;
  for (size_t i = 1; i < positional; ++i) row[i] = PyTuple_GET_ITEM(args, i - 1);
  Py_ssize_t position = 0;
  PyObject* value;
  for (size_t i = 0; i < given && PyDict_Next(kwargs, &position, &names[i], &value); ++i) {
    row[positional + i] = value;
    values[i] = Ref::borrow(value);
  }
  std::optional<RunMode> mode = mode_now();
  if (!mode) return nullptr;
  if (mode != RunMode::Off && is_ready(self)) {
    RawCall raw(row, positional, names, given);
    if (std::shared_ptr<Entry> entry = find_known(self, raw))
      return run_entry(self, *entry, row, positional, entry->guards->call_names());
  }
  return call_laid_out(self, instance, args, kwargs);
}

// ---- the Python type

/// Of a tuple: filter, exported, failed; None for those that are not given. Null with a Python error set.
std::shared_ptr<const GuardCallbacks> callbacks_of(PyObject* tuple) {
  PyObject* given[3];
  if (!PyArg_ParseTuple(tuple, "OOO", &given[0], &given[1], &given[2])) return nullptr;
  auto ref = [](PyObject* callable) { return callable == Py_None ? Ref() : Ref::borrow(callable); };
  return std::make_shared<GuardCallbacks>(GuardCallbacks{ref(given[0]), ref(given[1]), ref(given[2])});
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {
      "fn", "compiler", "fullgraph", "dynamic", "name", "cache_key", "error_on_graph_break", "guards", nullptr};
  PyObject *fn, *compiler, *dynamic, *name, *cache_key, *guards = Py_None;
  int fullgraph, break_is_error = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OpOUO|pO", const_cast<char**>(keywords), &PyFunction_Type, &fn,
                                   &compiler, &fullgraph, &dynamic, &name, &cache_key, &break_is_error, &guards))
    return nullptr;
  std::shared_ptr<const GuardCallbacks> callbacks;
  if (guards != Py_None && !(callbacks = callbacks_of(guards))) return nullptr;
  auto* self = reinterpret_cast<CompiledFunction*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->vectorcall = call;
  self->fn = Ref::borrow(fn).release();
  self->name = Ref::borrow(name).release();
  self->request = new CompileRequest{compiler == Py_None ? Ref() : Ref::borrow(compiler),
                                     Ref::borrow(cache_key),
                                     text_of(name),
                                     fullgraph != 0,
                                     break_is_error != 0,
                                     std::move(callbacks)};
  self->cache = new std::shared_ptr<CodeCache>;
  // functools.wraps: the function's own attributes, then what it is known by.
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
    // Owned by this object alone but while a call lasts, which holds it.
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

PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
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

ErrorTypes& error_types() {
  static auto* types = new ErrorTypes;
  return *types;
}

Ref& backward_caller() {
  static auto* caller = new Ref;
  return *caller;
}

PyTypeObject* compiled_function_type() {
  static PyTypeObject* type = nullptr;
  if (!type) type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type;
}

bool answer_calls(PyTypeObject* cls) {
  PyObject* own = cls->tp_dict ? PyDict_GetItemString(cls->tp_dict, "__call__") : nullptr;
  if (!own || !Py_IS_TYPE(own, compiled_function_type())) return false;
  // A change of the class's `__call__` gives it CPython's own slot back.
  cls->tp_call = call_instance;
  return true;
}

static std::vector<std::unique_ptr<WatchedBlock>>& blocks() {
  // Not freed when the thread ends: by then it may no longer talk to the interpreter.
  static thread_local auto* const entered = new std::vector<std::unique_ptr<WatchedBlock>>;
  return *entered;
}

bool enter_block(PyObject* compiled) {
  if (!Py_IS_TYPE(compiled, compiled_function_type())) {
    PyErr_SetString(PyExc_TypeError, "enter_block takes a compiled function");
    return false;
  }
  const CompileRequest& request = *reinterpret_cast<CompiledFunction*>(compiled)->request;
  auto block = watch_block(std::make_unique<FrameCompiler>(request));
  if (!block) return false;
  blocks().push_back(std::move(block));
  return true;
}

bool leave_block() {
  if (blocks().empty()) {
    PyErr_SetString(PyExc_AssertionError, "left a block that this thread never entered");
    return false;
  }
  blocks().pop_back();
  return true;
}

}  // namespace stator
