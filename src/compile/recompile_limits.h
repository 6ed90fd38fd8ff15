#pragma once

#include <string>

#include "capture/cache/code_cache.h"
#include "capture/frame/compiler.h"
#include "compile/pipeline.h"

namespace stator {

/// Whether a limit forbids one more capture at this place; then the user was warned, or, where reaching a limit is an
/// error, a Python error is set. Before it forbids one, it looks for values that changed from call to call: they become
/// varying, so that the next capture is not specialised on them. `reason`: why the last entry did not fit.
bool is_at_limit(capture::CodeCache& cache, const capture::Place& place, const CompileRequest& request,
                 const std::string& reason);

}  // namespace stator
