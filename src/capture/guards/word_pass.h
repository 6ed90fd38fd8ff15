#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/guards/check.h"
#include "capture/guards/distinct.h"
#include "capture/guards/raw_opening.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/facts.h"
#include "core/observe/counters.h"

/// The word pass: the fast form of a check array. Most checks look at objects whose address is known, because they are
/// reached from a pinned object, from the function, or from an argument that is guarded by identity or belongs to the
/// row (word_rows.h). After a full pass held, each such check becomes a few words {address, wanted}. As long as the
/// words are unchanged, the check gives the same answer and fills the same slot. One loop compares all words. Checks
/// without words (of arguments, of attributes that are stored without a dict, of sets, of the order of an OrderedDict,
/// ...) run after the loop.
///
/// Why every address may be read. A word pass owns none of the objects it looks at. The object that contains a word is
/// alive when the word is read, for one of these reasons:
///  - It is *fixed*: a fact owns it; or the array watches it, and no watched object died; or it is pinned, and the
///    guards that imply its identity are earlier words, or the function that is called.
///  - It is an argument of the call, compared with that of the row; or an iterator among the arguments gives it next.
///  - Another live object refers to it by a field whose word comes earlier and still has the wanted value. No Python
///    code runs during a pass, so that is still true.
/// Words are in the order of the checks, in which owners come before what they own. A word that two checks need is at
/// the position of the first.
///
/// Why unchanged words imply the same answer. The same address does not imply the same object: the object may have
/// died, and another may have been allocated there. So for an object that is not fixed:
///  - Its class is a word, unless CPython allows only one class there, or the object is a value of a dict.
///  - A value of a dict is covered by the dict's version tag. No two states of any dicts have the same tag: an
///    unchanged tag means that the values were there all the time. If a tag changed and the values are found to be
///    right (`rearm`), their classes, identities and literals were checked again; all else about them has words.
///  - Fields of tuples, functions and methods are words, even if they are immutable.
///  - A literal that was compared by value is owned while the words are in use, so no other object gets its address.
namespace stator::capture {

/// Counts of passes. GIL held.
struct GuardCounts {
  observe::Counter by_words{"guards", "by_words"};  // word passes that held
  observe::Counter in_full{"guards", "in_full"};    // full passes
  observe::Counter rearmed{"guards", "rearmed"};    // dicts and classes that changed but still satisfied their checks
};
GuardCounts& guard_counts();

class WordPass {
 public:
  enum class Answer : uint8_t {
    Holds,   // slots() are what a full pass would give
    Fails,   // a full pass would fail too
    Unsure,  // a word changed: only a full pass can tell
  };

  bool is_armed() const { return armed_; }
  /// The function that was called when the words were recorded; to be compared only.
  PyObject* function() const { return function_; }
  void disarm() { armed_ = false; }
  /// Requires that words are recorded (`is_armed`), the GIL, and that no watched object died.
  Answer run(const GuardInput& input);
  /// The same for a call whose arguments are not bound, in two parts: `begin` compares the shape of the call and its
  /// tensors, `finish` does the rest. `finish` must follow a `begin` that returned true.
  bool begin(const RawCall& call) { return raw_.begin(call, slots_.data()); }
  Answer finish(const RawCall& call, PyObject* function);
  PyObject* call_names() const { return raw_.names(); }
  PyObject* const* slots() const { return slots_.data(); }

  /// Roughly how much memory the words take.
  size_t bytes() const { return words_.capacity() * sizeof(Word) + slots_.capacity() * sizeof(PyObject*); }

  /// Records the words. A full pass over `checks` must just have held for this input; `seen` are its slots.
  void record(std::span<const Check> checks, std::span<const SlotInfo> slots, PyObject* const* seen,
              const GuardInput& input);

 private:
  friend class WordRecorder;

  struct Word {
    const StatorWord* at;
    uint64_t wanted;
  };
  struct Loaded {  // a slot that the checks of a dict's block fill
    int32_t slot;
    bool replaceable;  // no word and no other check depends on which object it is
  };
  /// The checks that the version tag of a dict or class covers.
  struct Block {
    uint32_t first, last;  // of block_checks_
    uint32_t first_loaded, last_loaded;
    int32_t next;  // another block of the same dict, or -1
  };

