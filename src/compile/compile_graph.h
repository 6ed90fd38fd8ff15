#pragma once

#include "compile/explore.h"

namespace stator {

/// Makes the symbolic sizes that the graph uses inputs of its own, as Python backends take them.
void give_size_inputs(AttemptResult& result);

/// Has the backend compile the graph and puts the executable into the plan, if there is an operator at all. `exported`:
/// guard rows for the user's callback, or null. `no_collection` is ended before a Python backend runs. False with a
/// Python error set if the backend or the callback failed.
bool compile_graph(const CaptureContext& context, const Exploration& explored, const Ref& exported,
                   capture::Entry& entry, capture::Plan& plan, std::optional<capture::NoCollection>& no_collection);

}  // namespace stator
