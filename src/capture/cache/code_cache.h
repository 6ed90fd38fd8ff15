#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/cache/entry.h"
#include "capture/cache/seen_arguments.h"
#include "capture/pycompat/code.h"

namespace stator::capture {

/// Torch's settings of limits, as they were read last.
struct TorchLimits {
  int64_t recompile = -1, accumulated = -1;
  bool is_error = false;
};

/// The entries of one code object, by the offset at which their plans begin, most recently used first and general ones
/// (`Entry::general`) last. Needs the GIL.
class CodeCache {
 public:
  explicit CodeCache(PyCodeObject* code);

  /// The entry whose guards hold, or null. Moves it to the front, and drops dead entries on the way.
  std::shared_ptr<Entry> find(int32_t offset, PyObject* cache_key, const GuardInput& input);
  /// The same for a call of the function whose arguments are not bound yet. Null means only that no entry's fast path
  /// applies.
  std::shared_ptr<Entry> find(PyObject* cache_key, PyObject* function, const RawCall& call);
  /// For a stance that skips guards. Returns the entry if it is the only one for this key and these bound variables,
  /// and those of its guards hold that depend on the arguments (`CheckArray::run_for_arguments`). Null otherwise.
  std::shared_ptr<Entry> find_only(int32_t offset, PyObject* cache_key, const GuardInput& input);
  /// The entries that end at a graph break, and of which no guards fail but those that the break depended on: their
  /// plans do what the program does.
  std::vector<std::shared_ptr<Entry>> find_serving(int32_t offset, PyObject* cache_key, const GuardInput& input);
  void add(std::shared_ptr<Entry> entry);
  void remove(const Entry& entry);
  /// The first difference between the word pass and the full pass of an entry (`CheckArray::compare_passes`), after the
  /// id of the entry. Empty if the passes of all entries agree.
  std::string compare_passes(int32_t offset, PyObject* cache_key, const GuardInput& input);
  /// Moves the entries that asked for marks of one of these callables to `into`.
  void take_marked(const std::unordered_set<const void*>& callables, std::list<std::shared_ptr<Entry>>& into);
  /// Drops the least recently used entry with this key.
  void evict(PyObject* cache_key);
  /// Which guard of each entry fails: one line per entry, at most `limit`.
  std::vector<std::string> failures(int32_t offset, PyObject* cache_key, const GuardInput& input,
                                    size_t limit = SIZE_MAX);
  /// Sources that became varying: most entries for the same instances fail on this input because of the value at this
  /// source. Sources in `varying` are not returned again.
  std::vector<std::string> unstable_sources(int32_t offset, PyObject* cache_key, const GuardInput& input);
  /// Sources behind a break where each call brings another object: most entries for the same instances fail on this
  /// input because the object there, or its class, is another one. As long as the limit is not reached, that counts
  /// only where a class was made again. Sources that are known to be mortal are not returned again.
  std::vector<std::string> renewed_sources(int32_t offset, PyObject* cache_key, const GuardInput& input,
                                           bool is_at_limit);
  /// Floats, ints and tensor sizes that changed, from entries of the same instances that fail only on values, lengths
  /// and sizes. Sources in `varying` and `fixed` are not returned.
  struct Changed {
    Varying sources;                                  // its floats, ints and sizes
    std::vector<std::shared_ptr<Entry>> specialised;  // the entries that specialised on one of them
    std::vector<std::string> texts;                   // for messages: "n: 3, now 4"
  };
  /// `parameters`: whether sizes of parameters count.
  Changed changed(int32_t offset, PyObject* cache_key, const GuardInput& input, bool parameters = false);
  size_t count(int32_t offset, PyObject* cache_key) const;
  /// The number of entries for the instances of this call (`CheckArray::is_about_same`). The recompile limit applies to
  /// it, so that one instance does not use up the captures of others.
  size_t count_for(int32_t offset, PyObject* cache_key, const GuardInput& input) const;
  /// How many entries died because an object died that their guards refer to, before their hits made up for the
  /// capture. They count towards the recompile limit: each call may bring a new object.
  size_t died(int32_t offset, PyObject* cache_key) const;
  /// Counts one of them less; false if there are none.
  bool forgive_death(int32_t offset, PyObject* cache_key);
  /// A call at this place was refused: no entry fits, and a limit forbids another. After many in a row, most calls need
  /// not look for an entry any more (`is_resting`). Returns the number of calls that the refusal counts for: this one,
  /// and those that rested since the last call that looked for an entry.
  size_t note_refusal(int32_t offset, PyObject* cache_key, const TorchLimits& limits);
  /// The limits that the last refusals in a row at this place were decided by; empty where they are to be read again.
  std::optional<TorchLimits> known_limits(int32_t offset, PyObject* cache_key) const;
  /// Whether this call runs as plain Python without looking for an entry. Each call must ask only once: now and then
  /// the answer is no, so that a call for which an entry fits again is noticed.
  bool is_resting(int32_t offset, PyObject* cache_key);
  bool has_resting_calls() const { return resting_ != 0; }
  /// The entries at all offsets, most recently used first.
  std::vector<std::shared_ptr<Entry>> entries() const;
  /// Drops the entries; no call looks for one here again. What captures learnt (`varying` and so on) stays until the
  /// cache ends: a reset may come while one runs, from another thread or from the program's code.
  void detach();

