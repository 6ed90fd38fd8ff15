#pragma once

#include <functional>
#include <string>

#include "capture/cache/code_cache.h"
#include "capture/frame/compiler.h"
#include "compile/pipeline.h"

namespace stator {

/// Whether a limit forbids one more capture at this place; then the user was warned, or, where reaching a limit is an
/// error, a Python error is set. Before it forbids one, it looks for values that changed from call to call: they become
/// varying, so that the next capture is not specialised on them. `reason`: tells why the last entry did not fit.
bool is_at_limit(capture::CodeCache& cache, const capture::Place& place, const CompileRequest& request,
                 const std::function<std::string()>& reason);

/// Whether a limit forbids one more capture at this place, whatever varies.
bool is_full(const capture::CodeCache& cache, const capture::Place& place, const CompileRequest& request);

/// Whether a call at this place runs as plain Python without looking for an entry (`CodeCache::is_resting`).
bool runs_at_rest(capture::CodeCache& cache, int32_t offset, const CompileRequest& request);

}  // namespace stator
