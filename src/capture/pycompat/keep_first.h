#pragma once

namespace stator {

/// Makes `kept`, which starts as null and lives as long as the process, from what `make` returns (a Ref or a
/// unique_ptr). `make` may run Python code. So it may be called again before it has returned: by another thread, or
/// further down on the same stack. The result that is there first stays, and the others are dropped. GIL held.
template <class T, class Make>
T* keep_first(T*& kept, const Make& make) {
  if (kept == nullptr) {
    auto made = make();
    if (kept == nullptr) kept = made.release();
  }
  return kept;
}

}  // namespace stator
