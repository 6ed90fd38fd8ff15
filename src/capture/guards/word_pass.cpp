#include "capture/guards/word_pass.h"

#include <algorithm>

namespace stator::capture {

static_assert(sizeof(void*) == sizeof(StatorWord));

static GuardCounts counts;
GuardCounts& guard_counts() { return counts; }

WordPass::Answer WordPass::run(const GuardInput& input) {
  PyObject** slots = slots_.data();
  bool is_row = input.function == function_;
  for (const RootSlot& root : roots_) {
    PyObject* seen = input.arguments[root.index];
    if (!seen) return Answer::Fails;
    slots[root.slot] = seen;
    if (!root.wanted || seen == root.wanted) continue;
    if (!root.is_row) return Answer::Fails;
    is_row = false;
  }
  if (!root_tensors_.matches(slots)) return Answer::Fails;
  if (!is_row) return Answer::Unsure;
  CheckRun run{input, slots, fresh_.data()};
  if (Answer answer = open(run); answer != Answer::Holds) return answer;
  if (Answer answer = run_words(); answer != Answer::Holds) return answer;
  return run_checks(rest_.data(), rest_.data() + rest_.size(), run) ? Answer::Holds : Answer::Fails;
}

WordPass::Answer WordPass::finish(const RawCall& call, PyObject* function) {
  if (function != function_) return Answer::Unsure;
  CheckRun run{{nullptr, function}, slots_.data(), fresh_.data()};
  if (Answer answer = open(run); answer != Answer::Holds) return answer;
  if (Answer answer = run_words(); answer != Answer::Holds) return answer;
  Check* end = rest_.data() + rest_.size();
  for (Check* check = rest_.data(); check < end;) {
    int step = check->bound_only ? 1 : check->fn(*check, run);
    if (step == 0) return Answer::Fails;
    check += step;
  }
  return Answer::Holds;
}

WordPass::Answer WordPass::open(CheckRun& run) {
  for (Opening& opening : opening_) {
    if (!opening.check.fn(opening.check, run)) return Answer::Fails;
    if (opening.wanted && slots_[opening.check.slot] != opening.wanted) return Answer::Unsure;
  }
  return Answer::Holds;
}

WordPass::Answer WordPass::run_words() {
  const Word* first = words_.data();
  const size_t count = words_.size();
#pragma GCC unroll 8
  for (size_t i = 0; i < count; ++i)
    if (*first[i].at != first[i].wanted && !rearm(i)) return Answer::Unsure;
  return tensors_.matches(slots_.data()) ? Answer::Holds : Answer::Fails;
}

/// The tag of a dict or class changed: runs the checks of its contents again, and accepts the new tag if they hold.
/// Objects that words or other checks depend on must be the same as before.
bool WordPass::rearm(size_t word) {
  int32_t first = word_blocks_[word];
  if (first < 0) return false;
  before_.clear();
  bool same = true;
  CheckRun run{{nullptr, nullptr}, slots_.data(), fresh_.data()};
  for (int32_t index = first; same && index >= 0; index = blocks_[index].next) {
    const Block& block = blocks_[index];
    size_t saved = before_.size();
    for (uint32_t i = block.first_loaded; i < block.last_loaded; ++i) before_.push_back(slots_[loaded_[i].slot]);
    same = run_checks(block_checks_.data() + block.first, block_checks_.data() + block.last, run);
    for (uint32_t i = block.first_loaded; same && i < block.last_loaded; ++i, ++saved)
      same = loaded_[i].replaceable || slots_[loaded_[i].slot] == before_[saved];
  }
  // 0 is not a tag: CPython had none left for the class.
  if (same && *words_[word].at != 0) {
    words_[word].wanted = *words_[word].at;
    counts.rearmed.bump();
    return true;
  }
  size_t saved = 0;
  for (int32_t index = first; saved < before_.size(); index = blocks_[index].next)
    for (uint32_t i = blocks_[index].first_loaded; i < blocks_[index].last_loaded; ++i, ++saved)
      slots_[loaded_[i].slot] = before_[saved];
  return false;
}

void WordPass::record(std::span<const Check> checks, std::span<const SlotInfo> info, PyObject* const* seen,
                      const GuardInput& input) {
  armed_ = false;
  slots_.assign(seen, seen + info.size());
  fresh_.resize(info.size());
  function_ = input.function;
  literals_.clear();
  WordRecorder(*this, checks, info).run(input);
  armed_ = true;
}

WordRecorder::WordRecorder(WordPass& pass, std::span<const Check> checks, std::span<const SlotInfo> info)
    : pass_(pass), checks_(checks), info_(info) {}

void WordRecorder::run(const GuardInput& input) {
  do record();
  while (exclude_uncertain_globals());
  pass_.raw_.clear();
  if (input.raw) open_raw(*input.raw);
  for (WordPass::Loaded& loaded : pass_.loaded_) {
    const SlotInfo& info = info_[loaded.slot];
    loaded.replaceable = info.leaf && !info.related && !states_[loaded.slot].worded;
  }
}

void WordRecorder::record() {
  pass_.roots_.clear();
  pass_.opening_.clear();
  pass_.words_.clear();
  pass_.word_blocks_.clear();
  pass_.blocks_.clear();
  pass_.block_checks_.clear();
  pass_.loaded_.clear();
  pass_.rest_.clear();
  pass_.groups_.clear();
  pass_.tensors_.clear();
  pass_.root_tensors_.clear();
  root_tensors_.clear();
  known_.clear();
  states_.assign(info_.size(), {});
  for (size_t slot = 0; slot < info_.size(); ++slot)
    states_[slot].placed =
        info_[slot].pinned && std::find(uncertain_.begin(), uncertain_.end(), at(slot)) == uncertain_.end();
  for (size_t i = 0; i < checks_.size();) {
    const Check& check = checks_[i];
    size_t count = check.group == CheckGroup::DictHead ? check.count : 1;
    std::span<const Check> part = checks_.subspan(i, count);
    if (!(count > 1 ? record_dict(part) : record_check(check)))
      pass_.rest_.insert(pass_.rest_.end(), part.begin(), part.end());
    i += count;
  }
}

bool WordRecorder::record_check(const Check& check) {
  if (check.group == CheckGroup::Load) return load_words(static_cast<SourceKind>(check.kind))(check, *this);
  size_t before = written_;
  if (!fact_words(static_cast<FactKind>(check.kind))(check, *this)) return false;
  if (written_ != before) states_[check.slot].worded = true;
  return true;
}

/// The dict's tag is the only word: it covers everything in the block.
bool WordRecorder::record_dict(std::span<const Check> block) {
  int32_t dict = block.front().slot;
  if (!is_placed(dict) || !is_typed(dict) || !stator_dict_tag_place(at(dict))) return false;
  auto& checks = pass_.block_checks_;
  auto& loaded = pass_.loaded_;
  WordPass::Block made{static_cast<uint32_t>(checks.size()), 0, static_cast<uint32_t>(loaded.size()), 0, -1};
  for (const Check& check : block.subspan(1, block.size() - 2)) {
    checks.push_back(check);
    if (check.group == CheckGroup::Load) {
      set_placed(check.slot);
      loaded.push_back({check.slot, false});
    } else if (check.group == CheckGroup::Fact && static_cast<FactKind>(check.kind) == FactKind::TypeIs) {
      set_typed(check.slot);
    }
  }
  made.last = static_cast<uint32_t>(checks.size());
  made.last_loaded = static_cast<uint32_t>(loaded.size());
  pass_.blocks_.push_back(made);
  word(stator_dict_tag_place(at(dict)), static_cast<int32_t>(pass_.blocks_.size()) - 1);
  return true;
}

void WordRecorder::word_of_check(const StatorWord* tag, const Check& check) {
  const auto at = static_cast<uint32_t>(pass_.block_checks_.size()),
             loaded = static_cast<uint32_t>(pass_.loaded_.size());
  pass_.block_checks_.push_back(check);
  pass_.blocks_.push_back({at, at + 1, loaded, loaded, -1});
  word(tag, static_cast<int32_t>(pass_.blocks_.size()) - 1);
}

void WordRecorder::open(const Check& load, PyObject* wanted) {
  pass_.opening_.push_back({load, wanted});
  states_[load.slot].opened = true;
}

void WordRecorder::root(int32_t slot, int32_t index, PyObject* wanted, bool is_row) {
  pass_.roots_.push_back({slot, index, wanted, is_row});
  states_[slot].root = true;
}

void WordRecorder::compare_later(const Check& check, DistinctSlots group) {
  auto owned = std::make_unique<const DistinctSlots>(std::move(group));
  pass_.rest_.push_back(check);
  pass_.rest_.back().number = reinterpret_cast<uint64_t>(owned.get());
  pass_.groups_.push_back(std::move(owned));
}

void WordRecorder::tensor(int32_t slot, const TensorExpectation& expectation) {
  (is_root(slot) ? pass_.root_tensors_ : pass_.tensors_).add(slot, expectation);
  if (is_root(slot)) root_tensors_.push_back({slot, &expectation});
}

void WordRecorder::open_raw(const RawCall& call) {
  RawBinding binding(call, pass_.function_);
  // The shape of the call says which parameters get defaults. The default values need words.
  auto* function = reinterpret_cast<PyFunctionObject*>(pass_.function_);
  if (binding.uses_defaults()) word(&function->func_defaults);
  if (binding.uses_keyword_defaults()) {
    const StatorWord* tag = stator_dict_tag_place(function->func_kwdefaults);
    if (!tag) return;
    word(&function->func_kwdefaults);
    word(tag);
  }
  pass_.raw_.record(call, binding, {pass_.roots_, pass_.rest_, info_, pass_.slots_.data()});
  for (auto& [slot, expectation] : root_tensors_) pass_.raw_.add_tensor(slot, *expectation);
}

void WordRecorder::word(const void* place, int32_t block) {
  auto* at = static_cast<const StatorWord*>(place);
  ++written_;
  auto [found, fresh] = known_.try_emplace(at, pass_.words_.size());
  if (fresh) {
    pass_.words_.push_back({at, *at});
    pass_.word_blocks_.push_back(block);
    return;
  }
  // Several checks share the word. Only if all of them are blocks can a new value be accepted.
  int32_t& first = pass_.word_blocks_[found->second];
  if (first >= 0 && block >= 0) pass_.blocks_[block].next = first;
  first = first >= 0 ? block : -1;
}

/// Finds pinned globals dicts that only a function argument keeps alive. Arguments are checked after the words, so such
/// a dict may be dead when words are read and must have none. True if there are new ones: record again without them.
bool WordRecorder::exclude_uncertain_globals() {
  PyObject* function = pass_.function_;
  PyObject* own = function && PyFunction_Check(function) ? PyFunction_GET_GLOBALS(function) : nullptr;
  size_t before = uncertain_.size();
  for (const Check& check : pass_.rest_) {
    if (check.group != CheckGroup::Fact || static_cast<FactKind>(check.kind) != FactKind::Code) continue;
    if (is_fixed(check.slot)) continue;
    auto* globals = reinterpret_cast<PyObject*>(check.number);
    if (globals != own && std::find(uncertain_.begin(), uncertain_.end(), globals) == uncertain_.end())
      uncertain_.push_back(globals);
  }
  return uncertain_.size() > before;
}

}  // namespace stator::capture