  /// An object that an iterator among the arguments gives; null: any object.
  struct Opening {
    Check check;
    PyObject* wanted;
  };

  Answer open(CheckRun& run);
  Answer run_words();
  bool rearm(size_t word);

  bool armed_ = false;
  PyObject* function_ = nullptr;  // compared only
  std::vector<RootSlot> roots_;
  TensorRow root_tensors_;
  std::vector<Opening> opening_;  // loads that run before the words
  RawOpening raw_;
  std::vector<Word> words_;
  std::vector<int32_t> word_blocks_;  // per word: index into blocks_, or -1
  std::vector<Block> blocks_;
  std::vector<Check> block_checks_;
  std::vector<Loaded> loaded_;
  std::vector<Check> rest_;  // checks without words. Copies: the dict tags in them belong to this pass's slots
  TensorRow tensors_;
  std::vector<PyObject*> slots_;                              // borrowed
  std::vector<Ref> fresh_;                                    // see CheckRun
  std::vector<PyObject*> before_;                             // scratch of rearm
  std::vector<Ref> literals_;                                 // compared by value
  std::vector<std::unique_ptr<const DistinctSlots>> groups_;  // of checks in rest_
};

/// Records the words of a pass. The functions in word_kinds.cpp write through it.
class WordRecorder {
 public:
  WordRecorder(WordPass& pass, std::span<const Check> checks, std::span<const SlotInfo> info);
  void run(const GuardInput& input);

  PyObject* at(int32_t slot) const { return pass_.slots_[slot]; }
  /// The words so far imply which object is in the slot.
  bool is_placed(int32_t slot) const { return states_[slot].placed; }
  bool is_fixed(int32_t slot) const { return info_[slot].fixed; }
  /// The slot holds an argument of the call; it is filled before the words are compared.
  bool is_root(int32_t slot) const { return states_[slot].root; }
  /// The slot is filled before the words are compared, by a load from one that is.
  bool is_opened(int32_t slot) const { return states_[slot].opened; }
  void open(const Check& load, PyObject* wanted);
  bool is_recurring(int32_t slot) const { return info_[slot].recurring; }
  /// The words so far imply its class.
  bool is_typed(int32_t slot) const { return states_[slot].typed || info_[slot].fixed; }
  /// The words so far imply that the function there has the __defaults__ tuple that a fact owns.
  bool holds_defaults(int32_t slot) const { return states_[slot].defaults; }
  void set_holds_defaults(int32_t slot) { states_[slot].defaults = true; }
  /// The object is loaded, and its identity compared, after the words.
  bool is_late(int32_t slot) const { return states_[slot].late; }
  void set_late(int32_t slot) { states_[slot].late = true; }
  void set_placed(int32_t slot) { states_[slot].placed = true; }
  void set_typed(int32_t slot) { states_[slot].typed = true; }

  /// Adds the word at this address, with its present value. `block`: the checks to run again if it changes; -1: none.
  void word(const void* place, int32_t block = -1);
  /// Adds the version tag at this address. If it changes, the check runs again, and the new tag is accepted if it
  /// holds.
  void word_of_check(const StatorWord* tag, const Check& check);
  void keep(PyObject* literal) { pass_.literals_.push_back(Ref::borrow(literal)); }
  void tensor(int32_t slot, const TensorExpectation& expectation);
  void root(int32_t slot, int32_t index, PyObject* wanted, bool is_row);
  /// Adds a Distinct check of fewer slots to the checks that run after the words.
  void compare_later(const Check& check, DistinctSlots group);

 private:
  struct State {
    bool placed = false, typed = false, root = false, opened = false, defaults = false, late = false;
    bool worded = false;  // a fact about the object has a word
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
  std::vector<PyObject*> uncertain_;  // pinned dicts that may be dead when the words are read
  std::vector<std::pair<int32_t, const TensorExpectation*>> root_tensors_;
  std::unordered_map<const void*, size_t> known_;  // index of a word by its address
  size_t written_ = 0;                             // calls of `word`
};

/// Records the words of one check; false: it has none, and runs after the words. A load that returns true must have
/// called `set_placed`, unless its slot holds an argument.
using WordsFn = bool (*)(const Check& check, WordRecorder& to);
WordsFn load_words(SourceKind kind);
WordsFn fact_words(FactKind kind);

}  // namespace stator::capture
