#include "compile/frame_compiler.h"

#include <algorithm>
#include <cstdlib>

#include "capture/frame/watch.h"
#include "capture/guards/break_policy.h"
#include "capture/guards/global_state.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/interpreter.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/facts.h"
#include "compile/candidates.h"
#include "compile/capture_lock.h"
#include "compile/capture_report.h"
#include "compile/debug_folder.h"
#include "compile/errors.h"
#include "compile/options.h"
#include "compile/oracle.h"
#include "compile/phases.h"
#include "compile/recompile_limits.h"
#include "compile/reports.h"
#include "compile/shape_settings.h"
#include "compile/stance.h"
#include "compile/torch_compiler.h"
#include "core/base/check.h"
#include "core/observe/clock.h"
#include "core/observe/counters.h"
#include "core/observe/record.h"

namespace stator {
using namespace capture;

namespace {

/// After so many captures of one code object without an operator, capturing it has nothing to gain.
constexpr size_t kMaxEmptyCaptures = 16;

/// The backend failed: the error is the user's, unless they asked for it to be suppressed.
void after_failure(CodeCache& cache) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return;  // such as KeyboardInterrupt
  if (PyErr_ExceptionMatches(error_types().skip_frame.get())) {
    PyErr_Clear();
    cache.skipped = true;
    observe::count("frames.ok");
    return;
  }
  if (!suppresses_errors()) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  // The cause alone: the hint of such an error is to set what is set here.
  Ref cause = Ref::steal(value ? PyObject_GetAttrString(value, "cause") : nullptr);
  PyErr_Clear();
  Ref shown = Ref::steal(value ? PyObject_Str(cause ? cause.get() : value) : nullptr);
  std::string message = name_of(cache.code()) + " runs as plain Python: " + text_of(shown.get());
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  cache.skipped = true;
  PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1);
}

/// The number of the compiled backward pass that runs on this thread, as torch keeps it; empty: none.
std::optional<int64_t> current_autograd_id() {
  static PyObject* const current = PyUnicode_InternFromString("current_compile_id");
  static PyObject* const number = PyUnicode_InternFromString("compiled_autograd_id");
  NoSignals no_signals;
  PyObject* context = known_object("torch._guards.CompileContext");
  Ref id = context ? Ref::steal(PyObject_CallMethodNoArgs(context, current)) : Ref();
  Ref found = id && id.get() != Py_None ? Ref::steal(PyObject_GetAttr(id.get(), number)) : Ref();
  PyErr_Clear();
  if (!found || !PyLong_Check(found.get())) return {};
  return PyLong_AsLongLong(found.get());
}

/// Gives the next entry of a cache its name and numbers.
void identify(Entry& entry, const CodeCache& cache) {
  entry.function = text_of(cache.code()->co_qualname);
  entry.frame_id = cache.frame_id;
  entry.compile_id = cache.next_compile_id;
  entry.autograd_id = current_autograd_id();
}

/// For debugging one function: with STATOR_DEBUG_FUNCTION set, functions of other names are not captured.
bool is_left_out(PyCodeObject* code) {
  static const char* const only = std::getenv("STATOR_DEBUG_FUNCTION");
  return only && *only && PyUnicode_CompareWithASCIIString(code->co_name, only) != 0;
}

/// Whether torch's own `error_on_graph_break` is set on this thread. Its module is not imported for this.
bool torch_forbids_breaks() {
  static PyObject* const module_name = PyUnicode_InternFromString("torch._dynamo.utils");
  NoSignals no_signals;
  PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), module_name);
  Ref answer = module ? Ref::steal(PyObject_CallMethod(module, "_get_error_on_graph_break", nullptr)) : Ref();
  PyErr_Clear();
  return answer && answer.get() == Py_True;
}

/// Whether a capture ended where one of the earlier ones did, or at the frame's end.
bool ends_as_before(const Entry& entry, const std::vector<std::shared_ptr<Entry>>& earlier) {
  return !entry.broke || std::any_of(earlier.begin(), earlier.end(), [&](const std::shared_ptr<Entry>& other) {
    return other->broke && other->broke->is_same_place(*entry.broke);
  });
}

