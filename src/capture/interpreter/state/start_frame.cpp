#include "capture/interpreter/state/start_frame.h"

#include <algorithm>

#include "capture/pycompat/code.h"

namespace stator::capture {

StartFrame::StartFrame(const Start& start)
    : function_(Ref::borrow(start.function)),
      code_(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(start.function))),
      offset_(start.offset),
      stack_depth_(start.stack_depth),
      varying_(start.varying),
      break_is_error_(start.break_is_error),
      hidden_(start.hidden) {
  const pycompat::Code* decoded = pycompat::decode(code_);
  int count = !decoded ? 0 : offset_ > 0 ? decoded->nlocalsplus + stack_depth_ : decoded->parameter_slots();
  for (int i = 0; i < count; ++i) values_.push_back(Ref::borrow(start.values[i]));
  looked_at_.assign(values_.size(), false);
  stored_.assign(values_.size(), false);
}

std::vector<int32_t> StartFrame::stored_slots() const {
  std::vector<int32_t> slots;
  for (size_t i = 0; i < stored_.size(); ++i)
    if (stored_[i] && !looked_at_[i]) slots.push_back(static_cast<int32_t>(i));
  return slots;
}

std::vector<BoundPlace> StartFrame::bound_places() const {
  std::vector<BoundPlace> places;
  size_t slots = values_.size() - static_cast<size_t>(stack_depth_);
  for (size_t i = 0; offset_ > 0 && i < values_.size(); ++i)
    if (i >= slots || looked_at_[i]) places.push_back({static_cast<int32_t>(i), static_cast<bool>(values_[i])});
  return places;
}

}  // namespace stator::capture
