#include "bindings/library_statics.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/utils/pybind.h>

namespace stator::bindings {

void make_library_statics() {
  c10::Dispatcher::singleton();
  // `gil_scoped_acquire` reads pybind11's internals before it has the GIL.
  pybind11::detail::get_internals();
  pybind11::detail::get_local_internals();
}

}  // namespace stator::bindings