/// The numbers and sizes that the break needs, as far as its text names them.
Varying named_by(const BreakReason& broke, const Varying& varying) {
  return broke.id == BreakId::varying ? varying.named_in(broke.detail) : Varying();
}

using Constants = std::unordered_map<std::string, Specialised>;

/// Keeps why the capture is made again with these numbers and sizes as constants: the break needs them.
void note_constants(const BreakReason& broke, const Numbers& needed, Constants& constants) {
  auto note = [&](std::string tensor, int32_t dim, bool is_stride = false) {
    Specialised made;
    made.tensor = std::move(tensor);
    made.dim = dim;
    made.is_stride = is_stride;
    if (!broke.stack.empty()) made.line = broke.stack.back().file + ":" + std::to_string(broke.stack.back().line);
    constants.insert_or_assign(made.source(), std::move(made));
  };
  for (const auto* numbers : {&needed.floats, &needed.ints})
    for (const std::string& source : *numbers) note(source, -1);
  needed.sizes.for_each([&](const std::string& tensor, int dim) { note(tensor, dim); });
  needed.strides.for_each([&](const std::string& tensor, int dim) { note(tensor, dim, true); });
}

/// Keeps why the capture specialised on symbolic sizes and ints, and tells the entry why others are constants. Returns
/// the ints of which a second capture needed the value: later captures have them as constants from the start.
Varying note_specialised(Entry& entry, Constants& constants) {
  Varying repeated;
  std::vector<Specialised> all;
  for (const auto& [source, known] : constants)
    if (std::none_of(entry.specialised.begin(), entry.specialised.end(),
                     [&](const Specialised& made) { return made.source() == source; }))
      all.push_back(known);
  for (const Specialised& made : entry.specialised) {
    if (!made.is_needed) continue;
    const auto [known, is_first] = constants.try_emplace(made.source(), made);
    if (!is_first && made.dim < 0 && known->second.value != made.value) repeated.ints.insert(made.tensor);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.source() < b.source(); });
  entry.specialised.insert(entry.specialised.end(), all.begin(), all.end());
  return repeated;
}

/// Sets a ConstraintViolation as Python error, and returns true, if the capture specialised on a size that the user
/// marked with `mark_dynamic`, or if the size is outside of the mark's range.
bool raise_violation(const Entry& entry, const Numbers& needed, const Constants& constants) {
  if (torch_setting("allow_ignore_mark_dynamic", 0) != 0) return false;
  for (const MarkedSize& marked : entry.marked) {
    if (!marked.is_strict) continue;
    const std::string source = size_text(marked.tensor, marked.dim);
    if (!marked.is_in_range()) {
      auto bound = [](int64_t number, int64_t none) { return number == none ? "None" : std::to_string(number); };
      raise_constraint(source + " is " + std::to_string(marked.size) + ", but mark_dynamic states min=" +
                           bound(marked.low, INT64_MIN) + ", max=" + bound(marked.high, INT64_MAX),
                       "state the range of all sizes that the program is called with", "");
      return true;
    }
    const Specialised* found = nullptr;
    for (const Specialised& made : entry.specialised)
      if (made.source() == source) found = &made;
    if (!found && (needed.sizes.of(marked.tensor) >> marked.dim & 1) != 0) found = &constants.at(source);
    if (!found) continue;
    Specialised shown = *found;
    shown.value = marked.size;
    shown.line.clear();
    raise_constraint("a dimension that mark_dynamic marks has one value: " + shown.text(),
                     "write that line so that it does for every size, mark the size by maybe_mark_dynamic, or do not "
                     "mark it",
                     found->line);
    return true;
  }
  return false;
}

