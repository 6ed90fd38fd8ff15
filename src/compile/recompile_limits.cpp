#include "compile/recompile_limits.h"

#include <bit>

#include "compile/errors.h"
#include "compile/options.h"
#include "compile/torch_compiler.h"
#include "core/observe/counters.h"

namespace stator {
using namespace capture;

namespace {

/// Behind a break, values differ more often than not, so that fewer entries show that one varies.
constexpr size_t kEntriesBehindBreak = 2;

/// Warns once per cache, or sets the Python error. `consequence`: what happens from now on, unless it is an error.
void report_limit(CodeCache& cache, const CompileRequest& request, bool is_error, const std::string& which,
                  int64_t limit, const std::string& consequence, const std::function<std::string()>& find_reason) {
  if (!is_error && cache.warned) return;
  const std::string reason = find_reason();
  const char* forbids = request.fullgraph ? "fullgraph" : "stator.config.fail_on_recompile_limit_hit";
  std::string message = name_of(cache.code()) + " was captured " + std::to_string(limit) + " times (stator.config." +
                        which + "); " +
                        (is_error ? std::string(forbids) + " forbids to run it as plain Python" : consequence);
  if (!reason.empty())
    message += "\n  what changed: " + reason +
               "\n  try: keep that the same from call to call, make a changing number a tensor, or raise the limit "
               "(docs/errors.md, recompile-limit)";
  if (is_error) {
    PyObject* type = error_types().recompile_limit.get();
    Ref error = Ref::steal(PyObject_CallFunction(type, "s", message.c_str()));
    if (error) PyErr_SetObject(type, error.get());
    return;
  }
  if (!std::exchange(cache.warned, true)) PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1);
}

TorchLimits limits_at(const CodeCache& cache, const Place& place, const CompileRequest& request) {
  std::optional<TorchLimits> known = cache.known_limits(place.offset, request.cache_key.get());
  return known ? *known : torch_limits();
}

/// The captures at a place that the recompile limit counts. Where reaching it is an error, entries that died do not
/// count: objects that come and go are not a reason to end the program.
size_t tried_with(size_t live, size_t died, const Limits& limits) { return limits.is_error ? live : live + died; }

/// Whether a source behind a break became mortal: the next capture is not bound to the object there. Entries for other
/// objects do not count towards the limit, since each object may come again, so this looks at all entries.
bool find_renewed(CodeCache& cache, const Place& place, const CompileRequest& request, const Limits& limits,
                  const std::function<std::string()>& reason) {
  PyObject* key = request.cache_key.get();
  const size_t entries = place.offset > 0 ? cache.count(place.offset, key) : 0;
  if (entries < kEntriesBehindBreak || !std::has_single_bit(cache.refused + 1)) return false;
  const bool has_many = static_cast<int64_t>(entries) >= limits.recompile;
  const std::vector<std::string> renewed =
      cache.renewed_sources(place.offset, key, {place.values, place.function}, has_many);
  if (renewed.empty()) return false;
  cache.varying[place.offset].mortal.insert(renewed.begin(), renewed.end());
  if (has_many)
    report_limit(cache, request, false, "recompile_limit", limits.recompile,
                 "the lines that look at " + renewed.front() + " run as plain Python", reason);
  return true;
}

}  // namespace

bool is_at_limit(CodeCache& cache, const Place& place, const CompileRequest& request,
                 const std::function<std::string()>& reason) {
  GuardInput input{place.values, place.function};
  PyObject* key = request.cache_key.get();
  const size_t live = cache.count_for(place.offset, key, input), died = cache.died(place.offset, key);
  if (live + died == 0 && cache.next_compile_id == 0) return false;
  const TorchLimits of_torch = limits_at(cache, place, request);
  const Limits limits(request, of_torch);
  const size_t tried = tried_with(live, died, limits);
  const int64_t limit = tried > 0 ? limits.recompile : 1;
  const int64_t accumulated = cache.next_compile_id > 0 ? limits.accumulated : 1;
  const bool is_local = static_cast<int64_t>(tried) >= limit;
  const bool is_accumulated = static_cast<int64_t>(cache.next_compile_id) >= accumulated;
  const bool may_vary = is_local || (place.offset > 0 && tried >= kEntriesBehindBreak);
  const bool is_error = (may_vary || is_accumulated) && limits.is_error;
  // At the limit this is asked more and more rarely: it takes time, and the answer seldom changes.
  const bool is_asked = may_vary && (!is_local || std::has_single_bit(cache.refused + 1));
  if (is_asked && !is_error) {
    std::vector<std::string> places = cache.unstable_sources(place.offset, key, input);
    observe::count("recompiles.varying_places", places.size());
    cache.varying[place.offset].values.insert(places.begin(), places.end());
    if (is_local && !places.empty())
      report_limit(cache, request, is_error, "recompile_limit", limit,
                   "the lines that look at " + places.front() + " run as plain Python", reason);
    if (!places.empty()) return false;
  }
  if (!limits.is_error && find_renewed(cache, place, request, limits, reason)) return false;
  if (!is_local && !is_accumulated) return false;
  observe::count("recompiles.limit_hit");
  report_limit(cache, request, is_error, is_local ? "recompile_limit" : "accumulated_recompile_limit",
               is_local ? limit : accumulated, "other calls run as plain Python", reason);
  if (is_error) return true;
  cache.refused += cache.note_refusal(place.offset, key, of_torch);
  if (cache.refused < cache.patience) return true;
  // After many misses: what is called now may not be what filled the cache, so one entry makes room.
  cache.refused = 0;
  cache.patience *= 2;
  if (!cache.forgive_death(place.offset, key)) cache.evict(key);
  return false;
}

bool is_full(const CodeCache& cache, const Place& place, const CompileRequest& request) {
  PyObject* key = request.cache_key.get();
  const Limits limits(request, limits_at(cache, place, request));
  const size_t live = cache.count_for(place.offset, key, {place.values, place.function});
  const size_t tried = tried_with(live, cache.died(place.offset, key), limits);
  return static_cast<int64_t>(tried) >= limits.recompile ||
         static_cast<int64_t>(cache.next_compile_id) >= limits.accumulated;
}

bool runs_at_rest(CodeCache& cache, int32_t offset, const CompileRequest& request) {
  if (!cache.has_resting_calls()) return false;
  // Torch's own setting is read by the calls that look for an entry.
  if (request.fullgraph || config().fail_on_recompile_limit_hit) return false;
  if (request.guards && request.guards->wants_failures()) return false;  // each miss is told
  return cache.is_resting(offset, request.cache_key.get());
}

}  // namespace stator
