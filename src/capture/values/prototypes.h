#pragma once

#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/values/value.h"

/// Classes and descriptors that the program makes anew in each run are real objects in a capture, too: prototypes,
/// which hold real objects in the place of values. Nobody but the capture ever sees them; a plan makes the program's
/// own.
namespace stator::capture {

/// A call that the plan makes.
struct MadeBy {
  Ref callable;
  std::vector<Value*> arguments;
  std::vector<std::pair<Ref, Value*>> keywords;
};

struct Prototype {
  Ref object;
  uint64_t step = 0;  // the instruction to stop before, where it cannot be made again
  /// What makes it. A class statement: the metaclass, of which no code is run, on the name and the bases.
  MadeBy made_by;
  bool is_statement = false;
  std::vector<std::pair<Value*, Value*>> names;  // of a class statement: the namespace when the class was made
  std::vector<MadeBy> changes;                   // calls whose first argument it is, before those given
};

/// Owns what it is given; all of one capture.
class Prototypes {
 public:
  bool empty() const { return all_.empty(); }
  /// Null: the object is none.
  Prototype* find(PyObject* object);
  Prototype& add(Ref object);

  /// The object stands for the value inside of prototypes, and for no other.
  void stand_for(Ref object, Value* value);
  Value* value_of(PyObject* object) const;  // null: it stands for none
  PyObject* stand_in(Value* value) const;   // null: nothing stands for it yet

  /// What only prototypes have: nothing of it outlives the capture.
  void own(Ref object);
  bool owns(PyObject* object) const { return owned_.contains(object); }
  /// Whether it is read from what only prototypes have.
  bool owns(const Source* source) const;

 private:
  std::deque<Prototype> all_;
  std::unordered_map<PyObject*, Prototype*> by_object_;
  std::unordered_map<PyObject*, Value*> values_;
  std::unordered_map<const Value*, PyObject*> stand_ins_;
  std::unordered_map<PyObject*, Ref> owned_;
};

}  // namespace stator::capture
