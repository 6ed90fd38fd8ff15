#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/pycompat/code.h"
#include "capture/pycompat/ref.h"
#include "capture/values/source.h"

/// Values: what the interpreter knows about objects, one class per kind. A `ValueArena` owns them until the capture
/// attempt ends; all other code holds plain pointers. The value of an external object has a source.
namespace stator::capture {

enum class Kind : uint8_t {
#define STATOR_VALUE(kind, type) kind,
#include "capture/values/value_kinds.def"
#undef STATOR_VALUE
};

struct Value {
  const Kind kind;
  Source* source = nullptr;  // null: the program made the object during the capture
  explicit Value(Kind k) : kind(k) {}
  virtual ~Value() = default;
};

struct NullValue final : Value {
  NullValue() : Value(Kind::Null) {}
};

struct UnreadValue final : Value {
  explicit UnreadValue(Source* s) : Value(Kind::Unread) { source = s; }
};

struct ConstantValue final : Value {
  static constexpr Kind kKind = Kind::Constant;
  Ref object;
  bool literal;                // guarded by equality; else by identity
  bool guarded = false;        // the guard was emitted (only with a source)
  bool state_guarded = false;  // so are the attributes of its own
  Value* number = nullptr;     // a varying number: the graph's number for it, once that is needed
  ConstantValue(Ref o, bool is_literal) : Value(kKind), object(std::move(o)), literal(is_literal) {}
};

struct Dispatching;

struct TensorValue final : Value {
  static constexpr Kind kKind = Kind::Tensor;
  Ref fake;                                  // the torch.Tensor object that operators are called on
  Ref real;                                  // external: the tensor at capture
  PyTypeObject* type;                        // the class that the program sees
  Value* grad = nullptr;                     // its gradient, once it was read or written
  std::vector<std::pair<Ref, Value*>> own;   // attributes that the program set, newest first
  bool written = false;                      // the program changed requires_grad
  uint64_t wrapped_at = 0;                   // a functorch wrapper: the step at which it was made, to break before
  Ref layout;                                // a tensor over the memory of an external NumPy array: the array's layout
  std::shared_ptr<Dispatching> dispatching;  // its class has a `__torch_dispatch__`, which answers operators
  explicit TensorValue(Ref f, PyTypeObject* t) : Value(kKind), fake(std::move(f)), type(t) {}
};

/// Whether an input of the graph is a number: `real` is the float or int itself, and there is no fake.
inline bool is_number_input(const TensorValue& input) {
  return PyFloat_CheckExact(input.real.get()) || PyLong_CheckExact(input.real.get());
}

struct ArrayValue final : Value {
  static constexpr Kind kKind = Kind::Array;
  Ref array;                      // the object of `stator.arrays`; null until an external array is read
  TensorValue* tensor = nullptr;  // external: a tensor over its memory, which the program never sees
  ArrayValue() : Value(kKind) {}
};

struct NumberValue final : Value {
  static constexpr Kind kKind = Kind::Number;
  PyTypeObject* type;  // int, float or bool
  Ref symbol;          // torch.SymInt, SymFloat or SymBool, passed to torch calls
  Ref fake;            // fake of the zero-dimensional tensor with this value, once that is needed
  NumberValue(PyTypeObject* t, Ref s) : Value(kKind), type(t), symbol(std::move(s)) {}
};

/// The result of a pure call that the plan makes when it ends.
struct TextValue final : Value {
  static constexpr Kind kKind = Kind::Text;
  Ref callable;
  std::vector<Value*> arguments;
  TextValue(Ref c, std::vector<Value*> a) : Value(kKind), callable(std::move(c)), arguments(std::move(a)) {}
};

/// Tuples and lists. The items of an external one are null until they are read.
struct SequenceValue final : Value {
  std::vector<Value*> items;
  PyTypeObject* type;  // tuple, list, or a tuple subclass (named tuple, torch return type)
  Ref external;        // the object at capture, if it is external
  uint64_t moves = 0;  // of a deque: counts the changes that invalidate its iterators
  SequenceValue(Kind k, PyTypeObject* t) : Value(k), type(t) {}
};

/// Keeps insertion order. Keys are hashable values.
struct DictValue final : Value {
  static constexpr Kind kKind = Kind::Dict;
  struct Entry {
    Value* key = nullptr;  // null: deleted
    Value* value = nullptr;
  };
  std::vector<Entry> entries;
  std::unordered_multimap<Py_hash_t, size_t> index;
  size_t live = 0;
  PyTypeObject* type;  // dict, OrderedDict or defaultdict
  Ref external;
  Value* default_factory = nullptr;
  DictValue* own = nullptr;  // attributes that the program set on an OrderedDict
  bool mutated = false;
  bool is_globals = false;  // globals of a module: stores are handled like STORE_GLOBAL
  explicit DictValue(PyTypeObject* t) : Value(kKind), type(t) {}
};

struct SetValue final : Value {
  static constexpr Kind kKind = Kind::Set;
  Ref elements;                // a real set, if all elements are literals or guarded by identity
  DictValue* table = nullptr;  // else: a dict whose keys are the elements
  PyTypeObject* type;          // set or frozenset
  bool changed = false;        // by the program
  bool exact = false;          // external: `elements` has the same hash table layout, so its order stays right
  uint32_t version = 0;        // incremented by each change
  explicit SetValue(Ref e, PyTypeObject* t) : Value(kKind), elements(std::move(e)), type(t) {}
};

/// Reflects later changes of the dict, as CPython's views do.
struct ViewValue final : Value {
  static constexpr Kind kKind = Kind::View;
  enum class Part : uint8_t { Keys, Values, Items };
  DictValue* dict;
  Part part;
  ViewValue(DictValue* d, Part p) : Value(kKind), dict(d), part(p) {}
};

struct SliceValue final : Value {
  static constexpr Kind kKind = Kind::Slice;
  Value *start, *stop, *step;
  SliceValue(Value* a, Value* b, Value* c) : Value(kKind), start(a), stop(b), step(c) {}
};

struct CellValue final : Value {
  static constexpr Kind kKind = Kind::Cell;
  Value* contents = nullptr;  // null: unbound
  Ref external;               // the cell object, if it is external
  bool loaded = true;         // false: the contents of an external cell were not read yet
  bool stored = false;        // the program wrote to it
  CellValue() : Value(kKind) {}
};

struct FunctionValue final : Value {
  static constexpr Kind kKind = Kind::Function;
  Ref function;  // external: the function object
  // Of a function that the program made:
  PyCodeObject* code = nullptr;  // owned by the constants of the code that made it, or by `function`
  PyObject* globals = nullptr;
  Source* globals_source = nullptr;
  Value* defaults = nullptr;    // tuple or null
  Value* kwdefaults = nullptr;  // dict or null
  std::vector<CellValue*> closure;
  Value* annotations = nullptr;
  std::unordered_map<std::string, Value*> fields;  // __name__ and the like, if the program wrote them
  DictValue* own = nullptr;                        // its __dict__; external: only what the program wrote
  bool guarded = false;
  FunctionValue() : Value(kKind) {}
};

struct MethodValue final : Value {
  static constexpr Kind kKind = Kind::Method;
  Value* function;
  Value* self;
  MethodValue(Value* f, Value* s) : Value(kKind), function(f), self(s) {}
};

struct ObjectValue final : Value {
  static constexpr Kind kKind = Kind::Object;
  PyTypeObject* type;
  Ref object;                     // external: the instance
  bool identity_guarded = false;  // see Interpreter::need_identity
  bool through_dict = false;  // external: its attributes are read through its __dict__ object, which is made if need be
  struct Attribute {
    Ref name;
    Value* value;  // null: deleted by the program
  };
  std::vector<Attribute> attributes;  // external: written by the program, in order
  DictValue* own = nullptr;           // made by the program: its __dict__, null while empty
  Value* base = nullptr;              // of a dict, list, tuple, ... subclass: the contents of the built-in base
  // Of an exception that the program made; its `base` is the tuple of args.
  Value *cause = nullptr, *context = nullptr;
  bool suppress_context = false, raised = false;
  uint64_t step = 0;  // of a context manager that changes a thread's state: where it was entered, to break before
  ObjectValue(PyTypeObject* t) : Value(kKind), type(t) {}

