#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/cache/entry.h"
#include "capture/pycompat/code.h"

namespace stator::capture {

/// All entries of one code object: by the offset where they begin, most recently used first. GIL held throughout.
class CodeCache {
 public:
  explicit CodeCache(PyCodeObject* code);

  /// The entry whose guards hold, moved to the front; dead entries met on the way are dropped.
  std::shared_ptr<Entry> find(int32_t offset, PyObject* cache_key, const GuardInput& input);
  /// Likewise for a call from its first instruction, as far as that can be told before its arguments are laid out.
  std::shared_ptr<Entry> find(PyObject* cache_key, PyObject* function, const RawCall& call);
  void add(std::shared_ptr<Entry> entry);
  /// Drops the least recently used entry of this backend.
  void evict(PyObject* cache_key);
  /// Why none of the entries holds: one line per entry, newest first.
  std::vector<std::string> failures(int32_t offset, PyObject* cache_key, const GuardInput& input);
  /// The places whose values keep most entries for the same objects from holding on this input. Places that are in
  /// `varying` already are not named again.
  std::vector<std::string> restless_places(int32_t offset, PyObject* cache_key, const GuardInput& input);
  size_t count(int32_t offset, PyObject* cache_key) const;
  /// Entries whose identity-guarded objects fit this call: those are what a recompile limit counts.
  size_t count_for(int32_t offset, PyObject* cache_key, const GuardInput& input) const;
  /// All of them, most recently used first.
  std::vector<std::shared_ptr<Entry>> entries() const;
  void clear();

  uint64_t frame_id = 0;
  uint64_t next_compile_id = 0;
  /// By offset, places (as sources describe themselves) whose value changes too often to capture for each: a capture
  /// breaks where it is looked at.
  std::unordered_map<int32_t, std::unordered_set<std::string>> varying;
  size_t refused = 0, patience = 32;  // misses at the limit since the last capture, and how many lead to the next one
  bool was_called = false;            // as plain Python, where the first call is to be
  bool warned = false;                // about the recompile limit
  bool skipped = false;               // left alone: a backend asked for it, or nothing was gained
  size_t entries_made = 0, ops_made = 0;
  std::optional<bool> candidate;  // whether its frames may be captured when a break runs them
  bool names_torch = false;       // its globals lead to torch, so that frames without tensors are worth a look too
  /// A reset dropped it: whoever holds it looks the code up again.
  bool is_detached() const { return detached_; }

  PyCodeObject* code() const { return code_; }
  const pycompat::Code* decoded = nullptr;  // lives as long as the code object; null: not decoded yet

 private:
  using Entries = std::list<std::shared_ptr<Entry>>;
  std::shared_ptr<Entry> hit(Entries& entries, Entries::iterator at);
  /// The entries at an offset; null where there are none.
  Entries* at(int32_t offset);
  const Entries* at(int32_t offset) const { return const_cast<CodeCache*>(this)->at(offset); }

  bool detached_ = false;
  PyCodeObject* code_;
  std::unordered_map<int32_t, Entries> entries_;
  uint64_t clock_ = 0;
};

/// The cache of a code object; made on first use, gone when the code object dies.
std::shared_ptr<CodeCache> code_cache(PyCodeObject* code);
/// Null if there is none.
std::shared_ptr<CodeCache> find_code_cache(PyCodeObject* code);
/// Drops the cache of one code object; false if there is none.
bool forget_cache(PyCodeObject* code);
/// Hits of all entries since the last reset.
uint64_t total_hits();
/// Empties every cache and starts the compile ids anew.
void reset_caches();

}  // namespace stator::capture
