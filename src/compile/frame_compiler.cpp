#include "compile/frame_compiler.h"

#include <pthread.h>

#include <cstdlib>
#include <mutex>

#include "capture/guards/break_policy.h"
#include "capture/guards/global_state.h"
#include "capture/interpreter/interpreter.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/facts.h"
#include "compile/compiled_function.h"
#include "compile/debug_folder.h"
#include "compile/options.h"
#include "compile/reports.h"
#include "compile/stance.h"
#include "core/observe/counters.h"

namespace stator {
using namespace capture;

namespace {

/// One capture at a time; waiting releases the GIL so that calls go on meanwhile.
class CaptureLock {
 public:
  CaptureLock() {
    if (!mutex().try_lock()) {
      Py_BEGIN_ALLOW_THREADS mutex().lock();
      Py_END_ALLOW_THREADS
    }
    ++held();
  }
  ~CaptureLock() {
    --held();
    mutex().unlock();
  }

 private:
  static std::recursive_mutex& mutex() {
    static bool watched = pthread_atfork(nullptr, nullptr, renew) == 0;
    (void)watched;
    if (!the_mutex) the_mutex = new std::recursive_mutex;
    return *the_mutex;
  }
  /// How often this thread holds it.
  static int& held() {
    static thread_local int count = 0;
    return count;
  }
  /// In the child of a fork the threads that held the lock are not there to let it go. What this one holds it keeps.
  static void renew() {
    the_mutex = new std::recursive_mutex;
    for (int i = 0; i < held(); ++i) the_mutex->lock();
  }
  static inline std::recursive_mutex* the_mutex = nullptr;
};

std::string name_of(PyCodeObject* code) {
  return text_of(code->co_qualname) + " (" + text_of(code->co_filename) + ":" + std::to_string(code->co_firstlineno) +
         ")";
}

/// The backend failed: the error is the user's, unless they asked for it to be suppressed.
void after_failure(CodeCache& cache) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return;  // interrupts pass
  if (PyErr_ExceptionMatches(error_types().skip_frame.get())) {
    PyErr_Clear();
    cache.skipped = true;
    observe::count("frames.ok");
    return;
  }
  if (!config().suppress_errors) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref shown = Ref::steal(value ? PyObject_Str(value) : nullptr);
  std::string message = name_of(cache.code()) + " runs as plain Python: " + text_of(shown.get());
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  cache.skipped = true;
  PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1);
}

/// Behind a break values are new more often than not, so that fewer of them tell that a place varies.
constexpr size_t kTriedBehindBreak = 2;
/// After so many captures of a code object without one operator there is nothing to gain.
constexpr size_t kFruitless = 16;

}  // namespace

void raise_unsupported(const BreakReason& reason) {
  Ref record = describe_break(reason);
  Ref error = Ref::steal(PyObject_CallOneArg(error_types().unsupported.get(), record.get()));
  if (error) PyErr_SetObject(error_types().unsupported.get(), error.get());
}

RunMode& run_mode() {
  static thread_local RunMode mode = RunMode::Compile;
  return mode;
}

std::vector<std::string>& skipped_files() {
  static auto* prefixes = new std::vector<std::string>;
  return *prefixes;
}

/// A tensor, a module, or something that holds one not far below.
static bool holds_tensors(PyObject* object, int depth) {
  if (!object) return false;
  if (TorchTracer::is_tensor(object) || is_module_instance(object)) return true;
  if (depth == 0) return false;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      if (holds_tensors(PySequence_Fast_GET_ITEM(object, i), depth - 1)) return true;
    return false;
  }
  if (PyCell_Check(object)) return holds_tensors(PyCell_GET(object), depth);
  PyObject* dict = PyDict_Check(object) ? object : nullptr;
  if (!dict && stator_instance_dict(object, &dict) != kStatorDictObject) {
    Py_ssize_t position = 0;
    PyObject *name, *value;
    while (stator_inline_next(object, &position, &name, &value))
      if (holds_tensors(value, depth - 1)) return true;
    return false;
  }
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value))
    if (holds_tensors(value, depth - 1)) return true;
  return false;
}

/// Whether the function's globals that its code names hold torch itself, one of its functions, or a tensor.
static bool names_torch(PyObject* function, PyCodeObject* code) {
  PyObject* globals = PyFunction_GET_GLOBALS(function);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    PyObject* found = stator_dict_get_str(globals, PyTuple_GET_ITEM(code->co_names, i));
    if (!found) continue;
    if (holds_tensors(found, 0)) return true;
    PyObject* named = PyModule_Check(found) ? PyModule_GetNameObject(found) : nullptr;
    Ref name = Ref::steal(named);
    PyErr_Clear();
    if (name && text_of(name.get()).starts_with("torch")) return true;
    if (kind_of_callable(found) == CallableKind::Torch) return true;
  }
  return false;
}

