#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

namespace stator::backend {

/// What torch compares of a saved and a recomputed tensor.
struct SavedMetadata {
  std::vector<int64_t> sizes;
  at::ScalarType dtype;
  at::Device device;

  explicit SavedMetadata(const at::Tensor& tensor)
      : sizes(tensor.sizes().vec()), dtype(tensor.scalar_type()), device(tensor.device()) {}
  bool operator==(const SavedMetadata&) const = default;

  /// As Python prints the dict that torch compares.
  std::string text() const {
    std::string shape;
    for (int64_t size : sizes) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    std::string place = "type='" + c10::DeviceTypeName(device.type(), /*lower_case=*/true) + "'";
    if (device.has_index()) place += ", index=" + std::to_string(device.index());
    return "{'shape': torch.Size([" + shape + "]), 'dtype': torch." + std::string(c10::getDtypeNames(dtype).first) +
           ", 'device': device(" + place + ")}";
  }
};

}  // namespace stator::backend
