#include "compile/compiled_call.h"

#include "capture/call/bind.h"
#include "capture/frame/resume.h"
#include "capture/frame/watch.h"
#include "capture/guards/break_policy.h"
#include "capture/guards/global_state.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/hook.h"
#include "compile/errors.h"
#include "compile/frame_compiler.h"
#include "compile/options.h"
#include "compile/recompile_limits.h"
#include "compile/reports.h"
#include "compile/stance.h"
#include "core/observe/counters.h"

namespace stator {
using namespace capture;

Ref& backward_caller() {
  static auto* caller = new Ref;
  return *caller;
}

namespace {

PyObject* call_plain(CompiledFunction* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  return PyObject_Vectorcall(self->fn, args, nargsf, names);
}

/// Whether the arguments are as the user's spec states. False with a Python error set.
bool holds_spec(const CompiledFunction* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  if (!self->request->spec) return true;
  const Ref check = Ref::steal(PyObject_GetAttrString(self->request->spec->object(), "check"));
  return check && Ref::steal(PyObject_Vectorcall(check.get(), args, PyVectorcall_NARGS(nargsf), names));
}

/// Whether the call must not use the entry, because a break is an error. Another request may have made it, for which
/// the break is none: a capture for this one tells whether the program itself raises there.
bool is_refused(const CompiledFunction* self, const Entry& entry) {
  return entry.broke && (self->request->fullgraph || entry.broke->is_error);
}

PyObject* run_entry(CompiledFunction* self, const Entry& entry, PyObject* const* args, size_t nargsf, PyObject* names) {
  if (is_refused(self, entry)) {
    // The program itself raises its exception. If it does not, there is still no graph.
    if (entry.raises && !Ref::steal(call_plain(self, args, nargsf, names))) return nullptr;
    raise_unsupported(*entry.broke);
    return nullptr;
  }
  if (!entry.plan) {
    FrameCompiler compiler(*self->request);
    return call_watched(compiler, self->fn, args, nargsf, names);
  }
  PlanResult ended;
  // A block that sets the policy may end in plain Python, which does not restore it.
  std::optional<BreakPolicyScope> policy;
  if (!entry.plan->frames.empty()) policy.emplace();
  if (!run_plan(entry, ended)) {
    if (!ended.operator_failed) return nullptr;
    // Nothing has happened yet: the program itself raises it, at its own line and into its own handlers.
    PyErr_Clear();
    observe::count("plans.failed");
    if (!holds_spec(self, args, nargsf, names)) return nullptr;
    return call_plain(self, args, nargsf, names);
  }
  if (entry.plan->frames.empty()) return ended.result.release();
  FrameCompiler compiler(*self->request);
  return resume_frames(compiler, self->fn, *entry.plan, std::move(ended));
}

PyObject* capture_and_run(CompiledFunction* self, CodeCache& cache, Lookup looked, PyObject* const* bound,
                          PyObject* const* args, size_t nargsf, PyObject* names) {
  FrameCompiler compiler(*self->request);
  std::shared_ptr<Entry> entry = compiler.capture(cache, {self->fn, cache.decoded, 0, bound, 0}, std::move(looked));
  if (!entry && !PyErr_Occurred()) return call_plain(self, args, nargsf, names);
  PyObject* result = entry ? run_entry(self, *entry, args, nargsf, names) : nullptr;
  if (!result && is_capture_error()) {
    const pycompat::Code& code = *cache.decoded;
    size_t count = code.argcount + code.kwonlyargcount + code.has_varargs() + code.has_varkeywords();
    record_failure(self->fn, bound, count, self->request->fullgraph);
  }
  return result;
}

/// Whether `backward_caller` is making a call on this thread.
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

/// The entry for a call of a form that was seen before, found without binding its arguments; null: none.
std::shared_ptr<Entry> find_known(CompiledFunction* self, const RawCall& raw) {
  return (*self->cache)->find(self->request->cache_key.get(), self->fn, raw);
}

/// Whether `cache` is that of the function's current code, and calls may use it.
bool is_ready(CompiledFunction* self) {
  const CodeCache* cache = self->cache->get();
  return cache && reinterpret_cast<PyObject*>(cache->code()) == PyFunction_GET_CODE(self->fn) && !cache->is_detached();
}

/// A call for which no entry's guards hold, or none that it may use.
PyObject* on_miss(CompiledFunction* self, CodeCache& cache, RunMode mode, Lookup looked, PyObject* const* bound,
                  PyObject* const* args, size_t nargsf, PyObject* names) {
  const char* unsupported = GlobalState::unsupported_mode();
  if (mode == RunMode::RunOnly || cache.skipped || stator_is_tracing(PyThreadState_Get()) || unsupported) {
    if (unsupported && mode == RunMode::Compile) observe::count(std::string("skips.") + unsupported);
    return call_plain(self, args, nargsf, names);
  }
  if (mode == RunMode::FailOnMiss) {
    refuse_capture(cache, {self->fn, cache.decoded, 0, bound}, self->request->cache_key.get());
    return nullptr;
  }
  if (is_first_call(cache, bound)) return call_plain(self, args, nargsf, names);
  if (Py_EnterRecursiveCall(" in a compiled function")) return nullptr;
  PyObject* result = capture_and_run(self, cache, std::move(looked), bound, args, nargsf, names);
  Py_LeaveRecursiveCall();
  return result;
}

/// A call for which no entry was found by its raw arguments: binds them and looks at all entries.
PyObject* call_bound(CompiledFunction* self, RunMode mode, const RawCall& raw, PyObject* const* args, size_t nargsf,
                     PyObject* names) {
  const bool has_oracle = config().oracle;
  std::shared_ptr<CodeCache> cache = *self->cache;
  if (!cache->decoded) cache->decoded = pycompat::decode(cache->code());
  BoundArguments bound;
  if (!cache->decoded || !bound.bind(*cache->decoded, self->fn, args, raw.positional, names)) {
    PyErr_Clear();
    return call_plain(self, args, nargsf, names);
  }
  GuardInput input{bound.data(), self->fn, &raw};
  const Place place{self->fn, cache->decoded, 0, bound.data(), 0};
  if (has_oracle && !FrameCompiler(*self->request).confirm_words(*cache, place, input)) return nullptr;
  const uint64_t captures = cache->next_compile_id;
  auto find = [&] { return cache->find(0, self->request->cache_key.get(), input); };
  std::shared_ptr<Entry> found = find();
  if (has_oracle && found && !is_refused(self, *found)) {
    if (!FrameCompiler(*self->request).confirm_hit(place, *found)) return nullptr;
    found = find();  // other threads ran, and may have filled the slots of the entry's guards
  }
  if (found && !is_refused(self, *found)) return run_entry(self, *found, args, nargsf, names);
  if (skips_guards())
    if (std::shared_ptr<Entry> only = cache->find_only(0, self->request->cache_key.get(), input);
        only && !is_refused(self, *only))
      return run_entry(self, *only, args, nargsf, names);
  return on_miss(self, *cache, mode, {std::move(found), captures}, bound.data(), args, nargsf, names);
}

/// Whether torch.compile captures the frames of this thread: its callback is set. If torch._dynamo is not imported, the
/// answer is no; it is not imported here.
bool is_in_torch_compile() {
  if (!stator_has_foreign_evaluator()) return false;
  static PyObject* get_callback = nullptr;  // kept: this runs in each call of a process that uses torch.compile
  if (!get_callback) {
    static PyObject* const module_name = PyUnicode_InternFromString("torch._C._dynamo.eval_frame");
    PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), module_name);
    Ref found = module ? Ref::steal(PyObject_GetAttrString(module, "get_eval_frame_callback")) : Ref();
    PyErr_Clear();
    if (!found || !PyCFunction_Check(found.get()) || PyCFunction_GET_FLAGS(found.get()) != METH_NOARGS) return false;
    get_callback = found.release();
  }
  Ref callback = Ref::steal(PyCFunction_GET_FUNCTION(get_callback)(PyCFunction_GET_SELF(get_callback), nullptr));
  if (!callback) PyErr_Clear();
  return callback && callback.get() != Py_None && callback.get() != Py_False;
}

