#include "compile/compiled_function.h"

#include <structmember.h>

#include <mutex>

#include "capture/cache/code_cache.h"
#include "capture/call/bind.h"
#include "capture/guards/global_state.h"
#include "capture/interpreter/known_types.h"
#include "capture/pycompat/facts.h"
#include "compile/options.h"
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

Ref& listener() {
  static Ref* made = new Ref;
  return *made;
}
GraphWrapper graph_wrapper = nullptr;

std::string text_of(PyObject* object) {
  const char* chars = object && PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : nullptr;
  return chars ? chars : "?";
}

void put(PyObject* dict, const char* key, Ref value) {
  if (!value) {
    PyErr_Clear();
    value = Ref::borrow(Py_None);
  }
  PyDict_SetItemString(dict, key, value.get());
}
Ref text(const std::string& value) { return Ref::steal(PyUnicode_FromStringAndSize(value.data(), value.size())); }
Ref number(double value) { return Ref::steal(PyFloat_FromDouble(value)); }
Ref whole(uint64_t value) { return Ref::steal(PyLong_FromUnsignedLongLong(value)); }
Ref texts(const std::vector<std::string>& values) {
  Ref list = Ref::steal(PyList_New(0));
  for (const std::string& value : values) PyList_Append(list.get(), text(value).get());
  return list;
}

Ref describe_phases(const Phases& phases) {
  Ref dict = Ref::steal(PyDict_New());
  put(dict.get(), "interpret", number(phases.interpret));
  put(dict.get(), "guards", number(phases.guards));
  put(dict.get(), "backend", number(phases.backend));
  put(dict.get(), "total", number(phases.total()));
  return dict;
}

void tell_listener(CompiledFunction* self, const Entry& entry, const std::string& recompile_reason) {
  if (!listener()) return;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(self->fn));
  Ref record = Ref::steal(PyDict_New());
  put(record.get(), "function", text(text_of(code->co_qualname)));
  put(record.get(), "file", text(text_of(code->co_filename)));
  put(record.get(), "line", whole(code->co_firstlineno));
  put(record.get(), "graph", entry.graph && graph_wrapper ? graph_wrapper(entry.graph) : Ref());
  put(record.get(), "ops", whole(entry.ops));
  put(record.get(), "guards", texts(entry.guards->describe()));
  put(record.get(), "break_reason", entry.broke ? describe_break(*entry.broke) : Ref());
  put(record.get(), "phases", describe_phases(entry.phases));
  put(record.get(), "compile_id", text(entry.id()));
  put(record.get(), "recompile_reason", recompile_reason.empty() ? Ref() : text(recompile_reason));
  Ref kept = listener();
  Ref told = Ref::steal(PyObject_CallOneArg(kept.get(), record.get()));
  if (!told) PyErr_WriteUnraisable(kept.get());
}

PyObject* call_plain(CompiledFunction* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  return PyObject_Vectorcall(self->fn, args, nargsf, names);
}

/// One capture at a time; waiting releases the GIL so that calls go on meanwhile.
class CaptureLock {
 public:
  CaptureLock() {
    if (mutex().try_lock()) return;
    Py_BEGIN_ALLOW_THREADS mutex().lock();
    Py_END_ALLOW_THREADS
  }
  ~CaptureLock() { mutex().unlock(); }

 private:
  static std::recursive_mutex& mutex() {
    static auto* made = new std::recursive_mutex;
    return *made;
  }
};

PyObject* raise_unsupported(const BreakReason& reason) {
  Ref record = describe_break(reason);
  Ref error = Ref::steal(PyObject_CallOneArg(error_types().unsupported.get(), record.get()));
  if (error) PyErr_SetObject(error_types().unsupported.get(), error.get());
  return nullptr;
}

