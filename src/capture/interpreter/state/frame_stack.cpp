#include "capture/interpreter/state/frame_stack.h"

#include "capture/pycompat/text.h"

#include <algorithm>

namespace stator::capture {

bool is_handler(const pycompat::Code& code, const pycompat::ExceptionEntry& entry) {
  const auto target = code.instrs.begin() + entry.target;
  return std::none_of(target, std::min(target + 2, code.instrs.end()),
                      [](const pycompat::Instr& instr) { return instr.op == pycompat::Op::WITH_EXCEPT_START; });
}

static bool has_handlers(const pycompat::Code& code) {
  return std::any_of(code.exceptions.begin(), code.exceptions.end(),
                     [&](const pycompat::ExceptionEntry& entry) { return is_handler(code, entry); });
}

void FrameStack::enter(Frame& frame) {
  if (nested_calls_ >= kMaxNestedCalls)
    throw Break{BreakId::recursion, "more than " + std::to_string(kMaxNestedCalls) + " nested calls"};
  ++nested_calls_;
  current_ = &frame;
  has_seen_handlers_ = has_seen_handlers_ || (frame.code && has_handlers(*frame.code));
  frame.in_transform = in_transform_;
}

uint64_t FrameStack::outer_step() const {
  uint64_t step = 0;
  for (const Frame* f = current_; f; f = f->caller) step = f->step;
  return step;
}

uint64_t FrameStack::resumable_step() const {
  uint64_t step = current_->step;
  bool inside = in_transform_;
  for (const Frame* f = current_; f->caller; inside = f->in_transform, f = f->caller)
    if (inside || f->continuation == Continuation::Opaque) step = f->caller->step;
  return inside ? transform_opened_at_ : step;
}

uint64_t FrameStack::raise_step(Value* exception) const {
  auto found = raise_steps_.find(exception);
  return found == raise_steps_.end() ? 0 : found->second;
}

void FrameStack::set_in_transform(bool open) {
  if (open && !in_transform_) transform_opened_at_ = outer_step();
  in_transform_ = open;
}

UserLine FrameStack::user_line() const {
  if (!current_) return {};
  return {Ref::borrow(current_->code->code->co_filename), current_->line};
}

std::vector<StackLine> FrameStack::lines() const {
  std::vector<StackLine> lines;
  for (Frame* f = current_; f; f = f->caller) {
    const PyCodeObject* code = f->code->code;
    lines.insert(lines.begin(), StackLine{text_of(code->co_filename), text_of(code->co_qualname), f->line});
  }
  return lines;
}

}  // namespace stator::capture
