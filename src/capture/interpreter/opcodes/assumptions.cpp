#include "capture/interpreter/opcodes/assumptions.h"

#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/torch/numbers.h"
#include "capture/interpreter/torch/overrides.h"

namespace stator::capture {
namespace {
using pycompat::Instr;
using pycompat::Op;

thread_local bool allowed = false;

/// Whether the instructions from there on make an exception and raise it, without a branch or a store.
bool only_raises(const pycompat::Code& code, size_t index) {
  constexpr size_t kLongest = 100;
  for (size_t i = index; i < code.instrs.size() && i < index + kLongest; ++i) {
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

AssumptionScope::AssumptionScope(bool now) : outer_(std::exchange(allowed, now)) {}
AssumptionScope::~AssumptionScope() { allowed = outer_; }

bool numbers_may_fail() { return allowed; }

/// The tensor that a jump looks at, or that holds the number it looks at; null for anything else.
static TensorValue* tensor_behind(Interpreter& in, Value* value) {
  auto* number = as<NumberValue>(value);
  return number ? as<TensorValue>(in.wrap_result(number_fake(in, number))) : as<TensorValue>(value);
}

/// What a truth is called; empty for what is none.
static std::string name_of_truth(Value* value) {
  auto* number = as<NumberValue>(value);
  Ref text = number && number->type == &PyBool_Type ? Ref::steal(PyObject_Str(number->symbol.get())) : Ref();
  const char* name = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return name ? name : "";
}

bool assume(Interpreter& in, Value* value, bool truth) {
  auto* given = as<TensorValue>(value);
  if (!allowed || in.in_transform || (given ? given->wrapped_at != 0 : value->kind != Kind::Number)) return false;
  // What a class or a mode makes of the question is for it to say.
  if (is_overridden(in, value)) return false;
  TensorValue* tensor = tensor_behind(in, value);
  PyObject* fake = in.fake_of(tensor);
  Ref count = Ref::steal(PyObject_CallMethod(fake, "numel", nullptr));
  if (!count || PyLong_AsLong(count.get()) != 1) {
    PyErr_Clear();
    return false;
  }
  // Other devices check later than they are asked to, and some cannot go on after that.
  if (!is_true_of(fake, "is_cpu")) return false;
  Value* holds = tensor;
  if (!truth)
    holds = in.call_torch(known_object("torch.logical_not"), arguments({tensor}));
  else if (is_true_of(fake, "requires_grad"))
    holds = in.call_torch(known_object("torch.ne"), arguments({tensor, in.integer(0)}));
  in.call_torch(known_object("torch._assert_async"), arguments({holds}));
  if (std::string name = name_of_truth(value); !name.empty()) in.assumed.emplace(std::move(name), truth);
  return true;
}

std::optional<bool> earlier_assumed(const Interpreter& in, Value* value) {
  if (in.assumed.empty()) return {};
  auto found = in.assumed.find(name_of_truth(value));
  return found == in.assumed.end() ? std::nullopt : std::optional(found->second);
}

std::optional<bool> assumed_truth(Interpreter& in, const Frame& frame, Value* value, const Instr& jump, bool on_jump) {
  if (auto known = earlier_assumed(in, value)) return known;
  bool jump_raises = only_raises(*frame.code, static_cast<size_t>(jump.target));
  bool next_raises = only_raises(*frame.code, frame.pc);
  if (jump_raises == next_raises) return {};
  bool truth = jump_raises ? !on_jump : on_jump;
  return assume(in, value, truth) ? std::optional(truth) : std::nullopt;
}

}  // namespace stator::capture
