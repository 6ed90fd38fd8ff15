#include "compile/capture_report.h"

#include <algorithm>

#include "capture/cache/code_cache.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/evaluation.h"
#include "compile/explore.h"
#include "compile/graph_facts.h"
#include "compile/options.h"
#include "compile/phases.h"
#include "compile/record_view.h"
#include "compile/reports.h"
#include "core/observe/clock.h"

namespace stator {
using namespace capture;

namespace {

/// Frames of the program that a record shows.
constexpr size_t kMaxStack = 64;

Ref& observer() {
  static Ref* made = new Ref;
  return *made;
}

std::string show_line(PyObject* file, int line, PyObject* function) {
  return text_of(file) + ":" + std::to_string(line) + ", in " + text_of(function);
}

/// Whether the frame runs code of Stator's Python package.
bool is_of_stator(PyFrameObject* frame) {
  static PyObject* const key = PyUnicode_InternFromString("__name__");
  Ref globals = Ref::steal(PyFrame_GetGlobals(frame));
  PyObject* module = PyDict_Check(globals.get()) ? PyDict_GetItemWithError(globals.get(), key) : nullptr;
  if (!module) PyErr_Clear();
  const std::string name = text_of(module);
  return name == "stator" || name.starts_with("stator.");
}

/// The lines of the program's running frames, outermost first, without `code`, which comes last: its frame need not run
/// yet.
std::vector<std::string> program_stack(PyCodeObject* code) {
  std::vector<std::string> lines;
  Ref frame = Ref::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame && lines.size() < kMaxStack) {
    auto* at = reinterpret_cast<PyFrameObject*>(frame.get());
    Ref of = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    auto* running = of.as<PyCodeObject>();
    if (running != code && !text_of(running->co_filename).starts_with("<frozen") && !is_of_stator(at))
      lines.push_back(show_line(running->co_filename, PyFrame_GetLineNumber(at), running->co_qualname));
    frame = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  std::reverse(lines.begin(), lines.end());
  lines.push_back(show_line(code->co_filename, code->co_firstlineno, code->co_qualname));
  return lines;
}

std::string qualified(PyTypeObject* type) {
  Ref module = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  Ref name = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__qualname__"));
  PyErr_Clear();
  const std::string from = text_of(module.get());
  return from == "builtins" || from == "?" ? text_of(name.get()) : from + "." + text_of(name.get());
}

/// Formats the error by Python's `stator.metrics`, which knows the lines of the program.
void note_error_place(PyObject* error, observe::CompilationRecord& record) {
  PyObject* place_of = known_object("stator.metrics.error_place");
  Ref found = place_of ? Ref::steal(PyObject_CallOneArg(place_of, error)) : Ref();
  const char *file, *stack;
  int line;
  if (found && PyArg_ParseTuple(found.get(), "sis", &file, &line, &stack)) {
    record.fail_file = file;
    record.fail_line = line;
    record.fail_stack = stack;
  }
  PyErr_Clear();
}

/// The capture is an error, or the program raises where it ends.
void note_refusal(const Entry& entry, observe::CompilationRecord& record) {
  const std::string& detail = entry.broke->detail;  // of an exception: its class and text, as Python writes it
  record.fail_type = entry.raises ? detail.substr(0, detail.find('(')) : "stator.errors.Unsupported";
  record.fail_reason = entry.raises ? detail : record.break_reason;
  record.fail_file = record.break_file;
  record.fail_line = record.break_line;
}

/// Calls a method of the observer. Errors are reported as unraisable.
template <class... Args>
void tell(const char* method, Args... args) {
  Ref kept = observer();
  Ref name = Ref::steal(PyUnicode_FromString(method));
  Ref told = Ref::steal(PyObject_CallMethodObjArgs(kept.get(), name.get(), args..., nullptr));
  if (!told) PyErr_WriteUnraisable(kept.get());
}

Ref unicode(const std::string& value) {
  Ref made = Ref::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
  return made;
}

}  // namespace

void set_observer(Ref fresh) { observer() = std::move(fresh); }

CaptureReport::CaptureReport(CodeCache& cache, const Place& place, const CompileRequest& request, const Entry& upcoming,
                             const std::string& reason)
    : code_(cache.code()), reason_(reason) {
  if (config().count_instructions) instructions_.emplace();
  observe::CompilationRecord& record = *record_;
  record.compile_id = upcoming.id();
  record.name = text_of(code_->co_name);
  record.qualified_name = text_of(code_->co_qualname);
  record.file = text_of(code_->co_filename);
  record.line = code_->co_firstlineno;
  record.backend = request.backend;
  record.is_forward = !upcoming.autograd_id;
  record.recompile_reason = reason;
  record.config = config_json();
  record.stack = program_stack(code_);
  record.cache_size = cache.count_for(place.offset, request.cache_key.get(), {place.values, place.function});
  record.accumulated_cache_size = cache.entries().size();
  phase_.emplace(frame_phase);
  if (place.offset == 0)
    observe::note_frame(record.qualified_name + " " + record.file + ":" + std::to_string(record.line));
  if (!observer()) return;
  observe::Phase reporting(report_phase);
  NoSignals no_signals;
  Ref line = Ref::steal(PyLong_FromLong(code_->co_firstlineno));
  tell("started", unicode(record.compile_id).get(), code_->co_qualname, code_->co_filename, line.get(),
       unicode(reason).get());
}

void CaptureReport::captured(std::shared_ptr<Entry> entry, bool is_refusal) {
  observe::CompilationRecord& record = *record_;
  record.guard_count = static_cast<int64_t>(entry->guards->size());
  record.shape_guard_count = static_cast<int64_t>(entry->guards->count(FactKind::Shapes));
  record.has_code = !is_refusal;
  if (entry->graph) {
    record.op_count = static_cast<int64_t>(entry->ops);
    note_graph(entry->graph, record);
  }
  if (entry->broke) {
    record.breaks = 1;
    record.break_id = break_name(entry->broke->id);
    record.break_reason = break_cause(*entry->broke);
    if (!entry->broke->stack.empty()) {
      record.break_file = entry->broke->stack.back().file;
      record.break_line = entry->broke->stack.back().line;
    }
    if (is_refusal || entry->raises) note_refusal(*entry, record);
    if (is_refusal) record.op_count = record.node_count = record.input_count = {};
  }
  entry->record = record_.shared();
  entry_ = std::move(entry);
}

void CaptureReport::failed() {
  observe::CompilationRecord& record = *record_;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (!type) return;
  NoSignals no_signals;
  PyErr_NormalizeException(&type, &value, &trace);
  if (value && trace) PyException_SetTraceback(value, trace);
  record.fail_type = qualified(reinterpret_cast<PyTypeObject*>(type));
  Ref shown = Ref::steal(PyObject_Str(value));
  PyErr_Clear();
  record.fail_reason = text_of(shown.get());
  note_error_place(value, record);
  record.before_restart_ns = observe::now_ns() - record.start_ns;
  PyErr_Restore(type, value, trace);
}

CaptureReport::~CaptureReport() {
  phase_->set_event_args(record_->event_args);
  phase_.reset();
  if (instructions_) record_->cpu_instructions = instructions_->so_far();
  if (!observer()) {
    (void)record_.end();
    return;
  }
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  {
    NoSignals no_signals;
    // The record is complete, but for the time that its own report takes.
    std::shared_ptr<const observe::CompilationRecord> ended = record_.end();
    observe::Phase reporting(report_phase);
    Ref record = describe_record(*ended);
    Ref capture = entry_ ? describe_capture(code_, *entry_, reason_) : Ref::borrow(Py_None);
    if (record && capture)
      tell("ended", record.get(), capture.get());
    else
      PyErr_Clear();
  }
  PyErr_Restore(type, value, trace);
}

void note_exploration(const Exploration& explored) {
  observe::CompilationRecord* record = observe::open_record();
  if (!record || !explored.result.interpreter) return;
  PyObject* parameter = known_object("torch.nn.Parameter");
  const Interpreter& in = *explored.result.interpreter;
  for (uint32_t index : explored.result.kept_inputs) {
    PyObject* input = in.torch.inputs[index]->real.get();
    if (!parameter || !input || !PyObject_TypeCheck(input, reinterpret_cast<PyTypeObject*>(parameter))) continue;
    const auto [numel, bytes] = tensor_size(input);
    ++record->param_count;
    record->param_numel += numel;
    record->param_bytes += bytes;
  }
}

}  // namespace stator