  /// Points to the value of an attribute that the program wrote; null if it did not write it.
  Value** find(PyObject* name) {
    if (own)
      for (DictValue::Entry& entry : own->entries) {
        // Keys of a __dict__ need not be strings.
        const bool is_known = entry.key && entry.key->kind == Kind::Constant;
        PyObject* key = is_known ? static_cast<ConstantValue*>(entry.key)->object.get() : nullptr;
        if (key && PyUnicode_Check(key) && (key == name || PyUnicode_Compare(key, name) == 0)) return &entry.value;
      }
    for (Attribute& a : attributes)
      if (a.name.get() == name || PyUnicode_Compare(a.name.get(), name) == 0) return &a.value;
    return nullptr;
  }
};

struct SuperValue final : Value {
  static constexpr Kind kKind = Kind::Super;
  PyTypeObject* type;  // search starts after it
  PyTypeObject* start_type;
  Value* self;
  SuperValue(PyTypeObject* t, PyTypeObject* st, Value* s) : Value(kKind), type(t), start_type(st), self(s) {}
};

struct OpaqueValue final : Value {
  static constexpr Kind kKind = Kind::Opaque;
  const char* what;  // for break messages
  explicit OpaqueValue(const char* w) : Value(kKind), what(w) {}
  // If it is the result of a call that the plan makes when it ends:
  Ref callable;  // else null
  std::vector<Value*> arguments;
  PyTypeObject* number = nullptr;  // class of the result, if the result and all arguments are numbers
  Value* as_number = nullptr;      // then: the graph's number for it, once that is needed
  Ref grad_fn;        // of the fake of its first argument, a tensor; a different one later means an in-place write
  uint64_t step = 0;  // of the call, to break before
};

class Interpreter;

/// How a plan makes an iterator in the same state: by a call, and by drawing items from the result.
struct Rebuild {
  PyObject* callable = nullptr;  // borrowed; null: the iterator cannot be made
  std::vector<Value*> args;
  std::vector<std::pair<const char*, Value*>> keywords;
  size_t taken = 0;  // number of items to draw
};

/// An iterator, with its present position. `next` returns null at the end.
struct IteratorValue : Value {
  static constexpr Kind kKind = Kind::Iterator;
  IteratorValue() : Value(kKind) {}
  virtual Value* next(Interpreter& interpreter) = 0;
  virtual PyTypeObject* type() const = 0;
  virtual Rebuild rebuild(Interpreter&) { return {}; }
};

/// The value as one of class `T`; null if it is of another kind.
template <class T>
T* as(Value* value) {
  return value && value->kind == T::kKind ? static_cast<T*>(value) : nullptr;
}
inline SequenceValue* as_sequence(Value* value) {
  return value && (value->kind == Kind::Tuple || value->kind == Kind::List) ? static_cast<SequenceValue*>(value)
                                                                            : nullptr;
}
inline bool is_null(const Value* value) { return !value || value->kind == Kind::Null; }

/// One function out of several: `Cases{[](const SequenceValue&) {...}, [](const DictValue&) {...}, ...}`, for `visit`.
template <class... F>
struct Cases : F... {
  using F::operator()...;
};

/// Calls `f` with the value as its own class. Does not compile if `f` has no case for some class.
template <class F>
decltype(auto) visit(const Value& value, F&& f) {
  switch (value.kind) {
#define STATOR_VALUE(kind, type) \
  case Kind::kind:               \
    return f(static_cast<const type&>(value));
#include "capture/values/value_kinds.def"
#undef STATOR_VALUE
  }
  __builtin_unreachable();
}

}  // namespace stator::capture
