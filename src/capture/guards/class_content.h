#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/values/class_lookups.h"
#include "core/base/pointer_map.h"

/// What a capture relied on in classes, compared by content if a class's version tag differs. The tag of a class
/// changes with every store to the class or to a base, of whatever name; most of those do not concern the capture.
namespace stator::capture {

/// Tells whether an object can be watched; if so, it is watched from now on.
using Watch = std::function<bool(PyObject*)>;

/// The names in a class's own dict that a capture relied on. Shared by the classes that inherit from it.
class ClassNames {
 public:
  ClassNames(PyTypeObject* type, std::shared_ptr<const ClassLookups> lookups);
  /// Whether each of them still has the same object, and none was added.
  bool hold();
  /// The first name for which that is not so, as `Class.name`; empty if there is none.
  std::string difference() const;
  /// Drops the references to objects that can be watched.
  void release(const Watch& watch);

 private:
  enum class Expect : uint8_t {
    Object,   // this very object
    Literal,  // an equal literal
    Parts,    // a descriptor of the same class with the same parts
    Code,     // a Python function: the capture looked for no such name, and so did not call it
    Plain,    // an object that is not a descriptor: a source guards it, where the program read it
    Unknown,  // it can neither be watched nor owned: no change of the class's dict is accepted
  };
  struct Item {
    Ref name;
    Expect expect = Expect::Object;
    PyTypeObject* kind = nullptr;  // Parts: class of the descriptor, a static one
    const void* parts[3] = {};     // Object: itself; Parts: functions, or parts of the class that defines the field
    Ref held[3];                   // keep the addresses from being used again, until they are watched
  };
  /// Fills in what is expected of the object under the item's name.
  void expect(PyObject* object, Item& item) const;
  bool is_as(const Item& item, PyObject* object) const;
  bool was_asked(PyObject* name) const;
  bool counts(PyObject* name) const;
  PyObject* first_change() const;

  PyTypeObject* type_;
  std::shared_ptr<const ClassLookups> lookups_;
  PointerMap<Item> items_;  // by interned name
  unsigned tag_ = 0;        // version tag of the class when it was last compared
  uint64_t dict_tag_ = 0;
  bool released_ = false;
};

/// What a capture relied on in one class: lookups along its MRO, and its slots. Made at the end of an attempt.
class ClassContent {
 public:
  /// `names`: those of the classes in the MRO that can change. `tag`: the version tag at the first lookup; if the class
  /// changed since, the content never holds.
  ClassContent(PyTypeObject* type, unsigned tag, std::vector<std::shared_ptr<ClassNames>> names);
  bool holds() { return (present_tag() == tag_ && tag_) || compare_again(); }
  /// What changed, as text.
  std::string difference() const;
  void release(const Watch& watch);

 private:
  unsigned present_tag() const;
  bool compare_again();
  bool has_same_bases() const;
  bool compare();

  PyTypeObject* type_;
  unsigned tag_ = 0;         // the content held at this tag
  unsigned failed_tag_ = 0;  // it did not hold at this one
  bool is_known_ = true;
  std::vector<PyObject*> mro_, bases_;  // compared only; all but static classes are watched
  std::vector<uintptr_t> slots_;
  std::vector<std::shared_ptr<ClassNames>> names_;
  std::vector<Ref> held_;  // classes of the MRO
  Ref name_, qualname_;
};

/// Makes the contents of all classes that one attempt guards.
class ClassContents {
 public:
  explicit ClassContents(std::shared_ptr<const ClassLookups> lookups) : lookups_(std::move(lookups)) {}
  std::shared_ptr<ClassContent> of(PyTypeObject* type, unsigned tag);

 private:
  std::shared_ptr<const ClassLookups> lookups_;
  std::unordered_map<PyTypeObject*, std::shared_ptr<ClassNames>> names_;
};

}  // namespace stator::capture
