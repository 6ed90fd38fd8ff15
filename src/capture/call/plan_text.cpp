#include "capture/call/plan_text.h"

#include "capture/call/plan.h"
#include "capture/guards/literals.h"

namespace stator::capture {
namespace {

/// What `Step::a` and `Step::b` are.
enum class Number : uint8_t { None, Step, Plain };
struct StepRow {
  const char* name;
  Number a, b;
};
constexpr StepRow kSteps[] = {
#define STATOR_STEP(name, make, text, a, b, observes) {text, Number::a, Number::b},
#include "capture/call/plan_steps.def"
#undef STATOR_STEP
};

std::string step_name(int32_t step) { return step < 0 ? "-" : "%" + std::to_string(step); }

/// Runs no code of the program.
std::string object_text(PyObject* object) {
  if (PyFunction_Check(object)) return short_repr(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
  if (PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  return short_repr(object);
}

std::string number_text(Number kind, int32_t number) {
  return kind == Number::Step ? step_name(number) : std::to_string(number);
}

std::string step_text(const Step& step) {
  const StepRow& row = kSteps[static_cast<size_t>(step.kind)];
  std::string text = row.name;
  if (row.a != Number::None) text += " " + number_text(row.a, step.a);
  if (row.b != Number::None) text += " " + number_text(row.b, step.b);
  if (step.object) text += " " + object_text(step.object.get());
  if (step.items.empty()) return text;
  text += " (";
  for (size_t i = 0; i < step.items.size(); ++i) text += (i ? ", " : "") + step_name(step.items[i]);
  return text + ")";
}

std::string row_text(const char* name, const std::vector<int32_t>& steps) {
  std::string text = std::string("  ") + name + ":";
  for (int32_t step : steps) text += " " + step_name(step);
  return text;
}

}  // namespace

std::vector<std::string> describe(const Plan& plan) {
  std::vector<std::string> lines;
  std::string given = "graph inputs: slots";
  for (int32_t input : plan.inputs) given += " " + std::to_string(input);
  if (plan.graph) lines.push_back(given + "; outputs: " + std::to_string(plan.graph->output_count()));
  for (size_t i = 0; i < plan.steps.size(); ++i)
    lines.push_back(step_name(static_cast<int32_t>(i)) + " = " + step_text(plan.steps[i]));
  if (plan.frames.empty()) lines.push_back("return " + step_name(plan.result));
  for (const FrameState& frame : plan.frames) {
    lines.push_back("resume " + (frame.function < 0 ? "the frame" : step_name(frame.function)) + " at offset " +
                    std::to_string(frame.offset));
    lines.push_back(row_text("slots", frame.slots));
    lines.push_back(row_text("stack", frame.stack));
  }
  return lines;
}

}  // namespace stator::capture
