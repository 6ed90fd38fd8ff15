#include "capture/call/break.h"

namespace stator::capture {
namespace {
struct Row {
  const char *name, *title, *hint;
};
constexpr Row kRows[] = {
#define STATOR_BREAK(id, title, hint) {#id, title, hint},
#include "capture/call/break_reasons.def"
#undef STATOR_BREAK
};
}  // namespace

const char* break_name(BreakId id) { return kRows[static_cast<size_t>(id)].name; }
const char* break_title(BreakId id) { return kRows[static_cast<size_t>(id)].title; }
const char* break_hint(BreakId id) { return kRows[static_cast<size_t>(id)].hint; }

std::string BreakReason::text() const {
  std::string out = std::string(break_title(id));
  if (!detail.empty()) out += ": " + detail;
  if (!stack.empty())
    out += "\n  at " + stack.back().file + ":" + std::to_string(stack.back().line) + " in " + stack.back().function;
  out += std::string("\n  what to do: ") + break_hint(id) + "  [" + break_name(id) + "]";
  return out;
}

}  // namespace stator::capture
