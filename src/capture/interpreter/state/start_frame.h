#pragma once

#include <string>
#include <vector>

#include "capture/call/break.h"
#include "capture/call/plan.h"
#include "capture/guards/function_modes.h"
#include "capture/values/source.h"
#include "capture/values/varying.h"

namespace stator::capture {

/// Where a capture begins: an offset in a frame's code, and what its slots and stack hold there.
struct Start {
  PyObject* function;
  int32_t offset = 0;                 // code unit
  PyObject* const* values = nullptr;  // localsplus slots (at offset 0 only the parameters), then the stack
  int32_t stack_depth = 0;
  const Varying* varying = nullptr;              // outlives the capture; null: nothing is known to vary
  bool break_is_error = false;                   // in the body of the function itself, and of what it calls
  const WithoutFunctionModes* hidden = nullptr;  // torch-function modes that are active there; null: none
};

/// The captured frame as it was when the capture began.
///
/// Invariant: it owns a reference to each object that the frame held, so no other object gets the address of one before
/// the capture ends. Whether a slot is bound is guarded only for slots that the capture read.
class StartFrame {
 public:
  explicit StartFrame(const Start& start);

  PyObject* function() const { return function_.get(); }
  PyCodeObject* code() const { return code_; }
  int32_t offset() const { return offset_; }
  /// Whether the capture begins in the middle of a frame, after a graph break.
  bool is_resumed() const { return offset_ > 0; }
  bool break_is_error() const { return break_is_error_; }
  const WithoutFunctionModes* hidden_modes() const { return hidden_; }

  /// Slots, then stack; null where nothing is bound.
  const std::vector<Ref>& values() const { return values_; }

  /// It mattered whether something, or nothing, is bound to the slot.
  void note_looked_at(size_t slot) { looked_at_[slot] = true; }
  /// The same for all slots that another attempt at the same place looked at.
  void note_looked_at(const StartFrame& other) {
    for (size_t i = 0; i < looked_at_.size(); ++i) {
      looked_at_[i] = looked_at_[i] || other.looked_at_[i];
      stored_[i] = stored_[i] || other.stored_[i];
    }
  }
  /// The program stored something into a slot that was unbound at the start, and that no instruction looked at. In a
  /// later call that drops what is bound there.
  void note_stored(size_t slot) {
    if (is_resumed() && !values_[slot]) stored_[slot] = true;
  }
  /// Those slots: in a later call they must be unbound, or dropping what is there must not be observable.
  std::vector<int32_t> stored_slots() const;
  /// Which of the places that were looked at are bound, for a start in the middle of a frame.
  std::vector<BoundPlace> bound_places() const;

  /// Whether the value at this source is known to change from call to call.
  bool is_varying(const Source* source) const { return varying_ && varying_->contains(*source); }
  /// Whether each call brings an object there that dies after it.
  bool is_mortal(const Source* source) const {
    return varying_ && !varying_->mortal.empty() && source && varying_->mortal.contains(source->describe());
  }
  /// Whether such a number may be an input of the graph.
  bool is_input(const Source* source) const { return !varying_ || varying_->is_input(*source); }
  /// The dimensions of the tensor at a source whose sizes vary, a bit for each. `marked`: those that the user marked.
  uint64_t varying_sizes(const Source& source, uint64_t marked) const {
    if (!varying_) return marked;
    const std::string text = source.describe();
    const uint64_t asked = varying_->all_sizes ? ~uint64_t{0} : marked;
    const uint64_t named = varying_->dynamic ? varying_->dynamic->dimensions(source) : 0;
    return (asked | named | varying_->sizes.of(text)) & ~varying_->fixed_sizes.of(text);
  }
  /// The dimensions of a tensor whose strides may be symbols, unless they follow from sizes: a bit for each.
  uint64_t varying_strides(const Source& source) const {
    if (!varying_ || !varying_->takes_strides || (!varying_->all_sizes && varying_->strides.empty())) return 0;
    const std::string text = source.describe();
    return (varying_->all_sizes ? ~uint64_t{0} : varying_->strides.of(text)) & ~varying_->fixed_strides.of(text);
  }
  /// Whether it is an error if a size marked by `mark_dynamic` becomes a constant.
  bool marks_are_strict() const { return !varying_ || varying_->marks_are_strict; }
  /// Whether the user asked for symbols for all sizes of this value.
  bool is_asked_size(int64_t size) const { return varying_ && varying_->asks_for(size); }
  /// Those that the user wants to be unbacked symbols, and those that become such because they changed.
  uint64_t unbacked_sizes(const Source& source) const {
    if (!varying_) return 0;
    const uint64_t named = varying_->unbacked ? varying_->unbacked->dimensions(source) : 0;
    if (!varying_->changed_are_unbacked) return named;
    const std::string text = source.describe();
    return named | (varying_->sizes.of(text) & ~varying_->fixed_sizes.of(text));
  }
  /// What the user stated of the arguments; null: nothing.
  const ShapesSpec* spec() const { return varying_ ? varying_->spec.get() : nullptr; }
  /// Whether the sizes of the parameter at a source are constants.
  bool has_constant_sizes(const Source& source) const {
    return !varying_ || (!varying_->parameters && !(varying_->dynamic && varying_->dynamic->dimensions(source) != 0));
  }
  /// Breaks where it is.
  void refuse_varying(const Source* source) const {
    if (is_varying(source)) throw Break{BreakId::varying, source->describe()};
  }

 private:
  Ref function_;
  PyCodeObject* code_;
  int32_t offset_, stack_depth_;
  const Varying* varying_;
  bool break_is_error_;
  const WithoutFunctionModes* hidden_;
  std::vector<Ref> values_;
  std::vector<bool> looked_at_, stored_;  // by place
};

}  // namespace stator::capture
