#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/pycompat/ref.h"

/// Sources: the path by which a later call finds an external object again, from an argument, the function or a pinned
/// object. Each guard belongs to a source; plans read the objects of sources.
namespace stator::capture {

enum class SourceKind : uint8_t {
#define STATOR_SOURCE(name, missing, per_call, load, words, text) name,
#include "capture/values/source_kinds.def"
#undef STATOR_SOURCE
};
inline constexpr size_t kSourceKinds = 0
#define STATOR_SOURCE(name, missing, per_call, load, words, text) +1
#include "capture/values/source_kinds.def"
#undef STATOR_SOURCE
    ;

/// `index` of an Attribute source: an attribute of the instance itself, or a field that a descriptor of its class reads
/// (a slot, a member of a C class).
inline constexpr int32_t kOwnAttribute = 0, kClassField = 1;

/// What a guard asserts about the object at a source.
enum class FactKind : uint8_t {
#define STATOR_GUARD(name, stage, traits, unwanted, check, words, describe, saw) name,
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
};
inline constexpr size_t kFactKinds = 0
#define STATOR_GUARD(name, stage, traits, unwanted, check, words, describe, saw) +1
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
    ;

/// A line of the user's program.
struct UserLine {
  Ref file;
  int line = 0;
};

class ClassContent;
class TensorExpectation;
struct ShapeGuards;
struct Source;

struct Fact {
  FactKind kind{};
  Ref object;  // expected object, type, key, key tuple, ... by kind
  Ref extra;   // second expectation, by kind
  int64_t number = 0;
  UserLine line;                                      // the program's line that made the guard necessary
  Source* other = nullptr;                            // SameAs, NotSameAs
  std::shared_ptr<const std::vector<Source*>> group;  // Distinct, Memory, Shapes, Survives, Depends
  std::shared_ptr<const TensorExpectation> tensor;    // Tensor
  std::shared_ptr<ClassContent> content;              // ClassContent
  std::shared_ptr<const ShapeGuards> shapes;          // Shapes
  uint64_t step = 0;      // of the capture, at which it was needed; 0: before the first, or after the last
  bool of_break = false;  // only a graph break depends on it: where it fails, the plan is still right
};

struct Source {
  /// `memory`: of the tree that owns the source.
  explicit Source(std::pmr::memory_resource* memory) : children(memory), facts(memory) {}

  SourceKind kind{};
  Source* parent = nullptr;
  int32_t index = 0;
  Ref key;
  std::string key_text;  // the key as text, once the key itself was dropped
  Ref object;            // what was there at capture; dropped when the check array is built
  std::pmr::vector<Source*> children;
  std::pmr::vector<Fact> facts;
  bool loaded = false;     // a plan or another source's guard reads it, so it needs a slot even without facts
  bool recurring = false;  // an instance, guarded by structure, that later calls are likely to bring again
  bool of_break = false;   // only facts of a break are at or below it
  bool compared = false;   // a fact of another source compares with it; set when the check array is built
  int32_t slot = -1;       // its slot in the check array; -1: none
  uint32_t number = 0;     // how many sources were made before it
  uint64_t step = 0;       // as in `Fact`

  /// Readable path, e.g. `self.layers[0].weight`.
  std::string describe() const;
  void append_text(std::string& text) const;
  /// The key as text; `quoted`: its repr. Runs no code of the program.
  std::string shown_key(bool quoted) const;
};

/// Whether each call may well bring another object: then the object is guarded by its type, not by its identity.
bool is_per_call(const Source& source);
/// Whether the path begins at an object whose identity follows from other guards: a global variable, say.
bool is_from_pinned(const Source& source);
/// Whether a later call can find nothing at the source although the guards of its parent hold.
bool may_be_missing(const Source& source);

/// Owns all sources of one capture and interns them: one `Source` per path.
class SourceTree {
 public:
  /// `steps`: the number of the step that runs. The tree reads it until `stop_clock` is called.
  explicit SourceTree(const uint64_t* steps = nullptr) : steps_(steps) {}
  void stop_clock() { steps_ = nullptr; }

  Source* argument(int slot, PyObject* object);
  Source* function(PyObject* object);
  Source* function_mode(int32_t index, PyObject* object);
  /// `text`: how the object is shown.
  Source* pinned(PyObject* object, const char* text);
  Source* child(Source* parent, SourceKind kind, int32_t index, PyObject* key, PyObject* object);

  /// Does nothing if the source has the same fact already.
  void add_fact(Source* source, Fact&& fact);
  /// An empty fact, added to the source. To be filled in with one that the source does not have.
  Fact& append_fact(Source* source);
  /// Whether the source has the fact that consists of these alone.
  static bool has_fact(const Source& source, FactKind kind, PyObject* object, int64_t number);

  /// Adds the sources and facts of another tree, those of steps up to `last_step`, as those that a graph break depended
  /// on (`Fact::of_break`). What this tree has already stays as it is.
  void add_of_break(const SourceTree& other, uint64_t last_step);

  const std::pmr::vector<Source*>& roots() const { return roots_; }
  /// Removes facts that others of the same source imply: the guard on a tensor checks its class.
  void drop_implied();

  /// Removes these roots from `roots()`, and so everything reached from them. Pointers to them stay valid.
  template <class F>
  void drop_roots(F&& is_dropped) {
    std::erase_if(roots_, is_dropped);
  }

 private:
  Source* make(SourceKind kind, Source* parent, int32_t index, PyObject* key, PyObject* object);
  /// The source of this tree with the path of `theirs`, whose parent here is `parent`; made if there is none.
  Source* counterpart(const Source& theirs, Source* parent);

  const uint64_t* steps_;
  // Sources, their facts and the tables below: all of it is freed at once.
  std::pmr::monotonic_buffer_resource memory_{16 * 1024};
  std::pmr::deque<Source> arena_{&memory_};
  std::pmr::vector<Source*> roots_{&memory_};
  std::pmr::unordered_map<PyObject*, Source*> pinned_{&memory_};
  // Sources with many children get a hash index, so that interning all of them takes linear time.
  std::pmr::unordered_map<Source*, std::pmr::unordered_multimap<uint64_t, Source*>> child_index_{&memory_};
};

}  // namespace stator::capture
