#include "core/fake/construct.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/TensorOptions.h>

#include <utility>

#include "core/fake/iterator.h"
#include "core/fake/layout.h"
#include "core/fake/pool.h"
#include "core/fake/rule.h"
#include "core/fake/symbolic.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {

namespace {

/// A torch object in memory of a pool. Its virtual destructor gives the memory back to the pool, wherever the last
/// owner drops it.
template <class Base>
class Pooled final : public Base {
 public:
  using Base::Base;

#if !defined(__SANITIZE_ADDRESS__)
  static void* operator new(size_t) { return pool->allocate(); }
  static void operator delete(void* object) noexcept { pool->free(object); }

 private:
  static Pool* const pool;
#endif
};

#if !defined(__SANITIZE_ADDRESS__)
template <class Base>
Pool* const Pooled<Base>::pool = new Pool(sizeof(Pooled<Base>));
#endif

}  // namespace

bool is_fake(const c10::Storage& storage) {
  return storage && dynamic_cast<const Pooled<c10::StorageImpl>*>(storage.unsafeGetStorageImpl()) != nullptr;
}

c10::Storage make_storage(c10::SymInt bytes, c10::Device device) {
  auto impl = c10::make_intrusive<Pooled<c10::StorageImpl>>(c10::StorageImpl::use_byte_size_t(), std::move(bytes),
                                                            at::DataPtr(nullptr, device), /*allocator=*/nullptr,
                                                            /*resizable=*/false);
  impl->release_data_and_set_meta_custom_data_ptr_error_msg_(kNoData);
  return c10::Storage(std::move(impl));
}

static thread_local bool has_meta_bit = false;

MetaBitScope::MetaBitScope() : previous_(std::exchange(has_meta_bit, true)) {}
MetaBitScope::~MetaBitScope() { has_meta_bit = previous_; }

c10::DispatchKeySet keys_for(c10::Device device) {
  const c10::DispatchKey backend = c10::computeDispatchKey(std::nullopt, at::kStrided, device);
  const auto keys = c10::DispatchKeySet(backend) | c10::DispatchKeySet(c10::DispatchKey::Fake);
  if (!has_meta_bit) return keys;
  // TensorImpl adds autocast's key of the highest backend alone, which is now the meta one.
  return keys | c10::DispatchKeySet(c10::BackendComponent::MetaBit) |
         c10::getAutocastRelatedKeySetFromBackend(c10::toBackendComponent(backend));
}

at::Tensor make_over(c10::Storage storage, c10::DispatchKeySet keys, at::ScalarType dtype) {
  return at::detail::make_tensor<Pooled<c10::TensorImpl>>(std::move(storage), keys, c10::scalarTypeToTypeMeta(dtype));
}

/// Makes plain integers of constant expressions: torch treats a tensor as symbolic if any size is an expression.
static Dims simplified(c10::SymIntArrayRef values) {
  Dims result;
  for (const c10::SymInt& value : values) result.push_back(shapes::simplified(value));
  return result;
}

static void set_symbolic(c10::TensorImpl* impl, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                         const c10::SymInt& offset) {
  const Dims plain_sizes = simplified(sizes), plain_strides = simplified(strides);
  const auto concrete_sizes = c10::asIntArrayRefSlowOpt(plain_sizes);
  const auto concrete_strides = c10::asIntArrayRefSlowOpt(plain_strides);
  const c10::SymInt plain_offset = shapes::simplified(offset);
  // An impl that was symbolic once takes no plain sizes any more.
  const bool is_plain = concrete_sizes && concrete_strides && !plain_offset.is_heap_allocated();
  if (is_plain && !impl->has_symbolic_sizes_strides()) {
    impl->set_sizes_and_strides(*concrete_sizes, *concrete_strides, plain_offset.as_int_unchecked());
  } else {
    impl->set_sizes_and_strides(plain_sizes, plain_strides, plain_offset);
  }
}

void set_geometry(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                  const c10::SymInt& offset) {
  auto* impl = tensor.unsafeGetTensorImpl();
  const auto concrete_sizes = c10::asIntArrayRefSlowOpt(sizes);
  const auto concrete_strides = c10::asIntArrayRefSlowOpt(strides);
  if (concrete_sizes && concrete_strides && !offset.is_heap_allocated() && !impl->has_symbolic_sizes_strides()) {
    impl->set_sizes_and_strides(*concrete_sizes, *concrete_strides, offset.as_int_unchecked());
  } else {
    set_symbolic(impl, sizes, strides, offset);
  }
}

namespace {

/// Adds an index to a device without one ("cuda"). Fakes have a full device, as real tensors do.
c10::Device full_device(c10::Device device) {
  if (device.has_index() || device.is_cpu() || device.is_meta()) return device;
  return c10::Device(device.type(), 0);
}

}  // namespace

at::Tensor make_fake(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype, c10::Device device) {
  device = full_device(device);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  at::Tensor fake = make_over(make_storage(static_cast<int64_t>(bytes), device), keys_for(device), dtype);
  fake.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return fake;
}

at::Tensor make_fake(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, at::ScalarType dtype, c10::Device device) {
  const auto concrete_sizes = c10::asIntArrayRefSlowOpt(sizes);
  const auto concrete_strides = c10::asIntArrayRefSlowOpt(strides);
  if (concrete_sizes && concrete_strides) return make_fake(*concrete_sizes, *concrete_strides, dtype, device);
  device = full_device(device);
  auto bytes =
      at::detail::computeStorageNbytes(sizes, strides, c10::SymInt(static_cast<int64_t>(c10::elementSize(dtype))));
  at::Tensor fake = make_over(make_storage(std::move(bytes), device), keys_for(device), dtype);
  set_symbolic(fake.unsafeGetTensorImpl(), sizes, strides, c10::SymInt(0));
  return fake;
}

