#pragma once

#include "core/observe/phases.h"

/// The phases of a compilation. docs/observability.md lists them.
namespace stator {

extern observe::PhaseKind& frame_phase;      // all of one compilation
extern observe::PhaseKind& explore_phase;    // all attempts
extern observe::PhaseKind& attempt_phase;    // one attempt, by its number
extern observe::PhaseKind& interpret_phase;  // the bytecode, in one attempt
extern observe::PhaseKind& finish_phase;     // the graph of one attempt is completed and examined
extern observe::PhaseKind& guards_phase;
extern observe::PhaseKind& plan_phase;
extern observe::PhaseKind& backend_phase;
extern observe::PhaseKind& check_phase;   // the guards, for the first time
extern observe::PhaseKind& report_phase;  // listeners, logs and files

}  // namespace stator
