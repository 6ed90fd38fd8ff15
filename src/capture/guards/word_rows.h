#pragma once

#include <memory>
#include <span>
#include <vector>

#include "capture/guards/word_pass.h"

/// The word passes of one check array. Structural guards hold for many instances, but words are in the memory of one.
/// So there is a *row* for each function and each combination of instances in recurring arguments that calls brought.
/// It holds the words that were last recorded for them. Rows own nothing but literals. After the objects of a row died,
/// it is found only for other objects at the same addresses. Its words do not hold for those: see word_pass.h.
namespace stator::capture {

class WordRows {
 public:
  struct Row {
    std::unique_ptr<WordPass> words;  // null: none were recorded
    uint64_t key = 0;
    uint64_t used = 0;        // when it was last looked for, by the table's clock
    uint32_t uses = 0;        // how often the recorded words held
    uint32_t pause = 1;       // full passes that are left until words are recorded
    uint32_t last_pause = 1;  // length of the latest pause; doubles while the recorded words hold rarely
    bool is_armed() const { return words && words->is_armed(); }
  };

  /// Indices of the bound arguments that belong to the key of a row.
  void set_key_arguments(std::vector<int32_t> bound) { bound_ = std::move(bound); }

  /// The row of this call; null: there is none, or it has no words.
  Row* find(const GuardInput& input);
  Row* find(const RawCall& call, PyObject* function);
  /// A full pass just held for this input: records words in its row, now or in a later pass. Recording costs as much as
  /// a few full passes, so that the first call of a row records nothing, and a row whose words held rarely waits
  /// longer.
  void consider(std::span<const Check> checks, std::span<const SlotInfo> info, PyObject* const* seen,
                const GuardInput& input);

 private:
  uint64_t key_of(const GuardInput& input) const;
  Row* row_of(uint64_t key) const;
  Row& row_for(uint64_t key);
  void index();
  void limit_bytes();

  std::vector<std::unique_ptr<Row>> rows_;
  std::vector<Row*> table_;  // by key, open addressing; empty while there is one row
  std::vector<int32_t> bound_;
  std::vector<int32_t> raw_;  // where the same arguments were in `RawCall::args` when words were last recorded
  bool knows_raw_ = false;    // each of them was in there
  uint64_t clock_ = 0;
};

}  // namespace stator::capture
