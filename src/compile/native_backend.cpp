#include "compile/native_backend.h"

#include "core/backend/registry.h"

namespace stator {
namespace {

using Held = std::shared_ptr<const backend::Choice>;
constexpr const char* kName = "stator.native_backend";

}  // namespace

Ref native_backend_object(std::shared_ptr<const backend::Choice> choice) {
  auto* held = new Held(std::move(choice));
  Ref capsule = Ref::steal(PyCapsule_New(
      held, kName, [](PyObject* object) { delete static_cast<Held*>(PyCapsule_GetPointer(object, kName)); }));
  if (!capsule) delete held;
  return capsule;
}

std::shared_ptr<const backend::Choice> native_backend_of(PyObject* object) {
  if (!PyCapsule_IsValid(object, kName)) return nullptr;
  return *static_cast<Held*>(PyCapsule_GetPointer(object, kName));
}

}  // namespace stator
