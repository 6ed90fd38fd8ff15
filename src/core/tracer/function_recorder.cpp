#include "core/tracer/function_recorder.h"

#include "core/shapes/sym_node.h"

namespace stator::tracer {

static const auto detach_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");

FunctionRecorder::FunctionRecorder(std::string name, shapes::ShapeEnv* symbols, const FunctionTracerHost* host,
                                   BringIn bring_in)
    : BelowRecorder(std::move(name), symbols, detach_op), host_(host), bring_in_(std::move(bring_in)) {}

graph::ValueId FunctionRecorder::resolve(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  const graph::ValueId id = BelowRecorder::resolve(op, tensor);
  return id == graph::kNoValue && bring_in_.tensor(tensor) ? find(tensor) : id;
}

graph::ValueId FunctionRecorder::current(const at::Tensor& tensor) {
  const graph::ValueId id = find(tensor);
  if (id == graph::kNoValue || is_unchanged(id, tensor)) return id;
  has_lost_input_ = has_lost_input_ || graph().values[id].producer == UINT32_MAX;
  leave(id);
  return graph::kNoValue;
}

void FunctionRecorder::refresh(const at::Tensor& tensor) {
  if (const graph::ValueId id = find(tensor); id != graph::kNoValue) BelowRecorder::returned(id, tensor);
}

void FunctionRecorder::returned(graph::ValueId id, const at::Tensor& fake) {
  BelowRecorder::returned(id, fake);
  learn_sizes(id, fake);
}

bool FunctionRecorder::accepts(const c10::IValue& object) const {
  return object.isGenerator() || object.isObject() || object.isStream() || object.isCustomClass();
}

shapes::Expr FunctionRecorder::number_in_place_of(const at::Tensor& placeholder) {
  if (!host_->number_of) return {};
  const c10::SymNode node = host_->number_of(placeholder);
  return node ? shapes::expression_of(node.get()) : shapes::Expr();
}

}  // namespace stator::tracer
