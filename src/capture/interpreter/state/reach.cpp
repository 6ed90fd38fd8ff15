#include "capture/interpreter/state/reach.h"

namespace stator::capture {

bool is_made_weak(const ObjectValue* object) {
  return !object->object && (object->type == &_PyWeakref_RefType || object->type == &_PyWeakref_ProxyType ||
                             object->type == &_PyWeakref_CallableProxyType);
}

}  // namespace stator::capture
