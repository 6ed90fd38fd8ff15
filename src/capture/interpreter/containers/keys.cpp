#include "capture/interpreter/containers/keys.h"

#include "capture/guards/literals.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/protocol/weak_references.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/nesting.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

PyObject* const kHashName = PyUnicode_InternFromString("__hash__");
PyObject* const kEqName = PyUnicode_InternFromString("__eq__");

[[noreturn]] void unhashable(Interpreter& in, Value* key) {
  in.raise(PyExc_TypeError, std::string("unhashable type: '") + in.type_of(key)->tp_name + "'");
}

/// CPython's hash of a tuple, from the hashes of its items (xxHash's mixing step).
Py_hash_t tuple_hash(const std::vector<Py_hash_t>& lanes) {
  constexpr uint64_t kPrime1 = 11400714785074694791ULL, kPrime2 = 14029467366897019727ULL,
                     kPrime5 = 2870177450012600261ULL;
  uint64_t sum = kPrime5;
  for (Py_hash_t lane : lanes) {
    sum += static_cast<uint64_t>(lane) * kPrime2;
    sum = (sum << 31) | (sum >> 33);
    sum *= kPrime1;
  }
  sum += lanes.size() ^ (kPrime5 ^ 3527539ULL);
  return sum == static_cast<uint64_t>(-1) ? 1546275796 : static_cast<Py_hash_t>(sum);
}

Py_hash_t address_hash(const void* address, bool* exact) {
  if (exact) *exact = false;
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(address) >> 4);
}

Py_hash_t object_hash(Interpreter& in, ObjectValue* object, bool* exact) {
  static PyObject* const by_address = known_object("builtins.object.__hash__");
  if (object->type == &_PyWeakref_RefType) {
    // A weak reference has the hash of its referent.
    Value* referent = weak_key(in, object);
    if (!referent)
      throw Break{BreakId::unknown_object,
                  "the hash of a weak reference whose referent is gone or has its own __hash__"};
    return key_hash(in, referent, exact);
  }
  in.guards.add_class(object->type);
  PyObject* found = look_up(object->type, kHashName);
  if (!found || found == Py_None) unhashable(in, object);
  if (found == by_address) return address_hash(object, exact);
  if (!PyFunction_Check(found)) {
    if (SequenceValue* tuple = in.list_part(object); tuple && tuple->kind == Kind::Tuple)
      return key_hash(in, tuple, exact);
    throw Break{BreakId::unknown_object, std::string("the hash of a ") + object->type->tp_name};
  }
  Value* given = in.call(in.bind_descriptor(found, object->type, object, kHashName), {});
  if (!PyType_IsSubtype(in.type_of(given), &PyLong_Type))
    in.raise(PyExc_TypeError, "__hash__ method should return an integer");
  PyObject* number = in.constant_of(given);
  if (!number) throw Break{BreakId::unknown_object, "a hash that is not known"};
  // CPython takes the result of `__hash__` itself if it fits in Py_ssize_t, and the int's hash otherwise. -1 becomes
  // -2, because -1 means an error.
  Py_ssize_t hash = PyLong_AsSsize_t(number);
  if (hash == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return PyObject_Hash(number);
  }
  return hash == -1 ? -2 : hash;
}

Ref literal_key(Interpreter& in, Value* key) {
  switch (key->kind) {
    case Kind::Constant:
    case Kind::Slice:
    case Kind::Tuple:
      return in.literal_of(key);
    case Kind::Set:
      return static_cast<SetValue*>(key)->type == &PyFrozenSet_Type ? in.literal_of(key) : Ref();
    default:
      return {};
  }
}

}  // namespace

