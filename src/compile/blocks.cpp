// Blocks in which all frames of a thread are captured; declared in compiled_function.h.
#include "capture/frame/watch.h"
#include "compile/compiled_function.h"
#include "compile/frame_compiler.h"

namespace stator {
using namespace capture;

static std::vector<std::unique_ptr<WatchedBlock>>& blocks() {
  // Not freed when the thread ends: by then it may not call Python any more.
  static thread_local auto* const entered = new std::vector<std::unique_ptr<WatchedBlock>>;
  return *entered;
}

bool enter_block(PyObject* compiled) {
  if (!Py_IS_TYPE(compiled, compiled_function_type())) {
    PyErr_SetString(PyExc_TypeError, "enter_block takes a compiled function");
    return false;
  }
  const CompileRequest& request = *reinterpret_cast<CompiledFunction*>(compiled)->request;
  auto block = std::make_unique<WatchedBlock>(std::make_unique<FrameCompiler>(request));
  if (!block->ok()) return false;
  blocks().push_back(std::move(block));
  return true;
}

bool leave_block() {
  if (blocks().empty()) {
    PyErr_SetString(PyExc_AssertionError, "leave_block without enter_block on this thread");
    return false;
  }
  blocks().pop_back();
  return true;
}

}  // namespace stator
