#include "capture/guards/check_array.h"

#include <algorithm>

#include "capture/guards/describe.h"

namespace stator::capture {

bool CheckArray::run(const GuardInput& input) {
  if (*dead_ || !globals_->matches()) return false;
  if (words_.is_armed()) {
    switch (words_.run(input)) {
      case WordPass::Answer::Holds:
        ++uses_;
        ++guard_counts().by_words;
        current_ = words_.slots();
        return true;
      case WordPass::Answer::Fails:
        return false;
      case WordPass::Answer::Unsure:
        break;
    }
  }
  if (!run_fully(input)) return false;
  consider_words(input);
  return true;
}

bool CheckArray::run(const RawCall& call, PyObject* function) {
  if (*dead_ || !words_.is_armed() || !words_.begin(call) || !globals_->matches()) return false;
  if (words_.finish(call, function) != WordPass::Answer::Holds) return false;
  ++uses_;
  ++guard_counts().by_words;
  current_ = words_.slots();
  return true;
}

bool CheckArray::run_fully(const GuardInput& input) {
  ++guard_counts().in_full;
  CheckRun run{input, slots_.data(), fresh_.data()};
  if (!run_checks(checks_.data(), checks_.data() + checks_.size(), run)) return false;
  current_ = slots_.data();
  return true;
}

std::string CheckArray::compare_passes(const GuardInput& input) {
  if (*dead_ || !words_.is_armed() || !globals_->matches()) return {};
  const bool holds_raw =
      input.raw && words_.begin(*input.raw) && words_.finish(*input.raw, input.function) == WordPass::Answer::Holds;
  const WordPass::Answer answer = words_.run(input);
  std::vector<PyObject*> by_words(words_.slots(), words_.slots() + slot_info_.size());
  const bool holds = run_fully(input);
  if (!holds && (holds_raw || answer == WordPass::Answer::Holds))
    return "the word pass holds and the full pass does not: " + miss(input).text;
  if (holds && answer == WordPass::Answer::Fails) return "the full pass holds and the word pass does not";
  for (size_t i = 0; holds && answer == WordPass::Answer::Holds && i < slot_info_.size(); ++i)
    if (slot_info_[i].read && by_words[i] != slots_[i] && !fresh_[i])
      return "the word pass and the full pass find other objects";
  return {};
}

/// Recording words costs as much as a few full passes. If the last words were used rarely, wait longer before recording
/// again.
void CheckArray::consider_words(const GuardInput& input) {
  constexpr uint32_t kWorthwhile = 8, kLongestPause = 64;
  if (words_.is_armed()) {
    words_.disarm();
    last_pause_ = uses_ >= kWorthwhile ? 1 : std::min(2 * last_pause_, kLongestPause);
    pause_ = last_pause_ - 1;
  }
  if (pause_ > 0) {
    --pause_;
    return;
  }
  words_.record(checks_, slot_info_, slots_.data(), input);
  uses_ = 0;
}

bool CheckArray::same_identities(const GuardInput& input) const {
  if (*dead_) return false;
  for (const Asserted& asserted : facts_)
    if (asserted.fact->kind == FactKind::Identity && asserted.source->kind == SourceKind::Argument &&
        input.arguments[asserted.source->index] != asserted.object)
      return false;
  return true;
}

static std::string at_line(const UserLine& line) {
  if (!line.file) return "";
  const char* file = PyUnicode_AsUTF8(line.file.get());
  return std::string("  (needed at ") + (file ? file : "?") + ":" + std::to_string(line.line) + ")";
}

CheckArray::Miss CheckArray::miss(const GuardInput& input) {
  if (*dead_) return {"an object that the guards refer to was deleted"};
  if (!globals_->matches()) return {globals_->mismatch()};
  CheckRun run{input, slots_.data(), fresh_.data()};
  for (size_t i = 0; i < checks_.size();) {
    Check& check = checks_[i];
    int step = check.fn(check, run);
    if (step) {
      i += step;
      continue;
    }
    if (check.fact >= 0) {
      auto& [source, fact, object] = facts_[check.fact];
      Fact shown = *fact;
      shown.object = Ref::borrow(object);
      PyObject* saw = slots_[check.slot];
      return {describe_fact(*source, shown) + "; saw " + describe_seen(shown, saw) + at_line(fact->line), source, fact,
              saw};
    }
    return {"an attribute, item or variable that the capture read no longer exists"};
  }
  return {"the guards hold"};
}

bool CheckArray::misses(const GuardInput& input, std::vector<Miss>& into) {
  if (*dead_ || !globals_->matches()) return false;
  CheckRun run{input, slots_.data(), fresh_.data()};
  for (size_t i = 0; i < checks_.size();) {
    Check& check = checks_[i];
    // Checks of the block may have failed: its head must not accept the dict's present tag.
    int step = check.group == CheckGroup::DictTail ? 1 : check.fn(check, run);
    if (!step) {
      if (check.fact < 0) return false;
      const Asserted& asserted = facts_[check.fact];
      FactKind kind = asserted.fact->kind;
      if (kind != FactKind::Equals && kind != FactKind::Length) return false;
      into.push_back({{}, asserted.source, asserted.fact, slots_[check.slot]});
    }
    i += std::max(step, 1);
  }
  return true;
}

std::vector<std::string> CheckArray::describe() const {
  std::vector<std::string> lines;
  for (auto& [source, fact, object] : facts_) {
    Fact shown = *fact;
    if (!*dead_) shown.object = Ref::borrow(object);
    lines.push_back(describe_fact(*source, shown) + at_line(fact->line));
  }
  return lines;
}

}  // namespace stator::capture