Py_hash_t key_hash(Interpreter& in, Value* key, bool* exact) {
  Nesting nesting;
  if (Ref literal = literal_key(in, key)) {
    Py_hash_t hash = PyObject_Hash(literal.get());
    if (hash == -1) raise_current(in);
    if (exact && key->kind == Kind::Constant && !static_cast<ConstantValue*>(key)->literal &&
        Py_TYPE(literal.get())->tp_hash == PyBaseObject_Type.tp_hash)
      *exact = false;
    return hash;
  }
  switch (key->kind) {
    case Kind::Constant: {
      // A prototype class: each run makes another class, with another hash.
      PyObject* object = in.constant_of(key);
      if (Py_TYPE(object)->tp_hash != PyType_Type.tp_hash)
        throw Break{BreakId::unknown_object, "the hash of a class whose metaclass defines __hash__"};
      if (exact) *exact = false;
      return PyObject_Hash(object);
    }
    case Kind::List:
    case Kind::Dict:
      unhashable(in, key);
    case Kind::View:
    case Kind::Slice:
      // dict_values are hashable, and slices in some versions.
      if (in.type_of(key)->tp_hash != PyObject_HashNotImplemented)
        throw Break{BreakId::unknown_object, std::string("the hash of a ") + in.type_of(key)->tp_name};
      unhashable(in, key);
    case Kind::Set: {
      auto* set = static_cast<SetValue*>(key);
      if (set->type != &PyFrozenSet_Type) unhashable(in, key);
      if (exact) *exact = false;
      Py_hash_t hash = static_cast<Py_hash_t>(set_size(set));
      for (auto& entry : set->table->entries)
        if (entry.key) hash ^= key_hash(in, entry.key);
      return hash;
    }
    case Kind::Tuple: {
      auto* tuple = static_cast<SequenceValue*>(key);
      std::vector<Py_hash_t> lanes;
      for (size_t i = 0; i < tuple->items.size(); ++i) lanes.push_back(key_hash(in, in.item(tuple, i), exact));
      return tuple_hash(lanes);
    }
    case Kind::Method: {
      auto* method = static_cast<MethodValue*>(key);
      return key_hash(in, method->function, exact) ^ address_hash(method->self, exact);
    }
    case Kind::Object:
      return object_hash(in, static_cast<ObjectValue*>(key), exact);
    case Kind::Array:
      throw Break{BreakId::raises, "an array as a key"};
    case Kind::Number:
    case Kind::Text:
      needs_number(in, key, "as a key");
    case Kind::Tensor:
      if (is_customised(in, static_cast<TensorValue*>(key), "__hash__"))
        throw Break{BreakId::tensor_subclass, "the hash of a tensor"};
      return address_hash(key, exact);
    default:
      refuse_result(in, key);
      return address_hash(key, exact);
  }
}

/// Whether `dataclasses` generated the method: it only hashes fields.
static bool is_generated_hash(PyTypeObject* type, PyObject* function) {
  static PyObject* const params = PyUnicode_InternFromString("__dataclass_params__");
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  if (PyUnicode_CompareWithASCIIString(code->co_filename, "<string>") != 0 ||
      PyUnicode_CompareWithASCIIString(code->co_qualname, "__create_fn__.<locals>.__hash__") != 0)
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (look_up_own(base, kHashName) == function) return look_up_own(base, params) != nullptr;
  }
  return false;
}

bool hash_runs_user_code(Interpreter& in, Value* key) {
  if (key->kind == Kind::Tuple) {
    auto* tuple = static_cast<SequenceValue*>(key);
    for (size_t i = 0; i < tuple->items.size(); ++i)
      if (hash_runs_user_code(in, in.item(tuple, i))) return true;
    return false;
  }
  if (key->kind != Kind::Object) return false;
  PyObject* found = look_up(static_cast<ObjectValue*>(key)->type, kHashName);
  if (!found || !PyFunction_Check(found)) return false;
  return !is_generated_hash(static_cast<ObjectValue*>(key)->type, found);
}

void refuse_rehash(Interpreter& in, const DictValue* table) {
  for (const DictValue::Entry& entry : table->entries)
    if (entry.key && hash_runs_user_code(in, entry.key))
      throw Break{BreakId::reconstruct, "a container whose keys have a __hash__ of their own"};
}

std::vector<std::pair<Value*, Value*>> items_to_put(Interpreter& in, Value* mapping) {
  if (DictValue* dict = in.dict_part(mapping)) {
    in.realise(dict);
    refuse_rehash(in, dict);
  }
  return mapping_items(in, mapping);
}

bool is_identity_key(Interpreter& in, Value* key) {
  switch (key->kind) {
    case Kind::Tensor:
    case Kind::Function:
    case Kind::Iterator:
      return true;
    case Kind::Object:
      return look_up(static_cast<ObjectValue*>(key)->type, kEqName) == known_object("builtins.object.__eq__");
    default:
      return false;
  }
}

