#include "compile/recompile_limits.h"

#include "compile/errors.h"
#include "compile/options.h"
#include "core/observe/counters.h"

namespace stator {
using namespace capture;

namespace {

/// Behind a break, values differ more often than not, so that fewer entries show that one varies.
constexpr size_t kEntriesBehindBreak = 2;

bool is_error(const CompileRequest& request) { return config().fail_on_recompile_limit_hit || request.fullgraph; }

/// Warns once per cache, or sets the Python error. `consequence`: what happens from now on.
void report_limit(CodeCache& cache, const CompileRequest& request, const std::string& which, int64_t limit,
                  const std::string& consequence, const std::string& reason) {
  std::string message = name_of(cache.code()) + " was captured " + std::to_string(limit) + " times, which is " + which +
                        "; " + consequence + ". ";
  message +=
      reason.empty() ? "Raise" : "The last miss: " + reason + ". Keep what that guard looks at constant, or raise";
  message += " stator.config." + which + ".";
  if (is_error(request)) {
    PyObject* type = error_types().recompile_limit.get();
    Ref error = Ref::steal(PyObject_CallFunction(type, "s", message.c_str()));
    if (error) PyErr_SetObject(type, error.get());
    return;
  }
  if (!std::exchange(cache.warned, true)) PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1);
}

}  // namespace

bool is_at_limit(CodeCache& cache, const Place& place, const CompileRequest& request, const std::string& reason) {
  GuardInput input{place.values, place.function};
  PyObject* key = request.cache_key.get();
  const int64_t limit = config().recompile_limit, accumulated_limit = config().accumulated_recompile_limit;
  const size_t tried = cache.count_for(place.offset, key, input);
  const bool is_local = static_cast<int64_t>(tried) >= limit;
  const bool is_accumulated = static_cast<int64_t>(cache.next_compile_id) >= accumulated_limit;
  if ((is_local || (place.offset > 0 && tried >= kEntriesBehindBreak)) && !is_error(request)) {
    std::vector<std::string> places = cache.unstable_sources(place.offset, key, input);
    observe::count("recompiles.varying_places", places.size());
    cache.varying[place.offset].insert(places.begin(), places.end());
    if (is_local && !places.empty())
      report_limit(cache, request, "recompile_limit", limit,
                   "the lines that look at " + places.front() + " run as plain Python", reason);
    if (!places.empty()) return false;
  }
  if (!is_local && !is_accumulated) return false;
  observe::count("recompiles.limit_hit");
  report_limit(cache, request, is_local ? "recompile_limit" : "accumulated_recompile_limit",
               is_local ? limit : accumulated_limit, "further misses run as plain Python", reason);
  if (is_error(request) || ++cache.refused < cache.patience) return true;
  // After many misses: what is called now may not be what filled the cache, so one entry makes room.
  cache.refused = 0;
  cache.patience *= 2;
  cache.evict(key);
  return false;
}

}  // namespace stator
