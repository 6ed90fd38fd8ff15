#include "compile/oracle.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "capture/call/plan_text.h"
#include "compile/errors.h"
#include "compile/explore.h"
#include "compile/graph_facts.h"
#include "compile/options.h"
#include "core/observe/counters.h"

namespace stator {
using namespace capture;

namespace {

/// The line with `0x...` in place of each address.
std::string without_addresses(const std::string& line) {
  std::string made;
  for (size_t i = 0; i < line.size(); ++i) {
    made += line[i];
    if (i == 0 || line[i] != 'x' || line[i - 1] != '0') continue;
    size_t end = line.find_first_not_of("0123456789abcdef", i + 1);
    if (end == i + 1) continue;
    made += "...";
    i = std::min(end, line.size()) - 1;
  }
  return made;
}

/// The line of a plan's step. A slot is named by its source: its number depends on how many other sources are read.
std::string with_name(const std::string& line, const std::vector<std::string>& names) {
  constexpr std::string_view kSlot = " = slot ";
  const size_t at = line.find(kSlot);
  if (at == line.npos || line[0] != '%') return line;
  return line.substr(0, at + kSlot.size()) + names[std::stoul(line.substr(at + kSlot.size()))];
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool is_guard(const std::string& line) { return line.starts_with("guard: "); }

/// The lines of `a` that `b` does not have; each counts as often as it stands there.
std::string only_in(const std::string& a, const std::string& b) {
  std::vector<std::string> others = lines_of(b);
  std::string found;
  for (const std::string& line : lines_of(a)) {
    auto same = std::find(others.begin(), others.end(), line);
    if (same == others.end())
      found += "\n    " + line;
    else
      others.erase(same);
  }
  return found.empty() ? "\n    (nothing)" : found;
}

}  // namespace

std::unique_ptr<OracleRecord> oracle_record(const Entry& entry, const Plan* plan, const Exploration& explored) {
  const graph::Graph* graph = explored.result.graph.get();
  std::vector<std::string> guards = entry.guards->describe();
  for (std::string& line : guards) line = "guard: " + without_addresses(line);
  std::sort(guards.begin(), guards.end());
  std::string text;
  for (const std::string& line : guards) text += line + "\n";
  if (entry.broke) text += std::string("break: ") + break_name(entry.broke->id) + "\n";
  if (entry.runs_plain) text += "the rest runs as plain Python\n";
  if (plan) {
    const std::vector<std::string> names = entry.guards->slot_names();
    for (int32_t input : plan->inputs) text += "graph input: " + without_addresses(names[input]) + "\n";
    for (const std::string& line : describe(*plan)) text += "plan: " + without_addresses(with_name(line, names)) + "\n";
  }
  if (plan && graph)
    for (const std::string& line : lines_of(graph_text(*graph))) text += "graph: " + without_addresses(line) + "\n";
  auto record = std::make_unique<OracleRecord>();
  record->text = std::move(text);
  if (!entry.guards_break) {
    record->stop_before = explored.result.interpreter->options.stop_before;
    record->stop_reason = entry.broke->id;
  }
  return record;
}

/// Whether two sources gave one object in the fresh capture although the entry has no guard on their identity. Its
/// graph then has fewer inputs and cannot be compared.
static bool sees_fewer_objects(const std::vector<std::string>& guards, const std::vector<std::string>& entry_guards) {
  return std::any_of(guards.begin(), guards.end(), [&](const std::string& line) {
    return line.find(" is the same object as ") != std::string::npos &&
           std::find(entry_guards.begin(), entry_guards.end(), line) == entry_guards.end();
  });
}

bool is_same_capture(const std::string& entry, const std::string& fresh) {
  auto split = [](const std::string& from) {
    std::vector<std::string> lines = lines_of(from);
    auto rest = std::stable_partition(lines.begin(), lines.end(), is_guard);
    return std::pair(std::vector<std::string>(lines.begin(), rest), std::vector<std::string>(rest, lines.end()));
  };
  auto [guards, rest] = split(entry);
  auto [other_guards, other_rest] = split(fresh);
  if (sees_fewer_objects(other_guards, guards)) return true;
  return rest == other_rest && (std::includes(guards.begin(), guards.end(), other_guards.begin(), other_guards.end()) ||
                                std::includes(other_guards.begin(), other_guards.end(), guards.begin(), guards.end()));
}

std::string capture_settings() {
  const Config& now = config();
  return std::to_string(now.break_after) + " " + std::to_string(now.aten_graphs) + " " +
         std::to_string(now.numpy_exact);
}

void raise_oracle_error(const std::string& where, const std::string& cause, const std::string& expected,
                        const std::string& actual) {
  std::string message = where + ": " + cause;
  if (expected != actual)
    message += "\n  only in the entry:" + only_in(expected, actual) +
               "\n  only in the fresh capture:" + only_in(actual, expected);
  Ref error = Ref::steal(PyObject_CallFunction(error_types().oracle.get(), "s", message.c_str()));
  if (error) PyErr_SetObject(error_types().oracle.get(), error.get());
}

UncountedScope::UncountedScope() : before_(observe::counts()) {}
UncountedScope::~UncountedScope() { observe::restore_counts(before_); }

}  // namespace stator