/// How this call may use entries. Off also if a debugger or torch.compile must see the function's own frames. Empty
/// with a Python error set if there is no such stance.
std::optional<RunMode> mode_of_call() {
  const std::optional<RunMode> mode = mode_now();
  if (mode && (stator_is_debugged(PyThreadState_Get()) || is_in_torch_compile())) return RunMode::Off;
  return mode;
}

/// The compiled function with another backend. Null with a Python error set if there is no such backend.
Ref with_backend(PyObject* compiled, PyObject* backend) {
  Ref module = Ref::steal(PyImport_ImportModule("stator.targets"));
  return module ? Ref::steal(PyObject_CallMethod(module.get(), "with_backend", "OO", compiled, backend)) : Ref();
}

/// `instance` before the positional arguments, in one new row.
PyObject* call_with_row(CompiledFunction* self, PyObject* instance, PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> row{instance};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) row.push_back(PyTuple_GET_ITEM(args, i));
  return PyObject_VectorcallDict(reinterpret_cast<PyObject*>(self), row.data(), row.size(), kwargs);
}

}  // namespace

PyObject* call_compiled(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  auto* self = reinterpret_cast<CompiledFunction*>(object);
  const std::optional<RunMode> mode = mode_of_call();
  if (!mode) return nullptr;
  const bool is_unusual = config().has_unusual_calls();
  if (mode == RunMode::Off || (is_unusual && config().disable)) return call_plain(self, args, nargsf, names);
  if (PyObject* forced = forced_backend()) {
    Ref other = with_backend(object, forced);
    if (!other) return nullptr;
    if (other.get() != object) return PyObject_Vectorcall(other.get(), args, nargsf, names);
  }
  if (is_unusual && wants_backward()) return call_with_backward(object, args, nargsf, names);
  if (!is_ready(self)) *self->cache = code_cache(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(self->fn)));
  if (mode == RunMode::Compile && runs_at_rest(**self->cache, 0, *self->request))
    return call_plain(self, args, nargsf, names);
  RawCall raw(args, PyVectorcall_NARGS(nargsf), names);
  if (!(is_unusual && config().oracle))
    if (std::shared_ptr<Entry> found = find_known(self, raw); found && !is_refused(self, *found))
      return run_entry(self, *found, args, nargsf, names);
  return call_bound(self, *mode, raw, args, nargsf, names);
}

