// `item in container`.
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/operators/special_methods.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {

/// iter(container), with the error message of `in` if it can't be iterated.
static Value* iterate_to_find(Interpreter& in, Value* container) {
  try {
    return in.iterate(container);
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_TypeError)) throw;
  }
  in.raise(PyExc_TypeError, std::string("argument of type '") + in.type_of(container)->tp_name + "' is not iterable");
}

bool Interpreter::contains(Value* container, Value* item) {
  if (auto* dict = as<DictValue>(container)) return dict_get(dict, item) != nullptr;
  if (auto* view = as<ViewValue>(container); view && view->part == ViewValue::Part::Keys)
    return dict_get(view->dict, item) != nullptr;
  if (auto* sequence = as_sequence(container)) {
    for (size_t i = 0; i < sequence->items.size(); ++i)
      if (same_or_equal(*this, this->item(sequence, i), item)) return true;
    return false;
  }
  if (auto* set = as<SetValue>(container)) return set_has(*this, set, item);
  bool own_class = container->kind == Kind::Constant && !static_cast<ConstantValue*>(container)->literal &&
                   !PyType_IsSubtype(type_of(container), enum_meta_type());
  if (container->kind == Kind::Object || own_class) {
    if (Value* method = special_method(*this, container, "__contains__")) return truth(call(method, arguments({item})));
  }
  if (container->kind == Kind::Tensor) throw Break{BreakId::data_dependent, "membership in a tensor"};
  if (container->kind == Kind::Constant) {
    PyObject* object = constant_of(container);
    // An int that varies is compared with the items.
    if (PyTuple_CheckExact(object) && type_of(item) == &PyLong_Type) item = graph_number(*this, item);
    Ref key = literal_of(item);
    if (!key && PyFrozenSet_CheckExact(object))
      return set_has(*this, set_from(*this, container, &PyFrozenSet_Type), item);
    if (!key && PyUnicode_Check(object) && !PyType_IsSubtype(type_of(item), &PyUnicode_Type))
      raise(PyExc_TypeError,
            std::string("'in <string>' requires string as left operand, not ") + type_of(item)->tp_name);
    if (!key && (PyUnicode_Check(object) || PyBytes_Check(object)))
      throw Break{BreakId::raises, std::string("an instance in a ") + Py_TYPE(object)->tp_name};
    if (key && static_cast<ConstantValue*>(container)->literal) {
      refuse_unequal_to_itself(key.get());
      int found = PySequence_Contains(object, key.get());
      if (found < 0) raise_current(*this);
      return found;
    }
    if (key && PyType_Check(object) && PyType_IsSubtype(Py_TYPE(object), enum_meta_type())) {
      int found = PySequence_Contains(object, key.get());
      if (found < 0) raise_current(*this);
      return found;
    }
  }
  Value* iterator = iterate_to_find(*this, container);
  while (Value* candidate = next(iterator))
    if (same_or_equal(*this, candidate, item)) return true;
  return false;
}
}  // namespace stator::capture
