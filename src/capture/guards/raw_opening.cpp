#include "capture/guards/raw_opening.h"

#include <algorithm>

#include "capture/guards/kinds.h"
#include "capture/pycompat/code.h"

namespace stator::capture {
namespace {

/// Index of the argument that is passed by this name, or -1.
int32_t index_of_keyword(const RawCall& call, PyObject* name) {
  for (size_t i = 0; i < call.name_count; ++i) {
    PyObject* given = call.names[i];
    if (given == name || PyUnicode_Compare(given, name) == 0) return static_cast<int32_t>(call.positional + i);
  }
  return -1;
}

bool is_fact(const Check& check, FactKind kind) {
  return check.group == CheckGroup::Fact && static_cast<FactKind>(check.kind) == kind;
}

/// Whether the number of arguments and their names decide this check of the *args tuple or the **kwargs dict.
bool follows_from_shape(const Check& check) {
  if (check.group != CheckGroup::Fact) return check.group != CheckGroup::Load;
  auto kind = static_cast<FactKind>(check.kind);
  return kind == FactKind::TypeIs || has_trait(kind, kDictContents);
}

}  // namespace

RawBinding::RawBinding(const RawCall& call, PyObject* function) {
  const pycompat::Code* code = pycompat::decode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)));
  parameters_ = code->argcount;
  int32_t total = parameters_ + code->kwonlyargcount;
  for (int32_t i = 0; i < total; ++i) {
    int32_t origin = i < parameters_ && static_cast<size_t>(i) < call.positional ? i : kDefault;
    if (origin == kDefault && i >= code->posonlyargcount)
      origin = index_of_keyword(call, PyTuple_GET_ITEM(code->localsplus_names, i));
    if (origin == kDefault) (i < parameters_ ? uses_defaults_ : uses_keyword_defaults_) = true;
    origins_.push_back(origin);
  }
  if (code->has_varargs()) origins_.push_back(kVarargs);
  if (code->has_varkeywords()) origins_.push_back(kVarkeywords);
}

void RawOpening::clear() {
  open_ = false;
  roots_.clear();
  tensors_.clear();
}

void RawOpening::record(const RawCall& call, const RawBinding& binding, Recorded recorded) {
  std::vector<const RootSlot*> containers;
  for (const RootSlot& root : recorded.roots) {
    int32_t origin = binding.origin(root.index);
    if (origin == RawBinding::kVarargs || origin == RawBinding::kVarkeywords)
      containers.push_back(&root);
    else if (origin == RawBinding::kDefault)
      roots_.push_back({root.slot, -1, recorded.slots[root.slot]});
    else
      roots_.push_back({root.slot, origin, root.wanted, root.is_row});
  }
  open_ = true;
  for (const RootSlot* container : containers) open_ = open_ && unpack(call, binding, *container, recorded);
  if (!open_)
    for (Check& check : recorded.rest) check.bound_only = false;
  positional_ = call.positional;
  names_ = Ref();
  if (call.name_count == 0) return;
  names_ = Ref::steal(PyTuple_New(call.name_count));
  if (!names_) return clear();
  for (size_t i = 0; i < call.name_count; ++i) PyTuple_SET_ITEM(names_.get(), i, Ref::borrow(call.names[i]).release());
}

bool RawOpening::unpack(const RawCall& call, const RawBinding& binding, const RootSlot& container, Recorded recorded) {
  const SlotInfo& info = recorded.info[container.slot];
  if (info.read || info.related || info.fixed) return false;
  bool is_dict = binding.origin(container.index) == RawBinding::kVarkeywords;
  std::vector<int32_t> filled;
  for (Check& check : recorded.rest) {
    if (check.group == CheckGroup::Load && check.from == container.slot) {
      auto kind = static_cast<SourceKind>(check.kind);
      int32_t index = -1;
      if (is_dict && kind == SourceKind::DictItem) index = index_of_keyword(call, check.object);
      if (!is_dict && kind == SourceKind::Item) index = binding.first_vararg() + check.count;
      if (index < 0) return false;
      roots_.push_back({check.slot, index, nullptr});
      filled.push_back(check.slot);
      check.bound_only = true;
    } else if (check.slot == container.slot) {
      if (!follows_from_shape(check)) return false;
      check.bound_only = true;
    } else if (is_fact(check, FactKind::Tensor) &&
               std::find(filled.begin(), filled.end(), check.slot) != filled.end()) {
      add_tensor(check.slot, *reinterpret_cast<const TensorExpectation*>(check.number));
      check.bound_only = true;
    }
  }
  return true;
}

bool RawOpening::fits(const RawCall& call) const {
  if (!open_ || call.positional != positional_) return false;
  size_t count = names_ ? PyTuple_GET_SIZE(names_.get()) : 0;
  if (call.name_count != count) return false;
  for (size_t i = 0; i < count; ++i)
    if (call.names[i] != PyTuple_GET_ITEM(names_.get(), i)) return false;
  return true;
}

bool RawOpening::begin(const RawCall& call, PyObject** slots) const {
  if (!fits(call)) return false;
  for (const RootSlot& root : roots_) {
    PyObject* seen = root.index < 0 ? root.wanted : call.args[root.index];
    if (root.wanted && seen != root.wanted) return false;
    slots[root.slot] = seen;
  }
  return tensors_.matches(slots);
}

}  // namespace stator::capture