/// Sets a ConstraintViolation as Python error: the backend takes these numbers as constants only, and the user marked
/// them.
void raise_unusable(const Numbers& refused) {
  std::string names;
  auto add = [&](const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
  for (const auto* numbers : {&refused.floats, &refused.ints})
    for (const std::string& source : *numbers) add(source);
  refused.sizes.for_each([&](const std::string& tensor, int dim) { add(size_text(tensor, dim)); });
  refused.strides.for_each([&](const std::string& tensor, int dim) { add(stride_text(tensor, dim)); });
  raise_constraint("the backend takes these numbers as constants only: " + names, "do not mark them", "");
}

/// Whether the arguments are as the user's spec states, as far as captures used them. False with a Python error set.
bool holds_spec(const ShapesSpec& spec, const Place& place) {
  const Ref values = Ref::steal(PyTuple_New(place.code->parameter_slots()));
  for (Py_ssize_t i = 0; values && i < PyTuple_GET_SIZE(values.get()); ++i)
    PyTuple_SET_ITEM(values.get(), i, Py_NewRef(place.values[i] ? place.values[i] : Py_None));
  return values && Ref::steal(PyObject_CallMethod(spec.object(), "check_slots", "(O)", values.get()));
}

/// Gives a capture the numbers of `choice`. `fixed`: what is a constant for the program; `refused`: for the backend.
void take(const NumberChoice& choice, const Numbers& fixed, const Numbers& refused, Varying& varying) {
  static_cast<Numbers&>(varying) = choice.varying;
  varying.fixed_sizes = fixed.sizes;
  varying.fixed_sizes.add(refused.sizes);
  varying.fixed_strides = fixed.strides;
  varying.fixed_strides.add(refused.strides);
  varying.fixed_ints = fixed.ints;
  varying.fixed_ints.insert(refused.ints.begin(), refused.ints.end());
  varying.fixed_floats = refused.floats;
  if (!choice.has_constants_only) return;
  varying.all_sizes = varying.all_ints = false;
  varying.dynamic = varying.unbacked = nullptr;
  varying.spec = nullptr;
  varying.asked_values.clear();
}

/// Counts what a capture took as inputs and symbols, and notes it in the record of the compilation.
void note_choice(const NumberChoice& choice, const Numbers& fixed) {
  observe::count("recompiles.float_inputs", choice.changed.floats.size());
  observe::count("recompiles.int_inputs", choice.changed.ints.size());
  observe::count("recompiles.symbolic_sizes", choice.changed.sizes.size());
  observe::CompilationRecord* record = observe::open_record();
  if (!record) return;
  record->float_inputs = static_cast<int64_t>(choice.varying.floats.size());
  record->symbolic_sizes = static_cast<int64_t>(choice.varying.sizes.size());
  record->fixed_numbers.insert(fixed.floats.begin(), fixed.floats.end());
}

}  // namespace

RunMode& run_mode() {
  static thread_local RunMode mode = RunMode::Compile;
  return mode;
}

bool FrameCompiler::is_candidate(PyObject* function, PyObject* const* slots) {
  std::optional<RunMode> mode = mode_now();
  if (!mode) PyErr_Clear();  // calls of compiled functions report it
  if ((mode != RunMode::Compile && mode != RunMode::FailOnMiss) || config().disable) return false;
  return is_worth_capturing(function, slots);
}

std::shared_ptr<Entry> FrameCompiler::entry_at(const Place& place) {
  std::shared_ptr<CodeCache> cache = code_cache(place.code->code);
  if (cache->has_resting_calls()) {
    std::optional<RunMode> mode = mode_now();
    if (!mode || (mode == RunMode::Compile && runs_at_rest(*cache, place.offset, request_))) return nullptr;
  }
  GuardInput input{place.values, place.function};
  if (!confirm_words(*cache, place, input)) return nullptr;
  const uint64_t captures = cache->next_compile_id;
  auto find = [&] { return cache->find(place.offset, request_.cache_key.get(), input); };
  std::shared_ptr<Entry> found = find();
  if (found && config().oracle) {
    if (!confirm_hit(place, *found)) return nullptr;
    found = find();  // other threads ran, and may have filled the slots of the entry's guards
  }
  if (found) return found;
  std::optional<RunMode> mode = mode_now();
  if (!mode) return nullptr;
  if (skips_guards())
    if (std::shared_ptr<Entry> only = cache->find_only(place.offset, request_.cache_key.get(), input)) return only;
  if (mode == RunMode::RunOnly || mode == RunMode::Off || cache->skipped) return nullptr;
  if (const char* why = GlobalState::unsupported_mode()) {
    observe::count(std::string("skips.") + why);
    return nullptr;
  }
  if (mode == RunMode::FailOnMiss) {
    refuse_capture(*cache, place, request_.cache_key.get());
    return nullptr;
  }
  std::shared_ptr<Entry> entry = capture(*cache, place, {nullptr, captures});
  if (entry && is_refusal(*entry)) {
    raise_unsupported(*entry->broke);
    return nullptr;
  }
  return entry;
}

