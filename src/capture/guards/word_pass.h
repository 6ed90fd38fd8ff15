#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "capture/guards/check.h"
#include "capture/guards/raw_opening.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/facts.h"

/// The fast form of a check array. Most checks look at objects whose place in memory is known: reached from a pinned
/// object, from the function, or from an argument guarded by identity. After a full pass held, each such check becomes
/// a few words {address, wanted} such that unchanged words imply that the check gives the same answer and fills the
/// same slot. A pass over them is one loop. What has no words (arguments, attributes kept without a dict, sets, the
/// order of an OrderedDict, ...) stays a check and runs after the words.
///
/// Why every address may be read when it is read. Nothing here owns what it looks at, so for each word the object that
/// holds it is alive because one of these holds:
///  - it is *fixed*: held strongly by a fact, or watched weakly, and the array is asked only while none of the watched
///    died; or it is pinned, and the guards that its identity follows from are words before this one, or the function
///    that runs;
///  - an owner that is alive has it in a field whose word stands before this one and still holds. No Python code runs
///    during a pass, so what was true a word ago is true now.
/// The order of the words is that of the checks, in which owners come before what they own; a word that two checks need
/// stands at the first of them.
///
/// Why unchanged words imply the answer. An equal address does not mean the same object: one may have died and another
/// taken its place. Objects that are not fixed therefore are looked at as if they were new:
///  - their class is a word, unless CPython admits one class at that place, or they are values of a dict;
///  - values of a dict are covered by the dict's tag, which no two states of any dicts share: an unchanged tag means
///  the
///    same values all along. Where a changed tag is accepted after a new look at the values (`rearm`), their static
///    classes, identities and literals are checked anew there, and whatever is said of their insides is words again;
///  - fields of tuples, functions and methods, immutable or not, are words unless the object is fixed;
///  - literals compared by value are held strongly while the words stand, so no other can take their place.
namespace stator::capture {

/// How guards were answered since the last reset. GIL held.
struct GuardCounts {
  uint64_t by_words = 0;  // passes that words alone answered with yes
  uint64_t in_full = 0;   // passes over all checks
  uint64_t rearmed = 0;   // changed dicts that turned out to hold the same
};
GuardCounts& guard_counts();

class WordPass {
 public:
  enum class Answer : uint8_t {
    Holds,   // slots() are those that a full pass would give
    Fails,   // so would a full pass
    Unsure,  // a word changed: a full pass must tell
  };

  bool is_armed() const { return armed_; }
  void disarm() { armed_ = false; }
  /// Needs an armed pass, the GIL, and that no watched object has died.
  Answer run(const GuardInput& input);
  /// The same in two parts for a call whose arguments are not laid out: whether its form and its tensors fit, and the
  /// rest. `begin` comes just before `finish`.
  bool begin(const RawCall& call) { return raw_.begin(call, slots_.data()); }
  Answer finish(const RawCall& call, PyObject* function);
  PyObject* call_names() const { return raw_.names(); }
  PyObject* const* slots() const { return slots_.data(); }

  /// Takes the words from what a full pass over `checks` just saw with this input.
  void record(std::span<const Check> checks, std::span<const SlotInfo> slots, PyObject* const* seen,
              const GuardInput& input);

 private:
  friend class WordRecorder;

  struct Word {
    const StatorWord* at;
    uint64_t wanted;
  };
  struct Loaded {  // a slot that the block of a dict fills
    int32_t slot;
    bool replaceable;  // nothing else is recorded of the object there
  };
  /// The checks that the tag of a dict stands for.
  struct Block {
    uint32_t first, last;  // of block_checks_
    uint32_t first_loaded, last_loaded;
    int32_t next;  // another block of the same dict, or -1
  };

  Answer run_words();
  bool rearm(size_t word);

  bool armed_ = false;
  PyObject* function_ = nullptr;  // compared only
  std::vector<RootSlot> roots_;
  TensorRow root_tensors_;
  RawOpening raw_;
  std::vector<Word> words_;
  std::vector<int32_t> word_blocks_;  // per word: index into blocks_, or -1
  std::vector<Block> blocks_;
  std::vector<Check> block_checks_;
  std::vector<Loaded> loaded_;
  std::vector<Check> rest_;  // with tags of their own: they stand for this pass's slots
  TensorRow tensors_;
  std::vector<PyObject*> slots_;   // borrowed
  std::vector<Ref> fresh_;         // see CheckRun
  std::vector<PyObject*> before_;  // scratch of rearm
  std::vector<Ref> literals_;
};

/// What is known while words are recorded; the rows of word_kinds.cpp write through it.
class WordRecorder {
 public:
  WordRecorder(WordPass& pass, std::span<const Check> checks, std::span<const SlotInfo> info);
  void run(const GuardInput& input);

  PyObject* at(int32_t slot) const { return pass_.slots_[slot]; }
  /// What stands in the slot follows from the words up to here.
  bool is_placed(int32_t slot) const { return states_[slot].placed; }
  bool is_fixed(int32_t slot) const { return info_[slot].fixed; }
  /// An argument of the call, looked up before anything else.
  bool is_root(int32_t slot) const { return states_[slot].root; }
  /// Its class follows too.
  bool is_typed(int32_t slot) const { return states_[slot].typed || info_[slot].fixed; }
  /// The function there has the tuple of defaults that a fact holds.
  bool holds_defaults(int32_t slot) const { return states_[slot].defaults; }
  void set_holds_defaults(int32_t slot) { states_[slot].defaults = true; }
  /// Its load and its identity are checked after the words.
  bool is_late(int32_t slot) const { return states_[slot].late; }
  void set_late(int32_t slot) { states_[slot].late = true; }
  void set_placed(int32_t slot) { states_[slot].placed = true; }
  void set_typed(int32_t slot) { states_[slot].typed = true; }

  /// The word at this place stays as it is now. `block`: what can be looked at anew when it does not.
  void word(const void* place, int32_t block = -1);
  void keep(PyObject* literal) { pass_.literals_.push_back(Ref::borrow(literal)); }
  void tensor(int32_t slot, const TensorExpectation& expectation);
  void root(int32_t slot, int32_t index, PyObject* wanted);

 private:
  struct State {
    bool placed = false, typed = false, root = false, defaults = false, late = false;
    bool worded = false;  // a word was written for a fact of the object there
  };
  void record();
  bool record_dict(std::span<const Check> block);
  bool record_check(const Check& check);
  bool exclude_uncertain_globals();
  void open_raw(const RawCall& call);

  WordPass& pass_;
  std::span<const Check> checks_;
  std::span<const SlotInfo> info_;
  std::vector<State> states_;
  std::vector<PyObject*> uncertain_;  // dicts that may be gone when the words are read
  std::vector<std::pair<int32_t, const TensorExpectation*>> root_tensors_;
  std::unordered_map<const void*, size_t> known_;
  size_t written_ = 0;
};

/// Writes the words of one check; false: it has none and stays a check. For a load that has words, or that the pass
/// does itself, the slot must have been set placed.
using WordsFn = bool (*)(const Check& check, WordRecorder& to);
WordsFn load_words(SourceKind kind);
WordsFn fact_words(FactKind kind);

}  // namespace stator::capture
