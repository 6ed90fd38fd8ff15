#pragma once

#include <cstddef>

#include "core/base/export.h"
#include "core/base/fork_safe.h"

namespace stator::fake {

/// An allocator for objects of one size. A capture makes and frees thousands of fakes; a general heap would merge and
/// split blocks for each. Slots stand in chunks; a chunk without a live slot goes back to the heap, except the last.
/// Thread-safe.
class STATOR_API Pool {
 public:
  explicit Pool(size_t slot_size);
  ~Pool() = delete;  // pools live as long as the process

  void* allocate();
  void free(void* slot) noexcept;

 private:
  struct Chunk;
  Chunk* add_chunk();
  void link(Chunk* chunk) noexcept;
  void unlink(Chunk* chunk) noexcept;

  const size_t slot_size_;
  ForkSafeMutex& mutex_ = *new ForkSafeMutex;
  Chunk* open_ = nullptr;  // a doubly linked list of the chunks with room, the newest first
};

}  // namespace stator::fake
