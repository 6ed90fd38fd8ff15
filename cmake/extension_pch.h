// Precompiled for the extension module: CPython, the standard library, and the header that most of src/capture
// includes. It holds no header of torch: the few sources that need one are faster without.
// Sources still include what they use; this header only saves their parsing.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/interpreter/protocol/interpreter.h"