bool warn_limit(CompiledFunction* self, CodeCache& cache, const std::string& which, int64_t limit,
                const std::string& reason) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(self->fn));
  std::string message = text_of(code->co_qualname) + " (" + text_of(code->co_filename) + ":" +
                        std::to_string(code->co_firstlineno) + ") was captured " + std::to_string(limit) +
                        " times, which is " + which + "; further misses run as plain Python. The last miss: " + reason +
                        ". Keep what that guard looks at constant, or raise stator.config." + which + ".";
  if (config().fail_on_recompile_limit_hit || self->request->fullgraph) {
    Ref error = Ref::steal(PyObject_CallFunction(error_types().recompile_limit.get(), "s", message.c_str()));
    if (error) PyErr_SetObject(error_types().recompile_limit.get(), error.get());
    return false;
  }
  if (cache.warned) return true;
  cache.warned = true;
  return PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1) == 0;
}

/// The backend failed: the error is the user's, unless they asked for it to be suppressed.
PyObject* after_failure(CompiledFunction* self, CodeCache& cache, PyObject* const* args, size_t nargsf,
                        PyObject* names) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;  // interrupts pass
  if (PyErr_ExceptionMatches(error_types().skip_frame.get())) {
    PyErr_Clear();
    cache.skipped = true;
    observe::count("frames.ok");
    return call_plain(self, args, nargsf, names);
  }
  if (!config().suppress_errors) return nullptr;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref shown = Ref::steal(value ? PyObject_Str(value) : nullptr);
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(self->fn));
  std::string message = text_of(code->co_qualname) + " (" + text_of(code->co_filename) + ":" +
                        std::to_string(code->co_firstlineno) + ") runs as plain Python: " + text_of(shown.get());
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  cache.skipped = true;
  if (PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1) < 0) return nullptr;
  return call_plain(self, args, nargsf, names);
}

PyObject* run_entry(CompiledFunction* self, Entry& entry, PyObject* const* args, size_t nargsf, PyObject* names) {
  if (entry.plan) return entry.plan->run(*entry.guards);
  if (self->request->fullgraph) return raise_unsupported(*entry.broke);
  return call_plain(self, args, nargsf, names);
}

/// Nothing cached fits: capture, publish, run.
PyObject* on_miss(CompiledFunction* self, CodeCache& cache, const BoundArguments& bound, PyObject* const* args,
                  size_t nargsf, PyObject* names) {
  GuardInput input{bound.data(), self->fn};
  CaptureLock lock;
  PyObject* key = self->request->cache_key.get();
  // Another thread may have captured just this while we waited.
  if (std::shared_ptr<Entry> found = cache.find(0, key, input)) return run_entry(self, *found, args, nargsf, names);
  if (cache.skipped) return call_plain(self, args, nargsf, names);
  observe::count("cache.misses");

  std::string reason;
  if (cache.count(key) > 0) {
    std::vector<std::string> reasons = cache.failures(0, key, input);
    if (!reasons.empty()) reason = reasons.front();
    observe::count("recompiles.total");
  }
  int64_t limit = config().recompile_limit;
  bool local = static_cast<int64_t>(cache.count_for(key, input)) >= limit;
  bool accumulated = static_cast<int64_t>(cache.next_compile_id) >= config().accumulated_recompile_limit;
  if (local || accumulated) {
    observe::count("recompiles.limit_hit");
    const char* which = local ? "recompile_limit" : "accumulated_recompile_limit";
    if (!warn_limit(self, cache, which, local ? limit : config().accumulated_recompile_limit, reason)) return nullptr;
    return call_plain(self, args, nargsf, names);
  }

  observe::count("frames.total");
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(self->fn));
  std::shared_ptr<Entry> entry = compile_frame(self->fn, bound.data(), *self->request, text_of(code->co_name));
  if (!entry) return after_failure(self, cache, args, nargsf, names);
  entry->frame_id = cache.frame_id;
  entry->compile_id = cache.next_compile_id++;
  cache.add(entry);
  observe::count("frames.ok");
  if (entry->plan) {
    observe::count("captures.total");
    observe::count("captures.ops", entry->ops);
    if (entry->ops) observe::count("captures.graphs");
    observe::count("captures.guards", entry->guards->size());
  } else {
    observe::count(std::string("breaks.") + break_name(entry->broke->id));
  }
  tell_listener(self, *entry, reason);
  // The guards give the plan its inputs, so they run once more even for the call that made them.
  if (entry->plan && !entry->guards->run(input)) {
    observe::count("guards.unstable");
    return call_plain(self, args, nargsf, names);
  }
  return run_entry(self, *entry, args, nargsf, names);
}