std::shared_ptr<Entry> FrameCompiler::capture(CodeCache& cache, const Place& place, Lookup looked) {
  if (is_left_out(place.code->code)) return nullptr;
  GuardInput input{place.values, place.function};
  CaptureLock lock;
  NoWatch no_watch;
  // Another thread may have captured the same since, at the latest while this one waited for the lock.
  std::shared_ptr<Entry> found = std::move(looked.found);
  if (lock.waited() || looked.captures != cache.next_compile_id)
    found = cache.find(place.offset, request_.cache_key.get(), input);
  if (found && !is_refusal(*found)) return found;
  if (cache.skipped) return nullptr;
  observe::count("cache.misses");
  ++cache.lookups.misses;
  if (!found && !report_misses(cache, place)) return nullptr;
  auto first_reason = [&] {
    if (found) return std::string();
    std::vector<std::string> reasons = cache.failures(place.offset, request_.cache_key.get(), input, 1);
    return reasons.empty() ? std::string() : reasons.front();
  };
  std::vector<std::shared_ptr<Entry>> serving = cache.find_serving(place.offset, request_.cache_key.get(), input);
  if (!serving.empty() && is_full(cache, place, request_))
    return serving.front()->guards->run_for_plan(input) ? serving.front() : nullptr;
  if (is_at_limit(cache, place, request_, first_reason)) return nullptr;
  // A capture takes so long that a text costs nothing; a refused call is cheap.
  const std::string reason = first_reason();

  Entry upcoming;
  identify(upcoming, cache);
  CaptureReport report(cache, place, request_, upcoming, reason);
  DebugFolder folder(cache.code(), upcoming.id(), reason);
  observe::count("frames.total");
  CompileNotice notice(upcoming.id());
  if (!notice.ok()) {
    folder.close();
    return nullptr;
  }
  Varying varying;
  KnownBreaks known_breaks;
  for (auto& earlier : serving) known_breaks.push_back(*earlier->broke);
  std::shared_ptr<Entry> entry = capture_general(cache, place, known_breaks, varying);
  if (!notice.end(entry.get())) return nullptr;
  if (!entry) {
    folder.close();
    report.failed();
    after_failure(cache);
    return nullptr;
  }
  entry->general = !varying.values.empty() || !varying.mortal.empty();
  if (entry->oracle) {
    entry->oracle->settings = capture_settings();
    // A later call may bring a tensor without the marks.
    for (const MarkedSize& marked : entry->marked) varying.sizes.add(marked.tensor, uint64_t{1} << marked.dim);
    entry->oracle->varying = std::move(varying);
    entry->oracle->break_is_error = is_error_here();
  }
  report.captured(entry, is_refusal(*entry));
  publish(cache, entry);
  auto check_guards = [&] {
    const int64_t checked_at = observe::now_ns();
    const bool holds = entry->guards->run(input);
    report.checked(observe::now_ns() - checked_at);
    return holds;
  };
  if (!tell_listener(cache.code(), *entry, reason, input, check_guards)) return nullptr;
  // The entry serves all calls that these serve: it breaks where they do, and guards less.
  for (auto& earlier : serving)
    if (!entry->guards_break && earlier->broke->is_same_place(*entry->broke)) cache.remove(*earlier);
  folder.write(cache.code(), *entry, reason);
  // The guards give the plan its inputs, so they run even for the call that was captured.
  if (!entry->plan) return entry;
  observe::Phase checking(check_phase);
  if (check_guards()) return entry;
  observe::count("guards.unstable");
  return nullptr;
}

