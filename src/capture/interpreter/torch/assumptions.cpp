#include "capture/interpreter/torch/assumptions.h"

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {
using pycompat::Instr;
using pycompat::Op;

/// Whether the instructions from `index` on make an exception and raise it, without a branch or a store.
bool only_raises(const pycompat::Code& code, size_t index) {
  constexpr size_t kMaxLength = 100;
  for (size_t i = index; i < code.instrs.size() && i < index + kMaxLength; ++i) {
    switch (code.instrs[i].op) {
      case Op::RAISE_VARARGS:
        return code.instrs[i].arg > 0;
      case Op::NOP:
      case Op::PUSH_NULL:
      case Op::LOAD_CONST:
      case Op::LOAD_FAST:
      case Op::LOAD_DEREF:
      case Op::LOAD_GLOBAL:
      case Op::LOAD_ATTR:
      case Op::LOAD_METHOD:
      case Op::LOAD_ASSERTION_ERROR:
      case Op::CALL:
      case Op::CALL_KW:
      case Op::BINARY_OP:
      case Op::BINARY_SUBSCR:
      case Op::FORMAT_VALUE:
      case Op::CONVERT_VALUE:
      case Op::BUILD_STRING:
      case Op::BUILD_TUPLE:
      case Op::BUILD_LIST:
        continue;
      default:
        return false;
    }
  }
  return false;
}

}  // namespace

/// The value itself if it is a tensor, or the tensor that holds a symbolic number; null for any other value.
static TensorValue* tensor_behind(Interpreter& in, Value* value) {
  auto* number = as<NumberValue>(value);
  return number ? as<TensorValue>(in.wrap_result(number_fake(in, number))) : as<TensorValue>(value);
}

/// The text of a symbolic bool, by which an equal one is recognised; empty for any other value.
static std::string name_of_truth(Value* value) {
  auto* number = as<NumberValue>(value);
  Ref text = number && number->type == &PyBool_Type ? Ref::steal(PyObject_Str(number->symbol.get())) : Ref();
  PyErr_Clear();
  return text_of(text.get(), "");
}

bool assume(Interpreter& in, Value* value, bool truth) {
  auto* given = as<TensorValue>(value);
  if (!in.options.may_assume || in.frames.in_transform() ||
      (given ? given->wrapped_at != 0 : value->kind != Kind::Number))
    return false;
  // A subclass or a mode may define the truth itself.
  if (is_overridden(in, value)) return false;
  const bool is_number = is_symbolic_number(value);
  TensorValue* tensor = tensor_behind(in, is_number ? number_result(in, truth ? "bool" : "not", value) : value);
  if (!tensor) return false;
  PyObject* fake = in.fake_of(tensor);
  Ref count = Ref::steal(PyObject_CallMethod(fake, "numel", nullptr));
  if (!count || PyLong_AsLong(count.get()) != 1) {
    PyErr_Clear();
    return false;
  }
  // Other devices verify asynchronously, and some are unusable after a failure.
  if (!is_true_of(fake, "is_cpu")) return false;
  Value* holds = tensor;
  if (!truth && !is_number)
    holds = in.call_torch(known_object("torch.logical_not"), arguments({tensor}));
  else if (is_true_of(fake, "requires_grad"))
    holds = in.call_torch(known_object("torch.ne"), arguments({tensor, in.integer(0)}));
  in.call_torch(known_object("torch._assert_async"), arguments({holds}));
  if (std::string name = name_of_truth(value); !name.empty()) {
    in.torch.assumed.emplace(std::move(name), truth);
    in.torch.tracer.learn(static_cast<NumberValue*>(value)->symbol.get(), truth);
  }
  return true;
}

std::optional<bool> earlier_assumed(const Interpreter& in, Value* value) {
  if (in.torch.assumed.empty()) return {};
  auto found = in.torch.assumed.find(name_of_truth(value));
  return found == in.torch.assumed.end() ? std::nullopt : std::optional(found->second);
}

std::optional<bool> assumed_truth(Interpreter& in, const Frame& frame, Value* value, const Instr& jump, bool on_jump) {
  if (value->kind != Kind::Tensor && value->kind != Kind::Number) return {};
  if (auto known = earlier_assumed(in, value)) return known;
  // Torch's compilers do not take an assertion about a number of the program: a guard decides.
  if (in.options.for_python_backend && value->kind == Kind::Number)
    if (auto known = number_truth(in, value)) return known;
  bool jump_raises = only_raises(*frame.code, static_cast<size_t>(jump.target));
  bool next_raises = only_raises(*frame.code, frame.pc);
  if (jump_raises == next_raises) return {};
  bool truth = jump_raises ? !on_jump : on_jump;
  return assume(in, value, truth) ? std::optional(truth) : std::nullopt;
}

}  // namespace stator::capture