PyObject* call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  auto* self = reinterpret_cast<CompiledFunction*>(object);
  RunMode mode = run_mode();
  if (mode == RunMode::Off || config().disable) return call_plain(self, args, nargsf, names);
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(self->fn));
  if (!*self->cache || (*self->cache)->code() != code || (*self->cache)->is_detached()) *self->cache = code_cache(code);
  RawCall raw{args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), names};
  if (std::shared_ptr<Entry> found = (*self->cache)->find(self->request->cache_key.get(), self->fn, raw))
    return run_entry(self, *found, args, nargsf, names);
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
  if (mode == RunMode::RunOnly || cache->skipped || GlobalState::obstacle()) {
    if (const char* why = GlobalState::obstacle(); why && mode == RunMode::Compile)
      observe::count(std::string("skips.") + why);
    return call_plain(self, args, nargsf, names);
  }
  if (Py_EnterRecursiveCall(" in a compiled function")) return nullptr;
  PyObject* result = on_miss(self, *cache, bound, args, nargsf, names);
  Py_LeaveRecursiveCall();
  return result;
}

// ---- the Python type

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"fn", "compiler", "fullgraph", "dynamic", "name", "cache_key", nullptr};
  PyObject *fn, *compiler, *dynamic, *name, *cache_key;
  int fullgraph;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OpOUO", const_cast<char**>(keywords), &PyFunction_Type, &fn,
                                   &compiler, &fullgraph, &dynamic, &name, &cache_key))
    return nullptr;
  auto* self = reinterpret_cast<CompiledFunction*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->vectorcall = call;
  self->fn = Ref::borrow(fn).release();
  self->name = Ref::borrow(name).release();
  self->request = new CompileRequest{compiler == Py_None ? Ref() : Ref::borrow(compiler), Ref::borrow(cache_key),
                                     text_of(name), fullgraph != 0};
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

RunMode& run_mode() {
  static thread_local RunMode mode = RunMode::Compile;
  return mode;
}

PyTypeObject* compiled_function_type() {
  static PyTypeObject* type = nullptr;
  if (!type) type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type;
}

Ref set_capture_listener(Ref fresh) { return std::exchange(listener(), std::move(fresh)); }
void set_graph_wrapper(GraphWrapper wrapper) { graph_wrapper = wrapper; }

Ref describe_break(const BreakReason& reason) {
  Ref dict = Ref::steal(PyDict_New());
  put(dict.get(), "id", text(break_name(reason.id)));
  std::string cause = break_title(reason.id);
  if (!reason.detail.empty()) cause += ": " + reason.detail;
  put(dict.get(), "text", text(cause));
  put(dict.get(), "hint", text(break_hint(reason.id)));
  Ref stack = Ref::steal(PyList_New(0));
  for (const StackLine& line : reason.stack) {
    Ref row = Ref::steal(Py_BuildValue("(sis)", line.file.c_str(), line.line, line.function.c_str()));
    PyList_Append(stack.get(), row.get());
  }
  if (!reason.stack.empty()) {
    put(dict.get(), "file", text(reason.stack.back().file));
    put(dict.get(), "line", whole(reason.stack.back().line));
    put(dict.get(), "function", text(reason.stack.back().function));
  }
  put(dict.get(), "stack", std::move(stack));
  return dict;
}

Ref describe_entry(const Entry& entry) {
  Ref dict = Ref::steal(PyDict_New());
  put(dict.get(), "id", text(entry.id()));
  put(dict.get(), "guards", texts(entry.guards->describe()));
  put(dict.get(), "hits", whole(entry.hits));
  put(dict.get(), "backend", text(entry.backend));
  put(dict.get(), "ops", whole(entry.ops));
  put(dict.get(), "graph", entry.graph && graph_wrapper ? graph_wrapper(entry.graph) : Ref());
  put(dict.get(), "break_reason", entry.broke ? describe_break(*entry.broke) : Ref());
  put(dict.get(), "phases", describe_phases(entry.phases));
  return dict;
}

}  // namespace stator
