#include "capture/guards/check_array.h"

#include <algorithm>

#include "capture/guards/describe.h"
#include "capture/guards/filter.h"
#include "capture/guards/tensor_expectation.h"
#include "core/observe/clock.h"

namespace stator::capture {

template <class F>
void CheckArray::for_each_slot(F&& take) const {
  std::vector<const Source*> sources(tree_->roots().begin(), tree_->roots().end());
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source* source = sources[i];
    if (source->slot >= 0) take(*source);
    sources.insert(sources.end(), source->children.begin(), source->children.end());
  }
}

bool CheckArray::run(const GuardInput& input) {
  if (*dead_ || !globals_->matches() || likely_failure_.fails(input)) return false;
  const bool holds = run_passes(input);
  if (holds)
    likely_failure_.note_success();
  else if (likely_failure_.note_failure())
    learn_failure(input);
  return holds;
}

void CheckArray::learn_failure(const GuardInput& input) {
  CheckRun run{input, slots_.data(), fresh_.data()};
  Check *check = checks_.data(), *end = check + checks_.size();
  for (int step = 1; check < end && (step = check->fn(*check, run)) != 0;) check += step;
  if (check >= end) return;
  std::vector<const Source*> by_slot(slots_.size());
  for_each_slot([&](const Source& source) { by_slot[source.slot] = &source; });
  std::vector<bool> path(slots_.size());
  for (const Source* source = by_slot[check->slot]; source; source = source->parent)
    if (source->slot >= 0) path[source->slot] = true;
  likely_failure_.learn(checks_, static_cast<size_t>(check - checks_.data()), path, slots_.data());
}

bool CheckArray::run_passes(const GuardInput& input) {
  if (WordRows::Row* row = rows_.find(input)) {
    switch (row->words->run(input)) {
      case WordPass::Answer::Holds:
        ++row->uses;
        guard_counts().by_words.bump();
        current_ = row->words->slots();
        return true;
      case WordPass::Answer::Fails:
        return false;
      case WordPass::Answer::Unsure:
        break;
    }
  }
  if (!run_fully(input)) return false;
  rows_.consider(checks_, slot_info_, slots_.data(), input);
  return true;
}

bool CheckArray::run(const RawCall& call, PyObject* function) {
  WordRows::Row* row = *dead_ ? nullptr : rows_.find(call, function);
  if (!row || !row->words->begin(call) || !globals_->matches()) return false;
  if (row->words->finish(call, function) != WordPass::Answer::Holds) return false;
  ++row->uses;
  guard_counts().by_words.bump();
  current_ = row->words->slots();
  call_names_ = row->words->call_names();
  return true;
}

bool CheckArray::run_fully(const GuardInput& input) {
  guard_counts().in_full.bump();
  CheckRun run{input, slots_.data(), fresh_.data()};
  if (!run_checks(checks_.data(), checks_.data() + checks_.size(), run)) return false;
  current_ = slots_.data();
  return true;
}

size_t CheckArray::count(FactKind kind) const {
  return static_cast<size_t>(std::count_if(facts_.begin(), facts_.end(),
                                           [&](const Asserted& asserted) { return asserted.fact->kind == kind; }));
}

bool CheckArray::is_vouched_for(const Check& check) const {
  if (check.of_break) return true;
  if (check.fact < 0) return false;
  const auto& [source, fact, object] = facts_[check.fact];
  if (is_from_argument(*source)) return false;
  if (fact->kind == FactKind::Equals) return Py_TYPE(slots_[check.slot]) == Py_TYPE(object);
  return !is_relied_on(fact->kind);
}

template <class F>
bool CheckArray::run_without(const GuardInput& input, F&& is_left_out) {
  if (*dead_ || !globals_->matches()) return false;
  CheckRun run{input, slots_.data(), fresh_.data()};
  // The tail check of each dict block is skipped: it stores the dict's tag, which would mark checks as passed that are
  // left out here.
  for (size_t i = 0; i < checks_.size();) {
    Check& check = checks_[i];
    const int step = check.group == CheckGroup::DictTail || is_left_out(check) ? 1 : check.fn(check, run);
    if (step == 0) return false;
    i += step;
  }
  current_ = slots_.data();
  return true;
}

bool CheckArray::run_for_arguments(const GuardInput& input) {
  return run_without(input, [&](const Check& check) { return is_vouched_for(check); });
}

bool CheckArray::run_for_plan(const GuardInput& input) {
  return run_without(input, [](const Check& check) { return check.of_break; });
}

