#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/pycompat/code.h"
#include "capture/pycompat/ref.h"
#include "capture/values/source.h"

/// What the interpreter knows about an object: one class per kind of knowledge. Values are made by a `ValueArena`, live
/// as long as their capture, and are referred to by plain pointers. A value that came from outside carries its source.
namespace stator::capture {

enum class Kind : uint8_t {
  Null,      // CPython's NULL on the stack
  Unread,    // on the stack of a frame that is captured from its middle, and not looked at yet
  Constant,  // a literal, or an object known by identity (class, module, built-in function)
  Tensor,    // a tensor: its fake stands in the program's place
  Tuple,
  List,
  Dict,
  Set,
  View,  // keys(), values() or items() of a dict
  Slice,
  Function,  // a Python function, from outside or made in the program
  Method,    // function bound to self
  Object,    // instance of a class, from outside or made in the program; nn.Modules too
  Cell,
  Super,
  Iterator,
  Array,   // a NumPy array, or one of its numbers; a tensor stands behind it
  Number,  // an int, float or bool that depends on the data of tensors: the graph computes it
  Text,    // a string made of such numbers, when the plan ends
  Opaque,  // something that is there, and of which nothing else is known
};

struct Value {
  const Kind kind;
  Source* source = nullptr;  // null: made by the program
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
  bool literal;          // compared by value; else by identity
  bool guarded = false;  // its value was looked at (only with a source)
  ConstantValue(Ref o, bool is_literal) : Value(kKind), object(std::move(o)), literal(is_literal) {}
};

struct TensorValue final : Value {
  static constexpr Kind kKind = Kind::Tensor;
  Ref fake;                                 // torch.Tensor object that ops are called on
  Ref real;                                 // inputs: the tensor that stood there at capture
  PyTypeObject* type;                       // the class the program sees
  Value* grad = nullptr;                    // its gradient, once it was read or written
  std::vector<std::pair<Ref, Value*>> own;  // attributes that the program hung on it, newest first
  bool written = false;                     // requires_grad was changed by the program
  uint64_t wrapped_at = 0;                  // functorch's wrapper around a fake: the step to stop before where it was
  Ref layout;                               // an input that is the memory of a NumPy array: the array's layout
  explicit TensorValue(Ref f, PyTypeObject* t) : Value(kKind), fake(std::move(f)), type(t) {}
};

struct ArrayValue final : Value {
  static constexpr Kind kKind = Kind::Array;
  Ref array;                      // the object of `stator.arrays`; an outside one has it once it is looked at
  TensorValue* tensor = nullptr;  // outside: its memory, never seen by the program
  ArrayValue() : Value(kKind) {}
};

struct NumberValue final : Value {
  static constexpr Kind kKind = Kind::Number;
  PyTypeObject* type;  // int, float or bool
  Ref symbol;          // the object of torch's that stands for it in calls
  Ref fake;            // of the tensor that holds it, once that is needed
  NumberValue(PyTypeObject* t, Ref s) : Value(kKind), type(t), symbol(std::move(s)) {}
};

/// What a pure call gives that is made when the plan ends.
struct TextValue final : Value {
  static constexpr Kind kKind = Kind::Text;
  Ref callable;
  std::vector<Value*> arguments;
  TextValue(Ref c, std::vector<Value*> a) : Value(kKind), callable(std::move(c)), arguments(std::move(a)) {}
};

/// Tuples and lists; an outside one fills `items` from its source as they are asked for (null until then).
struct SequenceValue final : Value {
  std::vector<Value*> items;
  PyTypeObject* type;  // tuple, list, or a tuple subclass (named tuple, torch return type)
  Ref outside;         // the object at capture, if it came from outside
  uint64_t moves = 0;  // of a deque: changes that its iterators notice
  SequenceValue(Kind k, PyTypeObject* t) : Value(k), type(t) {}
};

/// Insertion-ordered; keys are any hashable values.
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
  Ref outside;
  Value* default_factory = nullptr;
  DictValue* own = nullptr;  // attributes that the program gave to an OrderedDict
  bool mutated = false;
  bool is_globals = false;  // globals of a module: what is stored there goes the way of global names
  explicit DictValue(PyTypeObject* t) : Value(kKind), type(t) {}
};

struct SetValue final : Value {
  static constexpr Kind kKind = Kind::Set;
  Ref elements;                // a real set of literals and identity-known objects, owned by the capture
  DictValue* table = nullptr;  // in its place once there are other elements: they are its keys
  PyTypeObject* type;          // set or frozenset
  bool changed = false;        // by the program
  bool exact = false;          // outside: `elements` has the same table, so changes keep the order right
  uint32_t version = 0;        // one more with each change
  explicit SetValue(Ref e, PyTypeObject* t) : Value(kKind), elements(std::move(e)), type(t) {}
};

