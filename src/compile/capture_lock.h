#pragma once

namespace stator {

/// Held by the one thread that captures; recursive. Waiting releases the GIL, so that other threads' calls go on.
class CaptureLock {
 public:
  CaptureLock();
  ~CaptureLock();
  CaptureLock(const CaptureLock&) = delete;
  CaptureLock& operator=(const CaptureLock&) = delete;
  /// Whether another thread held it: other code has run since.
  bool waited() const { return waited_; }

 private:
  bool waited_ = false;
};

}  // namespace stator
