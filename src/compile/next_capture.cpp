#include "compile/next_capture.h"

#include <utility>

namespace stator {
using capture::Numbers;

namespace {

/// The numbers that must become constants because the capture ended at a break that needs one of their values.
Numbers numbers_that_ended(const NumberChoice& choice, const CaptureOutcome& outcome) {
  if (!outcome.broke) return {};
  const bool has_changes = choice.changed.has_numbers();
  if (has_changes && outcome.ends_as_before) return {};
  if (outcome.named.has_numbers()) return outcome.named;
  // The break does not name the value that it needs, so it may be any of those that changed.
  if (has_changes) return choice.changed;
  return outcome.is_refusal ? choice.varying : Numbers();
}

/// Whether one of the numbers is not a constant so far.
bool has_new_constant(const NumberChoice& choice, const Numbers& numbers) {
  Numbers left = numbers;
  Numbers constants = choice.constants;
  constants.remove_numbers(choice.varying);
  left.remove_numbers(constants);
  return left.has_numbers();
}

/// The capture after `choice`, with these numbers as further constants. Empty if it would be the same, or one too many.
std::optional<NumberChoice> with_constants(const NumberChoice& choice, const CaptureOutcome& outcome,
                                           const Numbers& numbers) {
  if (choice.number == kMaxCaptures || !has_new_constant(choice, numbers)) return {};
  NumberChoice next = choice;
  ++next.number;
  for (const Numbers* made : {&outcome.specialised, &numbers}) next.constants.add_numbers(*made);
  for (Numbers* each : {&next.varying, &next.changed}) each->remove_numbers(numbers);
  if (next.number == kMaxCaptures) {
    next.varying = next.changed = {};
    next.has_constants_only = true;
  }
  return next;
}

}  // namespace

CaptureDecision next_capture(const NumberChoice& choice, const CaptureOutcome& outcome) {
  CaptureDecision decision;
  if (outcome.refused.has_numbers()) {
    decision.next = with_constants(choice, outcome, outcome.refused);
    decision.is_unusable = !decision.next;
    return decision;
  }
  decision.needed = numbers_that_ended(choice, outcome);
  decision.next = with_constants(choice, outcome, decision.needed);
  return decision;
}

}  // namespace stator
