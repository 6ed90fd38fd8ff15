#include "core/fake/checks.h"

#include "core/fake/rule.h"

namespace stator::fake {
namespace {

thread_local std::optional<bool> assumed;

void equal(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!assumed) refuse(op, "the value of a tensor is needed");
  Args(op, stack).returns(*assumed);
}

}  // namespace

AssumedAnswer::AssumedAnswer(bool answer) : previous_(assumed) { assumed = answer; }
AssumedAnswer::~AssumedAnswer() { assumed = previous_; }

void register_checks() { add_rules({{"aten::equal", equal}}); }

}  // namespace stator::fake
