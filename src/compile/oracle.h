#pragma once

#include <map>
#include <string>

#include "capture/cache/entry.h"
#include "compile/pipeline.h"

/// The oracle mode (`config.oracle`), for tests: each hit also captures afresh, and what that gives is compared with
/// the entry. A capture may depend on nothing but what it guards, so where the guards hold both must be the same. It
/// checks guards, graph and plan; that the plan does what the program does, the tests compare with eager.
namespace stator {

struct Exploration;

/// Its text has the guards, plan, graph and graph break of a capture, one fact per line. Addresses are left out: those
/// of objects that the capture made differ, and those of all others were just compared by the guards. The order of
/// guards does not matter.
/// The guards of the entry must have been built. `plan`: null if there is none.
std::unique_ptr<capture::OracleRecord> oracle_record(const capture::Entry& entry, const capture::Plan* plan,
                                                     const Exploration& explored);

/// Whether two captures of one call are the same. Graph, plan and break must be equal. Of the guards, those of one may
/// include those of the other: an object that is only passed on has guards or not, depending on its class. A call that
/// gives one object at two sources is not compared, if the entry need not know of it.
bool is_same_capture(const std::string& entry, const std::string& fresh);

/// The settings that a capture depends on. An entry is only compared under those it was made under.
std::string capture_settings();

/// Sets the Python error `stator.OracleError`. `expected` and `actual` are texts of which the lines that differ are
/// shown.
void raise_oracle_error(const std::string& where, const std::string& cause, const std::string& expected = {},
                        const std::string& actual = {});

/// Puts all counters back when it dies: what the oracle does is not counted.
class UncountedScope {
 public:
  UncountedScope();
  ~UncountedScope();
  UncountedScope(const UncountedScope&) = delete;
  UncountedScope& operator=(const UncountedScope&) = delete;

 private:
  std::map<std::string, int64_t> before_;
};

}  // namespace stator
