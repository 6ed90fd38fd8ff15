#include "compile/phases.h"

namespace stator {

using observe::PhaseKind;

PhaseKind& frame_phase = *new PhaseKind("frame");
PhaseKind& explore_phase = *new PhaseKind("explore");
PhaseKind& attempt_phase = *new PhaseKind("attempt");
PhaseKind& interpret_phase = *new PhaseKind("interpret");
PhaseKind& finish_phase = *new PhaseKind("finish_graph");
PhaseKind& guards_phase = *new PhaseKind("build_guards");
PhaseKind& plan_phase = *new PhaseKind("build_plan");
PhaseKind& backend_phase = *new PhaseKind("backend");
PhaseKind& check_phase = *new PhaseKind("check_guards");
PhaseKind& report_phase = *new PhaseKind("report");

}  // namespace stator
