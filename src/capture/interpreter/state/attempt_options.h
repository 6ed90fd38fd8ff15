#pragma once

#include <cstdint>
#include <vector>

struct PyCodeObject;  // as Python.h declares it; this header is plain data, so that the retry policy needs no Python

namespace stator::capture {

/// What one capture attempt may do, and where it stops. Chosen before the interpreter is made, and fixed from then on.
struct AttemptOptions {
  /// The step (running number of an instruction) to stop before. 0: the attempt continues to the frame's end.
  uint64_t stop_before = 0;
  /// The graph may fail depending on data, because the program itself runs then: conditions on data may be assumed, and
  /// numbers computed whose computation may raise.
  bool may_assume = false;
  /// The graph goes to a Python backend, which may compute first and write to its inputs later.
  bool for_python_backend = false;
  /// Torch's compiled autograd captures backward passes; it knows torch's own autograd nodes only.
  bool for_compiled_autograd = false;
  /// Integers in input tensors are read now, and guarded.
  bool reads_items = false;
  /// Steps that register a hook on a tensor which is written later: the hook is registered on a copy of the tensor.
  std::vector<uint64_t> hooks_on_copies;
  /// Code of functions allowed in graphs that a node must call. Borrowed: the program owns the code objects.
  std::vector<PyCodeObject*> as_nodes;
};

}  // namespace stator::capture