/// Whether the running frame is that of `disable(recursive=False)`, torch's or ours: what it calls is left alone.
static bool is_called_plainly() {
  PyCodeObject* caller = stator_running_code(PyThreadState_Get());
  return caller && PyUnicode_CompareWithASCIIString(caller->co_name, "nonrecursive_disable_wrapper") == 0;
}

static bool is_worth_it(CodeCache& cache, PyObject* function, PyCodeObject* code, PyObject* const* slots) {
  if (cache.names_torch) return true;
  int arguments = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
                  ((code->co_flags & CO_VARKEYWORDS) != 0);
  for (int i = 0; i < arguments; ++i)
    if (holds_tensors(slots[i], 2)) return true;
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  return closure && holds_tensors(closure, 2);
}

bool FrameCompiler::is_candidate(PyObject* function, PyObject* const* slots) {
  std::optional<RunMode> mode = mode_now();
  if (!mode) PyErr_Clear();  // what calls a compiled function is told
  if ((mode != RunMode::Compile && mode != RunMode::FailOnMiss) || config().disable) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  std::shared_ptr<CodeCache> cache = code_cache(code);
  if (!cache->candidate) {
    std::string file = text_of(code->co_filename);
    bool skipped = file.starts_with("<frozen");
    for (const std::string& prefix : skipped_files()) skipped = skipped || file.starts_with(prefix);
    cache->candidate = !skipped;
    cache->names_torch = !skipped && names_torch(function, code);
  }
  if (!*cache->candidate || cache->skipped) return false;
  return is_worth_it(*cache, function, code, slots) && !is_called_plainly();
}

std::shared_ptr<Entry> FrameCompiler::entry_at(const Place& place) {
  std::shared_ptr<CodeCache> cache = code_cache(place.code->code);
  if (std::shared_ptr<Entry> found =
          cache->find(place.offset, request_.cache_key.get(), {place.values, place.function}))
    return found;
  std::optional<RunMode> mode = mode_now();
  if (!mode || mode == RunMode::RunOnly || mode == RunMode::Off || cache->skipped) return nullptr;
  if (const char* why = GlobalState::obstacle()) {
    observe::count(std::string("skips.") + why);
    return nullptr;
  }
  if (mode == RunMode::FailOnMiss) {
    refuse_capture(*cache, place, request_.cache_key.get());
    return nullptr;
  }
  std::shared_ptr<Entry> entry = capture(*cache, place);
  if (entry && is_refusal(*entry)) {
    raise_unsupported(*entry->broke);
    return nullptr;
  }
  return entry;
}

/// The number of the compiled backward pass that is under way on this thread, as torch keeps it.
static std::optional<int64_t> outer_autograd_compile() {
  static PyObject* const current = PyUnicode_InternFromString("current_compile_id");
  static PyObject* const number = PyUnicode_InternFromString("compiled_autograd_id");
  NoSignals quiet;
  PyObject* context = known_object("torch._guards.CompileContext");
  Ref id = context ? Ref::steal(PyObject_CallMethodNoArgs(context, current)) : Ref();
  Ref found = id && id.get() != Py_None ? Ref::steal(PyObject_GetAttr(id.get(), number)) : Ref();
  PyErr_Clear();
  if (!found || !PyLong_Check(found.get())) return {};
  return PyLong_AsLongLong(found.get());
}

/// The next entry of a cache gets its name and numbers.
static void identify(Entry& entry, const CodeCache& cache) {
  entry.function = text_of(cache.code()->co_qualname);
  entry.frame_id = cache.frame_id;
  entry.compile_id = cache.next_compile_id;
  entry.autograd_id = outer_autograd_compile();
}

/// To look at one function alone: with STATOR_DEBUG_FUNCTION set, functions of other names are left to Python.
static bool is_left_out(PyCodeObject* code) {
  static const char* const only = std::getenv("STATOR_DEBUG_FUNCTION");
  return only && *only && PyUnicode_CompareWithASCIIString(code->co_name, only) != 0;
}

/// What torch's own `error_on_graph_break` says on this thread, if anybody has loaded it.
static bool torch_forbids_breaks() {
  static PyObject* const module_name = PyUnicode_InternFromString("torch._dynamo.utils");
  NoSignals quiet;
  PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), module_name);
  Ref said = module ? Ref::steal(PyObject_CallMethod(module, "_get_error_on_graph_break", nullptr)) : Ref();
  PyErr_Clear();
  return said && said.get() == Py_True;
}

