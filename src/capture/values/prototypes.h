#pragma once

#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/values/value.h"

/// Prototypes: the real classes and descriptors that represent, during a capture, those that the program makes in each
/// run. They contain surrogates, real objects that represent values. The program never sees a prototype; the plan makes
/// the program's own object.
namespace stator::capture {

/// A call that the plan performs.
struct MadeBy {
  Ref callable;
  std::vector<Value*> arguments;
  std::vector<std::pair<Ref, Value*>> keywords;
};

struct Prototype {
  Ref object;
  uint64_t step = 0;  // at which it was made; to break before, if the plan cannot make it
  /// The call that makes it. For a class statement: the metaclass with name and bases, whose Python code is not run.
  MadeBy made_by;
  bool is_statement = false;
  std::vector<std::pair<Value*, Value*>> names;  // class statement: the namespace when the class was made
  std::vector<MadeBy> changes;                   // later calls with the object as first argument, before `arguments`
};

/// All prototypes of one capture. Owns the objects it is given.
class Prototypes {
 public:
  bool empty() const { return all_.empty(); }
  /// Null if the object is not a prototype.
  Prototype* find(PyObject* object);
  Prototype& add(Ref object);

  /// The object represents the value inside of prototypes. One object, one value.
  void set_surrogate(Ref object, Value* value);
  Value* value_of(PyObject* object) const;  // null: the object is not a surrogate
  PyObject* surrogate(Value* value) const;  // null: the value has no surrogate yet

  /// Takes ownership of an object that is used only inside of prototypes and must not outlive the capture.
  void own(Ref object);
  bool owns(PyObject* object) const { return owned_.contains(object); }
  /// Whether the path of the source begins at such an object.
  bool owns(const Source* source) const;

 private:
  std::deque<Prototype> all_;
  std::unordered_map<PyObject*, Prototype*> by_object_;
  std::unordered_map<PyObject*, Value*> values_;
  std::unordered_map<const Value*, PyObject*> surrogates_;
  std::unordered_map<PyObject*, Ref> owned_;
};

}  // namespace stator::capture
