#include "capture/interpreter/attributes/thread_locals.h"

#include <algorithm>

#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/hidden.h"

namespace stator::capture {

bool opens_thread_dict(Interpreter& in, ObjectValue* object, PyObject* method) {
  static PyObject* const methods[] = {known_object("_thread._local.__getattribute__"),
                                      known_object("_thread._local.__setattr__"),
                                      known_object("_thread._local.__delattr__")};
  if (!method || std::find(std::begin(methods), std::end(methods), method) == std::end(methods)) return false;
  if (object->own) return true;
  PyObject* dict = object->object ? stator_thread_dict(object->object.get()) : nullptr;
  if (!dict)
    throw Break{BreakId::unknown_attribute, std::string("the first look of a thread at a ") + object->type->tp_name};
  Source* source = in.guards.sources().child(object->source, SourceKind::ThreadDict, 0, nullptr, dict);
  adopt_dict(in, object, as<DictValue>(in.wrap(dict, source)));
  return true;
}

}  // namespace stator::capture