bool FrameCompiler::is_error_here() const { return request_.break_is_error || torch_forbids_breaks(); }

std::shared_ptr<Entry> FrameCompiler::capture_general(CodeCache& cache, const Place& place,
                                                      const KnownBreaks& known_breaks, Varying& varying) {
  Varying &known = cache.varying[place.offset], &fixed = cache.fixed[place.offset];
  CodeCache::Changed changed;
  varying.values = known.values;
  varying.mortal = known.mortal;
  Varying& refused = cache.fixed_by_backend[{place.offset, request_.cache_key.get()}];
  const bool has_spec =
      request_.spec && place.offset == 0 && request_.spec->is_for(PyFunction_GET_CODE(place.function));
  std::optional<ShapeSettings> settings = shape_settings(has_spec ? std::optional(false) : request_.dynamic);
  if (!settings) return nullptr;
  changed = cache.changed(place.offset, request_.cache_key.get(), {place.values, place.function}, settings->parameters);
  if (const auto first = place.offset == 0 ? std::move(cache.first_call) : nullptr)
    first->add_changes(SeenArguments(*place.code, place.values), changed.sources, changed.texts);
  if (!settings->changed_sizes) changed.sources.sizes = {};
  // The fakes that torch's compilers get have strides that follow from sizes.
  varying.takes_strides = settings->changed_sizes && !request_.compiler;
  if (!varying.takes_strides) changed.sources.strides = {};
  if (!settings->changed_ints) changed.sources.ints.clear();
  if (!settings->changed_floats) changed.sources.floats.clear();
  changed.sources.remove_numbers(refused);
  varying.all_sizes = settings->all_sizes;
  varying.all_ints = settings->all_ints;
  varying.parameters = settings->parameters;
  varying.dynamic = std::move(settings->dynamic);
  varying.unbacked = std::move(settings->unbacked);
  varying.asked_values = std::move(settings->values);
  varying.marks_are_strict = torch_setting("allow_ignore_mark_dynamic", 0) == 0;
  varying.changed_are_unbacked = settings->changed_are_unbacked;
  if (has_spec) {  // all that it does not name is a constant
    varying.spec = request_.spec;
    varying.dynamic = varying.unbacked = nullptr;
    varying.asked_values.clear();
  }
  varying.add_numbers(known);
  varying.add_numbers(changed.sources);
  // With `dynamic=False` or static sizes by a setting, a Python backend gets ints and floats as constants as well.
  if (request_.compiler && !settings->changed_sizes) {
    varying.floats = changed.sources.floats = {};
    varying.ints = changed.sources.ints = {};
  }
  varying.remove_numbers(refused);
  auto& constants = cache.constants[place.offset];
  NumberChoice choice{varying, changed.sources, fixed};
  choice.constants.add_numbers(refused);
  while (true) {
    STATOR_CHECK(choice.number <= kMaxCaptures);
    take(choice, fixed, refused, varying);
    Start start{place.function, place.offset, place.values, place.depth, &varying, is_error_here()};
    std::shared_ptr<Entry> entry = compile_frame(start, request_, text_of(place.code->code->co_name), known_breaks);
    if (!entry) return entry;
    if (has_spec && !holds_spec(*request_.spec, place)) return nullptr;
    const CaptureDecision decision = next_capture(choice, outcome_of(*entry, varying, changed.specialised));
    const Numbers& needed = decision.needed;
    refused.add_numbers(entry->specialised_by_backend);
    refused.add_numbers(entry->refused_by_backend);
    if (decision.is_unusable) return raise_unusable(entry->refused_by_backend), nullptr;
    if (needed.has_numbers()) note_constants(*entry->broke, needed, constants);
    if (!entry->refused_by_backend.has_numbers() && raise_violation(*entry, needed, constants)) return nullptr;
    known.remove_numbers(needed);
    fixed.add_numbers(needed);
    if (!decision.next) {
      choice.changed.remove_numbers(needed);
      known.add_numbers(choice.changed);
      note_choice(choice, fixed);
      const Varying repeated = note_specialised(*entry, constants);
      known.remove_numbers(repeated);
      fixed.add_numbers(repeated);
      if (choice.changed.has_numbers()) entry->changed = std::move(changed.texts);
      return entry;
    }
    choice = *decision.next;
  }
}