  uint64_t frame_id = 0;
  uint64_t next_compile_id = 0;
  /// Lookups that found an entry, and those that led to a capture or were refused one. Some that found one are timed.
  struct Lookups {
    uint64_t hits = 0, misses = 0;
    uint64_t timed = 0;
    int64_t timed_ns = 0;
  };
  Lookups lookups;
  std::unordered_map<int32_t, Varying> varying;  // by offset
  /// By offset, the floats, ints and sizes that are specialised on although they change. A capture that did not
  /// specialise on one broke where captures that did so went on.
  std::unordered_map<int32_t, Varying> fixed;
  /// By offset and the backend's cache key, the numbers and sizes that are constants because that backend specialised
  /// on them.
  std::map<std::pair<int32_t, PyObject*>, Varying> fixed_by_backend;
  /// By offset and source, why a size or int is specialised on.
  std::unordered_map<int32_t, std::unordered_map<std::string, Specialised>> constants;
  /// `refused` counts the calls that a recompile limit refused. When it reaches `patience`, one entry is evicted and
  /// the call is captured; the count starts again, and `patience` doubles.
  size_t refused = 0, patience = 32;
  bool was_called = false;  // a first call was made under a stance that runs it as plain Python
  /// The arguments of that call, until the next one is captured.
  std::unique_ptr<const SeenArguments> first_call;
  bool warned = false;   // the warning about the recompile limit was given
  bool skipped = false;  // never captured again: a backend asked for it, or captures were not worthwhile
  size_t entries_made = 0, ops_made = 0;
  std::optional<bool> candidate;  // whether the hook may capture its frames, once that was determined
  bool names_torch = false;       // its globals refer to torch: the hook tries to capture frames without tensors too
  /// Whether a reset dropped this cache. A caller that kept a pointer must look the code up again.
  bool is_detached() const { return detached_; }

  PyCodeObject* code() const { return code_; }
  const pycompat::Code* decoded = nullptr;  // lives as long as the code object; null: not decoded yet

 private:
  using Entries = std::list<std::shared_ptr<Entry>>;
  /// Calls in a row, with one key, that a limit refused.
  struct Refusals {
    PyObject* cache_key = nullptr;  // compared only
    size_t count = 0;
    size_t unseen = 0;  // calls since the last one that looked for an entry
    TorchLimits limits;
  };
  /// Entries of one place that died before they paid.
  struct Deaths {
    size_t count = 0;
    std::unordered_map<std::string, size_t> places;  // of those that were never hit, by where the object was
    std::string last;
  };
  void note_death(const Entry& entry);
  /// The time if this lookup is to be timed; else 0.
  int64_t lookup_start() const;
  std::shared_ptr<Entry> hit(Entries& entries, Entries::iterator at, int64_t start);
  void end_refusals(int32_t offset);
  /// The entries at an offset; null where there are none.
  Entries* at(int32_t offset);
  const Entries* at(int32_t offset) const { return const_cast<CodeCache*>(this)->at(offset); }

  bool detached_ = false;
  PyCodeObject* code_;
  std::unordered_map<int32_t, Entries> entries_;
  Entries* at_start_ = nullptr;  // those at offset 0, which every call asks for
  std::unordered_map<int32_t, Refusals> refusals_;
  std::map<std::pair<int32_t, PyObject*>, Deaths> deaths_;  // by offset and key, which is compared only
  size_t resting_ = 0;                                      // offsets with so many refusals that calls rest
  uint64_t clock_ = 0;
};

/// The cache of a code object; created on first use, destroyed when the code object dies.
std::shared_ptr<CodeCache> code_cache(PyCodeObject* code);
/// Null if there is none.
std::shared_ptr<CodeCache> find_code_cache(PyCodeObject* code);
/// All caches, in the order of their frames' numbers.
std::vector<std::shared_ptr<CodeCache>> code_caches();
/// Drops the cache of one code object; false if there is none.
bool forget_cache(PyCodeObject* code);
/// Drops the entries whose captures asked for marks of one of these callables, which has a new mark.
void drop_marked(const std::unordered_set<const void*>& callables);
/// Empties every cache; ids start at 0 again.
void reset_caches();

}  // namespace stator::capture
