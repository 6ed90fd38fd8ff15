#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <vector>

namespace stator::pycompat {

/// Calls `visit` with each machine word of a heap type that says what its instances do: the slots, the flags, where
/// instances keep `__dict__` and weak references, the base. `tp_dict`, `tp_mro` and what CPython keeps for itself
/// (version tag, subclasses, caches) are not among them. Stops when `visit` returns false, and returns false then.
template <class F>
bool each_slot(const PyTypeObject* type, F&& visit) {
  constexpr unsigned long kUnrelated = Py_TPFLAGS_VALID_VERSION_TAG | Py_TPFLAGS_READY | Py_TPFLAGS_READYING;
  auto word = [](auto value) { return reinterpret_cast<uintptr_t>(value); };
  const uintptr_t fields[] = {
      word(type->tp_dealloc),
      static_cast<uintptr_t>(type->tp_vectorcall_offset),
      word(type->tp_getattr),
      word(type->tp_setattr),
      word(type->tp_repr),
      word(type->tp_hash),
      word(type->tp_call),
      word(type->tp_str),
      word(type->tp_getattro),
      word(type->tp_setattro),
      static_cast<uintptr_t>(type->tp_flags & ~kUnrelated),
      word(type->tp_richcompare),
      static_cast<uintptr_t>(type->tp_weaklistoffset),
      word(type->tp_iter),
      word(type->tp_iternext),
      word(type->tp_base),
      word(type->tp_descr_get),
      word(type->tp_descr_set),
      static_cast<uintptr_t>(type->tp_dictoffset),
      word(type->tp_init),
      word(type->tp_new),
      word(type->tp_del),
      word(type->tp_finalize),
      word(type->tp_vectorcall),
  };
  for (uintptr_t field : fields)
    if (!visit(field)) return false;
  // The tables of methods lie one after the other.
  const auto* heap = reinterpret_cast<const PyHeapTypeObject*>(type);
  const auto* at = reinterpret_cast<const uintptr_t*>(&heap->as_async);
  const auto* end = reinterpret_cast<const uintptr_t*>(&heap->as_buffer + 1);
  for (; at < end; ++at)
    if (!visit(*at)) return false;
  return true;
}

}  // namespace stator::pycompat
