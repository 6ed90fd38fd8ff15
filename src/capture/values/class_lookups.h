#pragma once

#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/pycompat/ref.h"
#include "core/base/pointer_map.h"

/// Lookups on classes during a capture. The interpreter looks names up by the functions below and in no other way
/// (`tools/check_names.py`), so that the guards know every name that a capture relied on.
namespace stator::capture {

/// The names that one capture attempt looked up on classes, whether something was found or not.
///
/// A name counts for every class that the attempt guards, not only for the class that was asked: a lookup that some C
/// function repeats on another class is covered as well. Special names (`__x__`) count always.
class ClassLookups {
 public:
  /// While it exists, the lookups of this thread are recorded. Scopes nest: code that a capture calls may capture too.
  class Scope {
   public:
    explicit Scope(ClassLookups& lookups);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ClassLookups* outer_;
  };

  /// What a lookup relies on if it finds an object that is not a descriptor.
  enum class Use : uint8_t {
    Presence,  // that it is there: a source of its own guards the object, where the program reads it
    Object,    // the object itself
  };
  void add(PyObject* name, Use use);
  /// The name was looked up on this class.
  void add(PyTypeObject* type, PyObject* name, Use use);
  /// A name was looked up on this class, or an object of this class was found, which may be a descriptor.
  void add_class(PyTypeObject* type);
  /// The program reads this name of the class's own dict, and a source guards what it finds.
  void add_source(PyTypeObject* owner, PyObject* name);
  /// All names of this class matter: it was looked through.
  void add_all(PyTypeObject* type) { looked_through_.insert(type); }

  /// Adds what another attempt asked for, but for its classes.
  void add_names(const ClassLookups& other);

  struct Class {
    Ref type;
    unsigned tag;  // its version tag at the first lookup
  };
  /// The classes of `add_class` that can change, in order. Guards refer to this object, and must keep no class alive.
  std::vector<Class> take_classes() { return std::exchange(classes_, {}); }
  /// The name, or an equal one, was looked up.
  bool contains(PyObject* name) const;
  bool uses_object(PyObject* name) const;
  bool has_source(PyTypeObject* owner, PyObject* name) const;
  bool is_looked_through(PyTypeObject* type) const { return looked_through_.contains(type); }

 private:
  struct Name {
    Ref held;
    bool uses_object = false;
  };
  const Name* find(PyObject* name) const;

  PointerMap<Name> names_;  // by interned string
  std::unordered_map<PyTypeObject*, std::unordered_set<PyObject*>> sources_;
  std::unordered_set<PyTypeObject*> looked_through_;
  std::vector<Class> classes_;
  PointerMap<bool> known_classes_;
  PyTypeObject* last_class_ = nullptr;  // of `add_class`: most lookups ask the same class again

  /// Lookups that were recorded, by a hash of class and name: most lookups are repeated. A later one may take the place
  /// of an earlier one.
  struct Lookup {
    PyTypeObject* type = nullptr;
    PyObject* name = nullptr;  // interned; `names_` owns it
    Use use = Use::Presence;
  };
  std::array<Lookup, 256> recent_;
};

/// Whether attributes of the class can be set: those of static built-in classes cannot.
inline bool is_changeable(const PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
}

/// The interned string that equals this one.
Ref interned(PyObject* name);

/// What CPython's lookup along the MRO finds; borrowed, null if there is nothing. The class is guarded, and so is the
/// class of what was found. The caller uses the object itself.
PyObject* look_up(PyTypeObject* type, PyObject* name);
/// The same for the attribute of an instance or class. The caller passes a found object that is not a descriptor to
/// `Interpreter::bind_descriptor`, or only asks whether it is one.
PyObject* look_up_attribute(PyTypeObject* type, PyObject* name);
/// What the class itself has under this name, without its bases; as `look_up_attribute`. The class must be in the MRO
/// of one that is guarded.
PyObject* look_up_own(PyTypeObject* type, PyObject* name);

}  // namespace stator::capture