std::shared_ptr<Entry> FrameCompiler::capture(CodeCache& cache, const Place& place) {
  if (is_left_out(place.code->code)) return nullptr;
  GuardInput input{place.values, place.function};
  CaptureLock lock;
  FramesAside aside;
  PyObject* key = request_.cache_key.get();
  // Another thread may have captured just this while we waited.
  if (std::shared_ptr<Entry> found = cache.find(place.offset, key, input)) return found;
  if (cache.skipped) return nullptr;
  observe::count("cache.misses");

  std::string reason;
  if (cache.count(place.offset, key) > 0) {
    std::vector<std::string> reasons = cache.failures(place.offset, key, input);
    if (!reasons.empty()) reason = reasons.front();
    observe::count("recompiles.total");
    if (request_.guards && !request_.guards->tell_failures(reasons, place.code->code)) return nullptr;
  }
  if (at_limit(cache, place, reason)) return nullptr;

  Entry upcoming;
  identify(upcoming, cache);
  DebugFolder folder(cache.code(), upcoming.id(), reason);
  observe::count("frames.total");
  Start start{place.function,
              place.offset,
              place.values,
              place.depth,
              &cache.varying[place.offset],
              request_.break_is_error || torch_forbids_breaks()};
  std::shared_ptr<Entry> entry = compile_frame(start, request_, text_of(place.code->code->co_name));
  if (!entry) {
    folder.close();
    after_failure(cache);
    return nullptr;
  }
  entry->general = !start.varying->empty();
  if (!publish(cache, entry, reason)) return nullptr;
  folder.write(cache.code(), *entry, reason);
  // The guards give the plan its inputs, so they run once more even for the call that made them.
  if (entry->plan && !entry->guards->run(input)) {
    observe::count("guards.unstable");
    return nullptr;
  }
  return entry;
}

bool FrameCompiler::publish(CodeCache& cache, std::shared_ptr<Entry> entry, const std::string& reason) {
  identify(*entry, cache);
  ++cache.next_compile_id;
  // A refusal says nothing to others that share the cache and may go on.
  if (!is_refusal(*entry)) cache.add(entry);
  observe::count("frames.ok");
  if (entry->plan) {
    observe::count("captures.total");
    observe::count("captures.ops", entry->ops);
    if (entry->ops) observe::count("captures.graphs");
    observe::count("captures.guards", entry->guards->size());
  }
  if (entry->broke) observe::count(std::string("breaks.") + break_name(entry->broke->id));
  cache.ops_made += entry->ops;
  if (++cache.entries_made >= kFruitless && cache.ops_made == 0 && !request_.fullgraph && config().break_after == 0) {
    observe::count("skips.no operator in any capture");
    cache.skipped = true;
  }
  return tell_listener(cache.code(), *entry, reason);
}

bool FrameCompiler::leaves_handlers() {
  return break_policy().value_or(request_.break_is_error) || PyErr_ExceptionMatches(error_types().unsupported.get());
}

bool FrameCompiler::is_refusal(const Entry& entry) const {
  return entry.broke && (request_.fullgraph || entry.broke->is_error);
}

bool FrameCompiler::at_limit(CodeCache& cache, const Place& place, const std::string& reason) {
  GuardInput input{place.values, place.function};
  PyObject* key = request_.cache_key.get();
  int64_t limit = config().recompile_limit;
  size_t tried = cache.count_for(place.offset, key, input);
  bool local = static_cast<int64_t>(tried) >= limit;
  bool accumulated = static_cast<int64_t>(cache.next_compile_id) >= config().accumulated_recompile_limit;
  bool strict = config().fail_on_recompile_limit_hit || request_.fullgraph;
  bool tired = local || (place.offset > 0 && tried >= kTriedBehindBreak);
  if (std::vector<std::string> places; tired && !strict) {
    places = cache.restless_places(place.offset, key, input);
    observe::count("recompiles.varying_places", places.size());
    cache.varying[place.offset].insert(places.begin(), places.end());
    if (local && !places.empty())
      warn_limit(cache, "recompile_limit", limit, "the lines that look at " + places.front() + " run as plain Python",
                 reason);
    if (!places.empty()) return false;
  }
  if (!local && !accumulated) return false;
  observe::count("recompiles.limit_hit");
  const char* which = local ? "recompile_limit" : "accumulated_recompile_limit";
  warn_limit(cache, which, local ? limit : config().accumulated_recompile_limit, "further misses run as plain Python",
             reason);
  if (strict || ++cache.refused < cache.patience) return true;
  // What is called now may be something else than what filled the cache.
  cache.refused = 0;
  cache.patience *= 2;
  cache.evict(key);
  return false;
}

void FrameCompiler::warn_limit(CodeCache& cache, const std::string& which, int64_t limit, const std::string& now,
                               const std::string& reason) {
  std::string message =
      name_of(cache.code()) + " was captured " + std::to_string(limit) + " times, which is " + which + "; " + now +
      ". " +
      (reason.empty() ? "Raise" : "The last miss: " + reason + ". Keep what that guard looks at constant, or raise") +
      " stator.config." + which + ".";
  if (config().fail_on_recompile_limit_hit || request_.fullgraph) {
    Ref error = Ref::steal(PyObject_CallFunction(error_types().recompile_limit.get(), "s", message.c_str()));
    if (error) PyErr_SetObject(error_types().recompile_limit.get(), error.get());
    return;
  }
  if (!std::exchange(cache.warned, true)) PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1);
}

}  // namespace stator