std::string CheckArray::compare_passes(const GuardInput& input) {
  if (*dead_ || !globals_->matches()) return {};
  WordRows::Row* raw = input.raw ? rows_.find(*input.raw, input.function) : nullptr;
  const bool holds_raw =
      raw && raw->words->begin(*input.raw) && raw->words->finish(*input.raw, input.function) == WordPass::Answer::Holds;
  if (likely_failure_.fails(input) && run_fully(input)) return "the full pass holds and a check that it runs does not";
  WordRows::Row* row = rows_.find(input);
  if (!row) return {};
  const WordPass::Answer answer = row->words->run(input);
  std::vector<PyObject*> by_words(row->words->slots(), row->words->slots() + slot_info_.size());
  const bool holds = run_fully(input);
  if (!holds && (holds_raw || answer == WordPass::Answer::Holds))
    return "the word pass holds and the full pass does not: " + miss(input).text;
  if (holds && answer == WordPass::Answer::Fails) return "the full pass holds and the word pass does not";
  for (size_t i = 0; holds && answer == WordPass::Answer::Holds && i < slot_info_.size(); ++i)
    if (slot_info_[i].read && by_words[i] != slots_[i] && !fresh_[i])
      return "the word pass and the full pass find other objects";
  return {};
}

std::vector<std::string> CheckArray::died_at() const {
  std::vector<std::string> places;
  for (const Watch& watch : watches_)
    if (watch.source && !is_from_pinned(*watch.source) && PyWeakref_GET_OBJECT(watch.weak.get()) == Py_None)
      places.push_back(watch.source->describe());
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

static PyObject* held_by_cell(PyObject* function, int32_t cell) {
  PyObject* closure = function && PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function) : nullptr;
  return closure && cell < PyTuple_GET_SIZE(closure) ? PyCell_GET(PyTuple_GET_ITEM(closure, cell)) : nullptr;
}

bool CheckArray::is_about_same(const GuardInput& input) const {
  if (*dead_) return false;
  for (const auto& [argument, wanted] : identities_)
    if (input.arguments[argument] != wanted) return false;
  return std::all_of(instances_.begin(), instances_.end(), [&](const Instance& instance) {
    PyObject* then = instance.weak ? PyWeakref_GET_OBJECT(instance.weak.get()) : Py_None;
    PyObject* now =
        instance.argument < 0 ? held_by_cell(input.function, instance.cell) : input.arguments[instance.argument];
    return then == Py_None || then == now;
  });
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
              saw, object};
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
    // This pass goes on after a failed check, so it must not store the dict's tag: later calls would skip the block.
    int step = check.group == CheckGroup::DictTail || check.of_break ? 1 : check.fn(check, run);
    if (!step) {
      if (check.fact < 0) return false;
      const Asserted& asserted = facts_[check.fact];
      FactKind kind = asserted.fact->kind;
      PyObject* saw = slots_[check.slot];
      const bool has_other_layout = kind == FactKind::Tensor && asserted.fact->tensor->differs_in_layout_only(saw);
      const bool is_value = kind == FactKind::Equals || kind == FactKind::Length || has_other_layout;
      if (!is_value && kind != FactKind::Shapes) return false;
      if (is_value) into.push_back({{}, asserted.source, asserted.fact, saw});
    }
    i += std::max(step, 1);
  }
  return true;
}

std::vector<double> CheckArray::costs(const GuardInput& input) {
  constexpr int kRepetitions = 32;
  if (*dead_ || !globals_->matches()) return {};
  std::vector<double> costs(facts_.size() + 1);
  CheckRun run{input, slots_.data(), fresh_.data()};
  for (Check& check : checks_) {
    // A tail stores the dict's tag. A head may say that its block can be skipped; the block is measured all the same.
    if (check.group == CheckGroup::DictTail) continue;
    if (check.fn(check, run) == 0) return {};
    const int64_t start = observe::now_ns();
    for (int i = 0; i < kRepetitions; ++i) check.fn(check, run);
    const double each = static_cast<double>(observe::now_ns() - start) / kRepetitions;
    costs[check.fact < 0 ? facts_.size() : static_cast<size_t>(check.fact)] += each;
  }
  return costs;
}

std::vector<std::string> CheckArray::slot_names() const {
  std::vector<std::string> names(slots_.size());
  for_each_slot([&](const Source& source) { names[source.slot] = source.describe(); });
  return names;
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
