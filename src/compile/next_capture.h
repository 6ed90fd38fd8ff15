#pragma once

#include <optional>

#include "capture/values/numbers.h"

/// Which numbers a capture takes as inputs, and when it is made again with fewer of them: plain data, and a pure
/// function from one capture and its outcome to the next one, as `next_attempt` is for the attempts of a capture.
/// Nothing here needs Python; tests/cpp/compile/next_capture_test.cpp covers every transition.
namespace stator {

/// A call that no entry serves never leads to more captures than this. Each of them makes at most `kMaxAttempts`
/// attempts.
constexpr int kMaxCaptures = 32;

/// The numbers of one capture.
struct NumberChoice {
  capture::Numbers varying;         // floats and ints that are inputs of the graph, and sizes that are symbols
  capture::Numbers changed;         // those among them that were constants in earlier entries
  capture::Numbers constants;       // those that are constants, even where the user asked for inputs and symbols
  bool has_constants_only = false;  // all numbers are constants, but for those that the user marked
  int number = 1;                   // among the captures for this call
};

/// How a capture ended, as far as the policy needs to know.
struct CaptureOutcome {
  capture::Numbers specialised;  // numbers that the backend guarded to have the value of this call
  capture::Numbers refused;      // numbers that the backend takes as constants only: the entry must not be used
  bool broke = false;            // it ended at a graph break, and:
  bool is_refusal = false;       // the entry only reports the break, which is an error
  bool ends_as_before = false;   // an earlier entry, which has the changed numbers as constants, ends there as well
  capture::Numbers named;        // the numbers whose values the break needs, as far as it names them
};

struct CaptureDecision {
  /// The break needs the values of these numbers: later captures have them as constants too.
  capture::Numbers needed;
  std::optional<NumberChoice> next;  // empty: the entry is the result, unless it is unusable
  bool is_unusable = false;          // the backend refused numbers that cannot become constants
};

/// Each further capture has a constant more than the one before, and the last one that the bound allows has constants
/// only.
CaptureDecision next_capture(const NumberChoice& choice, const CaptureOutcome& outcome);

}  // namespace stator
