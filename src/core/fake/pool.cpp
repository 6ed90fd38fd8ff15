#include "core/fake/pool.h"

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

namespace stator::fake {
namespace {

constexpr size_t kChunk = 1 << 16;
constexpr size_t kAlign = alignof(std::max_align_t);

constexpr size_t round_up(size_t size) { return (size + kAlign - 1) & ~(kAlign - 1); }

}  // namespace

/// Chunks are aligned to their size, so that the chunk follows from the address of a slot.
struct Pool::Chunk {
  Chunk* next = nullptr;
  Chunk* previous = nullptr;
  void* freed = nullptr;                   // a list of freed slots: each begins with the address of the next
  size_t fresh = round_up(sizeof(Chunk));  // the offset of the first slot that was never used
  size_t live = 0;

  bool has_room(size_t slot_size) const { return freed != nullptr || fresh + slot_size <= kChunk; }
};

Pool::Pool(size_t slot_size) : slot_size_(round_up(slot_size)) {}

Pool::Chunk* Pool::add_chunk() {
  void* memory = std::aligned_alloc(kChunk, kChunk);
  if (memory == nullptr) throw std::bad_alloc();
  auto* chunk = new (memory) Chunk;
  link(chunk);
  return chunk;
}

void Pool::link(Chunk* chunk) noexcept {
  chunk->next = open_;
  chunk->previous = nullptr;
  if (open_ != nullptr) open_->previous = chunk;
  open_ = chunk;
}

void Pool::unlink(Chunk* chunk) noexcept {
  (chunk->previous != nullptr ? chunk->previous->next : open_) = chunk->next;
  if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
}

void* Pool::allocate() {
  std::lock_guard lock(mutex_);
  Chunk* chunk = open_ != nullptr ? open_ : add_chunk();
  void* slot = chunk->freed;
  if (slot != nullptr) {
    chunk->freed = *static_cast<void**>(slot);
  } else {
    slot = reinterpret_cast<std::byte*>(chunk) + chunk->fresh;
    chunk->fresh += slot_size_;
  }
  ++chunk->live;
  if (!chunk->has_room(slot_size_)) unlink(chunk);
  return slot;
}

void Pool::free(void* slot) noexcept {
  std::lock_guard lock(mutex_);
  auto* chunk = reinterpret_cast<Chunk*>(reinterpret_cast<uintptr_t>(slot) & ~(kChunk - 1));
  bool was_full = !chunk->has_room(slot_size_);
  *static_cast<void**>(slot) = chunk->freed;
  chunk->freed = slot;
  --chunk->live;
  if (was_full) link(chunk);
  // The last chunk with room stays, so that making and dropping one fake again and again does not allocate memory.
  if (chunk->live != 0 || (chunk == open_ && chunk->next == nullptr)) return;
  unlink(chunk);
  std::free(chunk);
}

}  // namespace stator::fake
