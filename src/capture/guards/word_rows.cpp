#include "capture/guards/word_rows.h"

#include <algorithm>

namespace stator::capture {
namespace {

constexpr size_t kMaxRows = 256, kMaxBytes = size_t{16} << 20;

uint64_t mix(uint64_t key, const void* object) {
  return (key ^ (reinterpret_cast<uintptr_t>(object) >> 4)) * 0x9E3779B97F4A7C15u;
}

constexpr auto is_older = [](const auto& a, const auto& b) { return a->used < b->used; };

}  // namespace

uint64_t WordRows::key_of(const GuardInput& input) const {
  uint64_t key = mix(0, input.function);
  for (int32_t argument : bound_) key = mix(key, input.arguments[argument]);
  return key;
}

WordRows::Row* WordRows::row_of(uint64_t key) const {
  if (table_.empty()) return rows_.empty() || rows_.front()->key != key ? nullptr : rows_.front().get();
  const size_t mask = table_.size() - 1;
  for (size_t at = key >> 32 & mask; table_[at]; at = (at + 1) & mask)
    if (table_[at]->key == key) return table_[at];
  return nullptr;
}

WordRows::Row* WordRows::find(const GuardInput& input) {
  // The words compare the objects themselves: with one row there is nothing to search.
  Row* row = table_.empty() ? (rows_.empty() ? nullptr : rows_.front().get()) : row_of(key_of(input));
  if (!row || !row->is_armed()) return nullptr;
  row->used = ++clock_;
  return row;
}

WordRows::Row* WordRows::find(const RawCall& call, PyObject* function) {
  Row* row = nullptr;
  if (table_.empty()) {
    if (!rows_.empty()) row = rows_.front().get();
  } else if (knows_raw_) {
    uint64_t key = mix(0, function);
    for (int32_t argument : raw_) {
      if (static_cast<size_t>(argument) >= call.positional + call.name_count) return nullptr;
      key = mix(key, call.args[argument]);
    }
    row = row_of(key);
  }
  if (!row || !row->is_armed() || row->words->function() != function) return nullptr;
  row->used = ++clock_;
  return row;
}

void WordRows::consider(std::span<const Check> checks, std::span<const SlotInfo> info, PyObject* const* seen,
                        const GuardInput& input) {
  constexpr uint32_t kWorthwhile = 8, kLongestPause = 64;
  const uint64_t key = key_of(input);
  // Where calls bring more instances in turn than there are rows, replacing the oldest row each time would leave none
  // that is ever found again: rows are replaced only if the oldest was not used for a while.
  if (rows_.size() == kMaxRows && !row_of(key)) {
    const uint64_t oldest = (*std::min_element(rows_.begin(), rows_.end(), is_older))->used;
    if (++clock_ - oldest < 4 * kMaxRows) return;
  }
  Row& row = row_for(key);
  row.used = ++clock_;
  if (row.is_armed()) {
    row.words->disarm();
    row.last_pause = row.uses >= kWorthwhile ? 1 : std::min(2 * row.last_pause, kLongestPause);
    row.pause = row.last_pause - 1;
  }
  if (row.pause > 0) {
    --row.pause;
    return;
  }
  if (!row.words) row.words = std::make_unique<WordPass>();
  row.words->record(checks, info, seen, input);
  row.uses = 0;
  if (input.raw) {
    const RawBinding binding(*input.raw, input.function);
    raw_.clear();
    for (int32_t argument : bound_) raw_.push_back(binding.origin(argument));
    knows_raw_ = std::all_of(raw_.begin(), raw_.end(), [](int32_t origin) { return origin >= 0; });
  }
  limit_bytes();
}

WordRows::Row& WordRows::row_for(uint64_t key) {
  if (Row* known = row_of(key)) return *known;
  Row* row = nullptr;
  if (rows_.size() < kMaxRows) {
    row = rows_.emplace_back(std::make_unique<Row>()).get();
  } else {
    row = std::min_element(rows_.begin(), rows_.end(), is_older)->get();
    *row = Row();
  }
  row->key = key;
  index();
  return *row;
}

void WordRows::index() {
  if (rows_.size() < 2) return;
  size_t size = 8;
  while (size < 2 * rows_.size()) size *= 2;
  table_.assign(size, nullptr);
  for (auto& row : rows_) {
    size_t at = row->key >> 32 & (size - 1);
    while (table_[at]) at = (at + 1) & (size - 1);
    table_[at] = row.get();
  }
}

/// Drops the words of the rows that were not used for longest.
void WordRows::limit_bytes() {
  size_t total = 0;
  for (auto& row : rows_) total += row->words ? row->words->bytes() : 0;
  while (total > kMaxBytes) {
    Row* oldest = nullptr;
    size_t count = 0;
    for (auto& row : rows_) {
      if (!row->words) continue;
      ++count;
      if (!oldest || row->used < oldest->used) oldest = row.get();
    }
    if (count < 2) return;
    total -= oldest->words->bytes();
    oldest->words.reset();
  }
}

}  // namespace stator::capture
