#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/pycompat/ref.h"

/// Where an outside object came from: a path from the call's own roots. Guards hang on sources; plans read them.
namespace stator::capture {

enum class SourceKind : uint8_t {
  Argument,       // localsplus slot `index` of the captured frame
  Function,       // the function object that is running
  Pinned,         // an object whose identity follows from other guards (class attribute, function's globals)
  InstanceDict,   // __dict__ of the parent
  DictItem,       // parent[key], parent an exact dict
  Attribute,      // parent's instance attribute `key`, read without user code
  Item,           // parent[index], parent a tuple or list
  Cell,           // closure cell `index` of the parent function; `key`: the variable's name
  CellContents,   // what the parent cell holds
  Default,        // __defaults__[index] of the parent function
  KwDefault,      // __kwdefaults__[key] of the parent function
  BoundFunction,  // __func__ of the parent method
  BoundSelf,      // __self__ of the parent method
  Type,           // the parent's class
  Gradient,       // .grad of the parent tensor
  Referent,       // what the parent weak reference refers to; None when it is gone
  Upcoming,       // what the parent iterator gives after `index` other items; of a dict's items, the value
  UpcomingKey,    // of a dict's items, the key
  Counter,        // the number that the parent enumerate gives after `index` others
  Asked,          // iterator `index` of those that the parent enumerate or zip asks
  Iterated,       // the list or dict that the parent iterator goes over
  FunctionMode,   // the thread's torch-function mode number `index`, from the outermost
  Proxied,        // the mapping that the parent mappingproxy shows
  ThreadDict,     // attributes of the parent threading.local in the thread that runs
  Cached,         // what the parent, a function of functools.lru_cache, keeps under `key`
};

/// `index` of an Attribute source: an attribute of the instance itself, or a field that its class describes.
inline constexpr int32_t kOwnAttribute = 0, kClassField = 1;

/// Facts that a guard asserts about the object at a source.
enum class FactKind : uint8_t {
#define STATOR_GUARD(name, invariant) name,
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
};

/// A line of the user's program.
struct UserLine {
  Ref file;
  int line = 0;
};

class TensorExpectation;
struct Source;

struct Fact {
  FactKind kind;
  Ref object;  // expected object, type, key, key tuple, ... by kind
  Ref extra;   // second expectation, by kind
  int64_t number = 0;
  UserLine line;                                      // what needed it
  Source* other = nullptr;                            // SameAs, NotSameAs
  std::shared_ptr<const std::vector<Source*>> group;  // Distinct
  std::shared_ptr<const TensorExpectation> tensor;    // Tensor
};

struct Source {
  SourceKind kind;
  Source* parent = nullptr;
  int32_t index = 0;
  Ref key;
  std::string key_text;  // of a key that is no longer held
  Ref object;            // what stood there at capture
  std::vector<Source*> children;
  std::vector<Fact> facts;
  bool loaded = false;  // a plan reads it, so it needs a slot even without facts
  int32_t slot = -1;    // given when the check array is made

  /// Readable path, e.g. `self.layers[0].weight`.
  std::string describe() const;
  std::string shown_key(bool quoted) const;
};

/// Owns all sources of one capture and interns them: one node per path.
class SourceTree {
 public:
  Source* argument(int slot, PyObject* object);
  Source* function(PyObject* object);
  Source* function_mode(int32_t index, PyObject* object);
  Source* pinned(PyObject* object, const char* what);
  Source* child(Source* parent, SourceKind kind, int32_t index, PyObject* key, PyObject* object);

  /// Adds a fact once.
  void add_fact(Source* source, Fact fact);

  const std::vector<Source*>& roots() const { return roots_; }
  /// Leaves out what is reached from these roots; they stay valid.
  template <class F>
  void drop_roots(F&& is_dropped) {
    std::erase_if(roots_, is_dropped);
  }

 private:
  Source* make(SourceKind kind, Source* parent, int32_t index, PyObject* key, PyObject* object);

  std::deque<Source> arena_;
  std::vector<Source*> roots_;
  std::unordered_map<PyObject*, Source*> pinned_;
  // Parents with many children get a hash index, so that interning stays linear.
  std::unordered_map<Source*, std::unordered_multimap<uint64_t, Source*>> wide_;
};

}  // namespace stator::capture
