#include "capture/interpreter/state/torch_session.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

TorchSession::TorchSession(const std::string& graph_name, FrameStack& frames, bool takes_float_parameters)
    : tracer(graph_name, takes_float_parameters), frames_(frames), transforms_at_start_(TransformState::current()) {
  tracer.set_locator([this](const TorchTracer::Mentions& mentions) { return question(mentions); });
}

/// Whether the question is about the value, or about an item of it.
static bool is_about(const Value* value, const TorchTracer::Mentions& mentions) {
  if (value->kind == Kind::Number) return mentions(static_cast<const NumberValue*>(value)->symbol.get());
  if (value->kind == Kind::Constant) {
    const Value* number = static_cast<const ConstantValue*>(value)->number;
    return number && is_about(number, mentions);
  }
  if (value->kind != Kind::Tuple && value->kind != Kind::List) return false;
  for (const Value* item : static_cast<const SequenceValue*>(value)->items)
    if (item && is_about(item, mentions)) return true;
  return false;
}

Question TorchSession::question(const TorchTracer::Mentions& mentions) const {
  Question made{frames_.user_line(), {}};
  if (!scope.call) return made;
  const RunningCall& call = *scope.call;
  const std::string running = tracer.running_operator();
  made.asked = running.empty() ? call.function : running;
  const size_t named = call.keywords ? static_cast<size_t>(PyTuple_GET_SIZE(call.keywords)) : 0;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (!is_about(call.arguments[i], mentions)) continue;
    const size_t positional = call.arguments.size() - named;
    const std::string parameter = i < positional ? TorchTracer::parameter(call.function, i)
                                                 : text_of(PyTuple_GET_ITEM(call.keywords, i - positional));
    made.asked = "the parameter " + parameter + " of " + made.asked;
    break;
  }
  return made;
}

void TorchSession::locate() {
  tracer.use_location(location_of(*frames_.current()));
  uint64_t step = frames_.resumable_step();
  if (node_steps_.empty() || node_steps_.back().second != step) node_steps_.emplace_back(tracer.node_count(), step);
}

/// Where the torch.nn.Module whose method runs in the frame comes from; null for other functions.
static const Source* module_source(const Frame& frame) {
  if (frame.code->code->co_argcount == 0 || frame.locals.empty()) return nullptr;
  // A method, as far as the name of its first argument tells. Names of variables are interned.
  static PyObject* const self = PyUnicode_InternFromString("self");
  if (PyTuple_GET_ITEM(frame.code->code->co_localsplusnames, 0) != self) return nullptr;
  const Source* source = frame.locals[0] ? frame.locals[0]->source : nullptr;
  if (!frame.locals[0] && !frame.unread.empty()) source = frame.unread[0];
  const bool is_module = source && source->object && PyObject_TypeCheck(source->object.get(), module_class());
  return is_module ? source : nullptr;
}

/// The path and class of the frame's module; empty texts if it has none, and where a caller is a method of it already.
static std::pair<std::string, std::string> module_of(const Frame& frame) {
  static PyObject* const module_name = PyUnicode_InternFromString("__module__");
  const Source* source = frame.module;
  if (!source) return {};
  for (const Frame* caller = frame.caller; caller; caller = caller->caller)
    if (caller->module && caller->module->object.get() == source->object.get()) return {};
  // Read where the class keeps them: a metaclass must not see it.
  const auto* type = reinterpret_cast<PyHeapTypeObject*>(Py_TYPE(source->object.get()));
  PyObject* module = stator_dict_get_str(type->ht_type.tp_dict, module_name);
  if (!module || !PyUnicode_Check(module)) return {};
  return {source->describe(), text_of(module) + "." + text_of(type->ht_qualname)};
}

uint32_t TorchSession::location_of(Frame& frame) {
  // A line is added to the graph when an operator is recorded there, and not before.
  if (!frame.location || frame.located_line != frame.line) {
    uint32_t caller = frame.caller ? location_of(*frame.caller) : 0;
    PyCodeObject* code = frame.code->code;
    // Another line of the same frame belongs to the same module.
    const bool is_known = frame.location != 0;
    if (!is_known) frame.module = module_source(frame);
    frame.location = tracer.add_location(code->co_filename, code->co_qualname, frame.line, caller,
                                         is_known ? tracer.module_at(frame.location) : module_of(frame));
    frame.located_line = frame.line;
  }
  return frame.location;
}

uint64_t TorchSession::step_of_node(size_t node) const {
  uint64_t step = 0;
  for (auto& [first, at] : node_steps_)
    if (first <= node) step = at;
  return step;
}

void TorchSession::refresh_transform_state() {
  frames_.set_in_transform(!(TransformState::current() == transforms_at_start_));
}

void TorchSession::fail(const char* what) {
  if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
  std::string text = std::string(what) + ": " + tracer.failure();
  throw Break{tracer.was_refused() ? BreakId::no_shape_function : BreakId::torch_error, text};
}

}  // namespace stator::capture
