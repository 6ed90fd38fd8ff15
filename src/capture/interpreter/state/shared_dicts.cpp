#include "capture/interpreter/state/shared_dicts.h"

#include "capture/call/break.h"

namespace stator::capture {

void break_on_shared_dict(GuardRecorder& guards, Source* owner, PyObject* dict, const Value* other, const char* what) {
  break_on_shared_dict(guards, guards.sources().child(owner, SourceKind::InstanceDict, 0, nullptr, dict), other, what);
}

void break_on_shared_dict(GuardRecorder& guards, Source* dict_source, const Value* other, const char* what) {
  if (Source* known = other->source; known && dict_source) {
    PyObject* dict = dict_source->object.get();
    if (known->object.get() != dict) known = guards.sources().child(known, SourceKind::InstanceDict, 0, nullptr, dict);
    guards.add_same(dict_source, known, true);
  }
  throw Break{BreakId::mutation, what};
}

}  // namespace stator::capture