Value* identity_of_key(Interpreter& in, Value* key) {
  if (key->kind == Kind::Object && static_cast<ObjectValue*>(key)->type == &_PyWeakref_RefType)
    return weak_key(in, static_cast<ObjectValue*>(key));
  return is_identity_key(in, key) ? key : nullptr;
}

static bool compares_values(PyObject* object) {
  return Py_TYPE(object)->tp_richcompare != PyBaseObject_Type.tp_richcompare;
}

bool same_key(Interpreter& in, Value* known, Value* asked) {
  if (known == asked) return true;
  const bool is_reference = is_weak(known);
  if (is_reference && is_weak(asked)) {
    Value *one = identity_of_key(in, known), *other = identity_of_key(in, asked);
    if (!one || !other)
      throw Break{BreakId::unknown_object,
                  "weak references as keys, whose referents are gone or have their own __eq__"};
    return in.is_same(one, other);
  }
  if (is_reference || is_weak(asked)) return false;
  if (known->kind == Kind::Constant && asked->kind == Kind::Constant) {
    PyObject *a = in.constant_of(known), *b = in.constant_of(asked);
    if (!is_literal(a) || !is_literal(b)) {
      // A member of an IntEnum equals an int, and a typing alias another one.
      return a == b || ((compares_values(a) || compares_values(b)) && same_or_equal(in, known, asked));
    }
    Ref equal = Ref::steal(PyObject_RichCompare(a, b, Py_EQ));  // 1 == 1.0 == True as keys
    if (!equal) raise_current(in);
    // Comparing NumPy numbers gives a NumPy bool.
    return PyObject_IsTrue(equal.get()) == 1 || same_though_unequal(in, known, asked);
  }
  if (is_identity_key(in, known) && is_identity_key(in, asked)) return in.is_same(known, asked);
  if (known->kind == Kind::Tensor || asked->kind == Kind::Tensor) return false;
  return same_or_equal(in, known, asked);
}

void refuse_own_hash(PyObject* key) {
  if (!PyFunction_Check(key) && !TorchTracer::is_tensor(key) && Py_TYPE(key)->tp_hash != PyBaseObject_Type.tp_hash)
    throw Break{BreakId::unknown_object, "a container whose keys have a __hash__ of their own"};
}

Value* external_element(Interpreter& in, PyObject* object) {
  if (PyTuple_CheckExact(object) && !is_literal(object)) {
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      items.push_back(external_element(in, PyTuple_GET_ITEM(object, i)));
    return in.tuple(std::move(items));
  }
  if (is_literal(object) || is_guarded_by_identity(object)) return in.constant(object);
  refuse_own_hash(object);
  return in.wrap(object, in.guards.sources().pinned(object, "key"));
}

Ref external_key(Interpreter& in, Value* key) {
  switch (key->kind) {
    case Kind::Function:
      return static_cast<FunctionValue*>(key)->function;
    case Kind::Object:
      return static_cast<ObjectValue*>(key)->object;
    case Kind::Tensor:
      return static_cast<TensorValue*>(key)->real;
    case Kind::Tuple: {
      auto* tuple = static_cast<SequenceValue*>(key);
      Ref made = Ref::steal(PyTuple_New(tuple->items.size()));
      for (size_t i = 0; i < tuple->items.size(); ++i) {
        Ref part = external_key(in, in.item(tuple, i));
        if (!part) return {};
        PyTuple_SET_ITEM(made.get(), i, part.release());
      }
      return made;
    }
    default:
      return in.literal_of(key);
  }
}

PyObject* plain_item(PyObject* dict, PyObject* name) {
  if (!stator_dict_has_str_keys(dict)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &position, &key, &value))
      if (!is_literal(key) && !is_guarded_by_identity(key) &&
          Py_TYPE(key)->tp_richcompare != PyBaseObject_Type.tp_richcompare)
        throw Break{BreakId::unknown_object, "a container whose keys have an __eq__ of their own"};
  }
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (!found) PyErr_Clear();
  return found;
}

}  // namespace stator::capture
