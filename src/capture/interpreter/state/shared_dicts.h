#pragma once

#include "capture/interpreter/state/guard_recorder.h"
#include "capture/values/value.h"

namespace stator::capture {

/// Breaks because `dict`, the `__dict__` of an external object, also belongs to another external object, or is a value
/// of its own: `other` is that object or value. `owner` is the source of the first object. That the dict is the same is
/// guarded: a call that gives two dicts may not break here.
[[noreturn]] void break_on_shared_dict(GuardRecorder& guards, Source* owner, PyObject* dict, const Value* other,
                                       const char* what);
/// For a dict that the program uses directly, not through its owner. `dict_source` is null if the program made it.
[[noreturn]] void break_on_shared_dict(GuardRecorder& guards, Source* dict_source, const Value* other,
                                       const char* what);

}  // namespace stator::capture