/// Looks at the live dict, as CPython's views do.
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
  Ref outside;                // the cell object, if it came from outside
  bool loaded = true;         // false: contents of an outside cell not looked at yet
  bool stored = false;        // the program wrote to it
  CellValue() : Value(kKind) {}
};

struct FunctionValue final : Value {
  static constexpr Kind kKind = Kind::Function;
  Ref function;  // outside: the function object
  // made in the program:
  PyCodeObject* code = nullptr;  // owned by the making code's constants, or by `function`
  PyObject* globals = nullptr;
  Source* globals_source = nullptr;
  Value* defaults = nullptr;    // tuple or null
  Value* kwdefaults = nullptr;  // dict or null
  std::vector<CellValue*> closure;
  Value* annotations = nullptr;
  std::unordered_map<std::string, Value*> fields;  // __name__ and such, written by the program
  DictValue* own = nullptr;                        // made in the program: its __dict__; outside: what was written
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
  Ref object;           // outside: the instance
  bool pinned = false;  // its identity is guarded, so attribute reads go through its __dict__
  struct Attribute {
    Ref name;
    Value* value;  // null: deleted by the program
  };
  std::vector<Attribute> attributes;  // outside: written by the program, in order
  DictValue* own = nullptr;           // made in the program: its __dict__, null while empty
  Value* base = nullptr;              // instances of dict/list/tuple/... subclasses: the part of the built-in base
  // Exceptions made in the program; their base is the tuple of args.
  Value *cause = nullptr, *context = nullptr;
  bool suppress_context = false, raised = false;
  uint64_t step = 0;  // blocks that change a thread's state: the instruction to stop before, where they are entered
  ObjectValue(PyTypeObject* t) : Value(kKind), type(t) {}

  /// The place of an attribute that the program wrote; null if it wrote none.
  Value** find(PyObject* name) {
    if (own)
      for (DictValue::Entry& entry : own->entries) {
        // The program may put anything into a __dict__.
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
  const char* what;
  explicit OpaqueValue(const char* w) : Value(kKind), what(w) {}
  // What a call gives that is made when the plan ends.
  Ref callable;  // null: no such
  std::vector<Value*> arguments;
  PyTypeObject* number = nullptr;  // it is a number made of numbers alone, of this class
  Ref grad_fn;  // its first argument is a tensor, whose fake had this one: another one means that it was written since
  uint64_t step = 0;  // the instruction to stop before, where it was
};

class Interpreter;

/// How an iterator is made anew: a call, and how many items are taken from it.
struct Rebuild {
  PyObject* callable = nullptr;  // borrowed; null: it cannot be made
  std::vector<Value*> args;
  std::vector<std::pair<const char*, Value*>> keywords;
  size_t taken = 0;
};

/// An iterator half-way through. `next` gives null at the end.
struct IteratorValue : Value {
  static constexpr Kind kKind = Kind::Iterator;
  IteratorValue() : Value(kKind) {}
  virtual Value* next(Interpreter& interpreter) = 0;
  virtual PyTypeObject* type() const = 0;
  virtual Rebuild rebuild(Interpreter&) { return {}; }
};

/// Null unless the value is of that class.
template <class T>
T* as(Value* value) {
  return value && value->kind == T::kKind ? static_cast<T*>(value) : nullptr;
}
inline SequenceValue* as_sequence(Value* value) {
  return value && (value->kind == Kind::Tuple || value->kind == Kind::List) ? static_cast<SequenceValue*>(value)
                                                                            : nullptr;
}
inline bool is_null(const Value* value) { return !value || value->kind == Kind::Null; }

/// Owns the values of one capture. They stand side by side in a few large blocks and die with it.
class ValueArena {
 public:
  ValueArena() = default;
  ~ValueArena() {
    for (Value* value : values_) value->~Value();
  }
  ValueArena(const ValueArena&) = delete;

  template <class T, class... Args>
  T* make(Args&&... args) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    T* made = new (place(sizeof(T))) T(std::forward<Args>(args)...);
    values_.push_back(made);
    return made;
  }
  NullValue* null() { return &null_; }
  size_t count() const { return values_.size(); }
  /// Whether the value was among the first `count` ones.
  bool is_among_first(const Value* value, size_t count) const {
    auto end = values_.begin() + static_cast<ptrdiff_t>(count);
    return std::find(values_.begin(), end, value) != end;
  }

 private:
  static constexpr size_t kBlock = 1 << 14;

  void* place(size_t size) {
    size = (size + alignof(std::max_align_t) - 1) & ~(alignof(std::max_align_t) - 1);
    if (size > left_) {
      left_ = std::max(size, kBlock);
      blocks_.push_back(std::make_unique<std::byte[]>(left_));
      free_ = blocks_.back().get();
    }
    left_ -= size;
    return std::exchange(free_, free_ + size);
  }

  NullValue null_;
  std::vector<Value*> values_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* free_ = nullptr;
  size_t left_ = 0;
};

}  // namespace stator::capture
