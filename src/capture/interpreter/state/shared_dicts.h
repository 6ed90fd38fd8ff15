#pragma once

#include "capture/interpreter/state/guard_recorder.h"
#include "capture/values/value.h"

namespace stator::capture {

/// Throws Break{mutation}: `dict` is the `__dict__` of the external object at `owner`, and also belongs to `other`,
/// which is a second external object or the value of the dict itself. If `other` has a source, it is guarded that both
/// are one dict: a call with two dicts need not break.
[[noreturn]] void break_on_shared_dict(GuardRecorder& guards, Source* owner, PyObject* dict, const Value* other,
                                       const char* what);
/// For a dict that the program uses directly, not through its owner. `dict_source` is null if the program made it.
[[noreturn]] void break_on_shared_dict(GuardRecorder& guards, Source* dict_source, const Value* other,
                                       const char* what);

}  // namespace stator::capture
