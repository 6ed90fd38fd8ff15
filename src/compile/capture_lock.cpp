#include "compile/capture_lock.h"

#include <Python.h>

#include "core/base/fork_safe.h"

namespace stator {
namespace {

// A capture runs code of the program, which may capture again in the same thread. So what the lock protects is
// consistent wherever the GIL may change hands, as `ForkRenewedMutex` needs it.
ForkRenewedMutex& mutex = *new ForkRenewedMutex;

}  // namespace

CaptureLock::CaptureLock() {
  if (mutex.try_lock()) return;
  waited_ = true;
  Py_BEGIN_ALLOW_THREADS mutex.lock();
  Py_END_ALLOW_THREADS
}

CaptureLock::~CaptureLock() { mutex.unlock(); }

}  // namespace stator