PyObject* call_instance(PyObject* instance, PyObject* args, PyObject* kwargs) {
  static PyObject* const name = PyUnicode_InternFromString("__call__");
  static PyTypeObject* const compiled_type = compiled_function_type();
  PyObject* found = _PyType_Lookup(Py_TYPE(instance), name);
  if (!found || !Py_IS_TYPE(found, compiled_type)) {
    PyErr_SetString(PyExc_TypeError, "the class has no compiled __call__");
    return nullptr;
  }
  Ref kept = Ref::borrow(found);
  auto* self = reinterpret_cast<CompiledFunction*>(found);
  size_t positional = PyTuple_GET_SIZE(args) + 1, given = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
  constexpr size_t kInline = 16;
  if (positional + given > kInline) return call_with_row(self, instance, args, kwargs);
  PyObject *row[kInline], *names[kInline];
  RefRow<kInline> values(given);  // owned, since the dict may change during the call
  row[0] = instance;
  for (size_t i = 1; i < positional; ++i) row[i] = PyTuple_GET_ITEM(args, i - 1);
  Py_ssize_t position = 0;
  PyObject* value;
  for (size_t i = 0; i < given && PyDict_Next(kwargs, &position, &names[i], &value); ++i) {
    row[positional + i] = value;
    values[i] = Ref::borrow(value);
  }
  const std::optional<RunMode> mode = mode_of_call();
  if (!mode) return nullptr;
  if (mode != RunMode::Off && !config().has_unusual_calls() && !forced_backend() && is_ready(self) &&
      !(*self->cache)->has_resting_calls()) {
    RawCall raw(row, positional, names, given);
    if (std::shared_ptr<Entry> entry = find_known(self, raw); entry && !is_refused(self, *entry)) {
      Ref given_names = Ref::borrow(entry->guards->call_names());  // other calls may change the row it belongs to
      return run_entry(self, *entry, row, positional, given_names.get());
    }
  }
  return call_with_row(self, instance, args, kwargs);
}

}  // namespace stator
