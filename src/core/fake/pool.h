#pragma once

#include <cstddef>
#include <mutex>

#include "core/base/export.h"

namespace stator::fake {

/// Memory of one size for objects that come and go by the thousand, as the parts of fakes do: a capture makes all of
/// them and frees all of them, which a general heap pays for by merging and splitting its blocks. Slots stand in
/// chunks; a chunk without a live slot goes back to the heap. Thread-safe.
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
  std::mutex mutex_;
  Chunk* open_ = nullptr;  // chunks with room, doubly linked; the newest first
};

}  // namespace stator::fake