CaptureOutcome FrameCompiler::outcome_of(const Entry& entry, const Varying& varying,
                                         const std::vector<std::shared_ptr<Entry>>& earlier) const {
  CaptureOutcome outcome{entry.specialised_by_backend, entry.refused_by_backend};
  // Guards tell for which numbers the program raises.
  outcome.broke = entry.broke.has_value() && !entry.raises;
  outcome.is_refusal = is_refusal(entry);
  outcome.ends_as_before = ends_as_before(entry, earlier);
  if (entry.broke) outcome.named = named_by(*entry.broke, varying);
  return outcome;
}

bool FrameCompiler::report_misses(CodeCache& cache, const Place& place) {
  PyObject* key = request_.cache_key.get();
  if (cache.count(place.offset, key) + cache.died(place.offset, key) == 0) return true;
  observe::count("recompiles.total");
  if (!request_.guards || !request_.guards->wants_failures()) return true;
  return request_.guards->tell_failures(cache.failures(place.offset, key, {place.values, place.function}),
                                        place.code->code);
}

bool FrameCompiler::confirm_words(CodeCache& cache, const Place& place, const GuardInput& input) {
  if (!config().oracle) return true;
  std::string difference = cache.compare_passes(place.offset, request_.cache_key.get(), input);
  if (difference.empty()) return true;
  raise_oracle_error(name_of(cache.code()), difference);
  return false;
}

bool FrameCompiler::confirm_hit(const Place& place, const Entry& entry) {
  const OracleRecord* record = config().oracle ? entry.oracle.get() : nullptr;
  // Facts removed by the user's guard filter are the user's responsibility: the oracle is skipped.
  if (!record || request_.guards || record->settings != capture_settings()) return true;
  if (stator_is_tracing(PyThreadState_Get()) || GlobalState::unsupported_mode()) return true;
  CaptureLock lock;
  NoWatch no_watch;
  UncountedScope uncounted;
  PyCodeObject* code = place.code->code;
  Start start{place.function, place.offset, place.values, place.depth, &record->varying, record->break_is_error};
  std::shared_ptr<Entry> fresh = capture_for_oracle(start, request_, text_of(code->co_name), *record);
  if (!fresh) return false;
  if (is_same_capture(record->text, fresh->oracle->text)) return true;
  raise_oracle_error(name_of(code) + ", entry " + entry.id(),
                     "a fresh capture differs from the entry whose guards hold", record->text, fresh->oracle->text);
  return false;
}

void FrameCompiler::publish(CodeCache& cache, const std::shared_ptr<Entry>& entry) {
  identify(*entry, cache);
  ++cache.next_compile_id;
  // Other requests share the cache, and for them the break may be no error.
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
  const bool is_empty = ++cache.entries_made >= kMaxEmptyCaptures && cache.ops_made == 0;
  if (is_empty && !request_.fullgraph && config().break_after == 0) {
    observe::count("skips.no operator in any capture");
    cache.skipped = true;
  }
}

bool FrameCompiler::handlers_run_plain() {
  return break_policy().value_or(request_.break_is_error) || PyErr_ExceptionMatches(error_types().unsupported.get());
}

bool FrameCompiler::is_refusal(const Entry& entry) const {
  return entry.broke && (request_.fullgraph || entry.broke->is_error);
}

}  // namespace stator