at::Tensor make_contiguous(c10::SymIntArrayRef sizes, at::ScalarType dtype, c10::Device device) {
  if (const auto concrete = c10::asIntArrayRefSlowOpt(sizes)) return make_contiguous(*concrete, dtype, device);
  return make_fake(sizes, contiguous_strides(sizes), dtype, device);
}

at::Tensor make_contiguous(c10::IntArrayRef sizes, at::ScalarType dtype, c10::Device device) {
  for (const int64_t size : sizes) TORCH_CHECK(size >= 0, "negative dimension in ", sizes);
  return make_fake(sizes, contiguous_strides(sizes), dtype, device);
}

at::Tensor make_in_format(c10::SymIntArrayRef sizes, at::MemoryFormat format, at::ScalarType dtype,
                          c10::Device device) {
  return make_fake(sizes, format_strides(sizes, format), dtype, device);
}

at::Tensor make_view(const at::Tensor& base, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                     const c10::SymInt& offset, std::optional<at::ScalarType> dtype) {
  const auto type = dtype ? c10::scalarTypeToTypeMeta(*dtype) : base.dtype();
  // The VIEW constructor keeps the base's keys: a view of a normal tensor, made in inference mode, is a normal tensor.
  at::Tensor view = at::detail::make_tensor<Pooled<c10::TensorImpl>>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(), type);
  set_geometry(view, sizes, strides, offset);
  return view;
}

namespace {

bool is_zero(int64_t size) { return size == 0; }
/// Whether a symbolic size is known to be zero. If it is zero in a run only, the strides of the fake are not exact.
bool is_zero(const c10::SymInt& size) { return shapes::known(size.sym_eq(0)).value_or(false); }

template <class Int, class Vector>
Vector row_major(c10::ArrayRef<Int> sizes) {
  Vector strides(sizes.size(), Int(1));
  for (int64_t i = static_cast<int64_t>(sizes.size()) - 2; i >= 0; --i) {
    const Int& size = sizes[i + 1];
    // A dimension of size 0 counts as 1, so that no stride becomes zero.
    strides[i] = strides[i + 1] * (is_zero(size) ? Int(1) : size);
  }
  return strides;
}

}  // namespace

c10::DimVector contiguous_strides(c10::IntArrayRef sizes) { return row_major<int64_t, c10::DimVector>(sizes); }
Dims contiguous_strides(c10::SymIntArrayRef sizes) { return row_major<c10::SymInt, Dims>(sizes); }

Dims format_strides(c10::SymIntArrayRef sizes, at::MemoryFormat format) {
  if (format == at::MemoryFormat::Contiguous) return contiguous_strides(sizes);
  const size_t rank = format == at::MemoryFormat::ChannelsLast ? 4 : 5;
  TORCH_CHECK(format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d,
              "unsupported memory format ", format);
  TORCH_CHECK(sizes.size() == rank, "required rank ", rank, " tensor to use ", format, " format");
  Dims strides(rank);
  strides[1] = 1;
  c10::SymInt next = sizes[1];
  for (size_t i = rank - 1; i >= 2; --i) {
    strides[i] = next;
    next = next * sizes[i];
  }
  strides[0] = next;
  return strides;
}

Dims like_strides(const at::Tensor& like) {
  const auto strides = like.sym_strides();
  if (is_symbolic(like)) {
    return is_always_dense(like) ? Dims(strides.begin(), strides.end()) : dense_strides(like);
  }
  if (like.is_non_overlapping_and_dense()) return Dims(strides.begin(), strides.end());
  return dense_strides(like);
}

void resize_out(const at::Tensor& out, c10::SymIntArrayRef sizes, std::optional<c10::SymIntArrayRef> strides) {
  if (out.sym_sizes().equals(sizes)) return;
  const Dims row_major = strides ? Dims(strides->begin(), strides->end()) : contiguous_strides(sizes);
  auto* impl = out.unsafeGetTensorImpl();
  TORCH_CHECK(impl->allow_tensor_metadata_change(), "resize is not allowed on a tensor created from .data or detach");
  set_geometry(out, sizes, row_major, out.sym_storage_offset());
  const auto bytes = at::detail::computeStorageNbytes(
      sizes, row_major, c10::SymInt(static_cast<int64_t>(out.itemsize())), out.sym_storage_offset());
  auto* storage = out.storage().unsafeGetStorageImpl();
  if (storage->sym_nbytes() < bytes) storage->set_nbytes(bytes);
}

at::Tensor meta_twin(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
    refuse("torch's C++ shape function takes no symbolic sizes");
  at::Tensor twin = at::Tensor(at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type()));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) twin.unsafeGetTensorImpl()->set_wrapped_number(true);
  return twin;
}

at::Tensor from_meta(const at::Tensor& meta, c10::Device device) {
  if (!meta.defined()) return meta;
  return make_fake(meta.sym_sizes(), meta.sym_strides(), meta.scalar_type(), device);
}

MetaScope::MetaScope()
    : guard_(c10::DispatchKeySet(c10::DispatchKey::Fake) | c10::autograd_dispatch_keyset_with_ADInplaceOrView) {}

}  // namespace stator::fake
