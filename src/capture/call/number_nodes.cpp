#include "capture/call/number_nodes.h"

#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include "core/shapes/sym_node.h"

namespace stator::capture {

/// Torch's bindings wrap the SymNode of a SymFloat or SymBool that comes from Python in a PythonSymNodeImpl. Returns
/// the node inside; null if `wrapper` is another class.
static c10::SymNode unwrapped_node(c10::SymNodeImpl* wrapper) {
  auto* wrapped = dynamic_cast<torch::impl::PythonSymNodeImpl*>(wrapper);
  if (wrapped == nullptr) return {};
  py::gil_scoped_acquire gil;
  const py::handle object = wrapped->getPyObj();
  return py::isinstance<c10::SymNodeImpl>(object) ? object.cast<c10::SymNode>() : c10::SymNode();
}

void install_number_nodes() { shapes::set_unwrap(unwrapped_node); }

}  // namespace stator::capture
