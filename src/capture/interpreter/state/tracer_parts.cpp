// The part of TorchTracer that makes sub-graphs and the nodes that run them.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_set>

#include "capture/interpreter/state/tracer.h"
#include "capture/interpreter/state/tracer_impl.h"
#include "core/backend/join_gradients.h"
#include "core/backend/reference/reentrant_checkpoint.h"
#include "core/graph/aliasing.h"
#include "core/graph/control_ops.h"
#include "core/graph/graph.h"

namespace stator::capture {
namespace {

std::vector<at::Tensor> tensors_of(const std::vector<PyObject*>& objects) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(objects.size());
  for (PyObject* object : objects) tensors.push_back(THPVariable_Unpack(object));
  return tensors;
}

std::vector<at::Tensor> tensors_of(PyObject* tuple) {
  std::vector<at::Tensor> tensors;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    tensors.push_back(THPVariable_Unpack(PyTuple_GET_ITEM(tuple, i)));
  return tensors;
}

Ref tuple_of(const std::vector<at::Tensor>& tensors) {
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), THPVariable_Wrap(tensors[i]));
  return tuple;
}

}  // namespace

TorchTracer::Part TorchTracer::cut(size_t first, const std::vector<PyObject*>& outputs) {
  Part part;
  Ref done = run_on_fakes([&] {
    auto cut = impl_->tracer.cut(first, tensors_of(outputs));
    for (const at::Tensor& input : cut.inputs) part.inputs.push_back(Ref::steal(THPVariable_Wrap(input)));
    part.made = tuple_of(cut.made);
    const graph::Aliasing aliasing(*cut.graph);
    std::unordered_set<const void*> seen;
    for (size_t i = 0; i < cut.inputs.size(); ++i) {
      if (aliasing.is_written(cut.inputs[i])) part.written.push_back(part.inputs[i].get());
      seen.insert(graph::memory_of(cut.inputs[i]));
    }
    part.aliases = cut.made.size() != outputs.size();
    for (const at::Tensor& made : cut.made) part.aliases |= !seen.insert(graph::memory_of(made)).second;
    cut.graph->drop_fakes();
    part.graph = std::move(cut.graph);
    return Py_NewRef(Py_None);
  });
  if (!done) part.graph.reset();
  return part;
}

void TorchTracer::arrange_inputs(Part& part, const std::vector<PyObject*>& fakes) {
  std::vector<uint32_t> order;
  for (PyObject* fake : fakes) {
    auto found = std::find_if(part.inputs.begin(), part.inputs.end(), [&](const Ref& r) { return r.get() == fake; });
    const bool is_used = found != part.inputs.end();
    order.push_back(is_used ? static_cast<uint32_t>(found - part.inputs.begin()) : graph::Graph::kNoInput);
  }
  part.graph->arrange_inputs(order);
  part.inputs.clear();
  for (PyObject* fake : fakes) part.inputs.push_back(Ref::borrow(fake));
}

bool TorchTracer::add_control(graph::ControlOp op, const std::vector<ControlOperand>& operands, PyObject* results) {
  Ref done = run_on_fakes([&] {
    const auto& handle = graph::control_op(op);
    std::vector<graph::Argument> args;
    auto value = [&](PyObject* fake) { return impl_->tracer.operand(handle, THPVariable_Unpack(fake)); };
    for (const ControlOperand& operand : operands) {
      if (const auto* part = std::get_if<std::shared_ptr<graph::Graph>>(&operand)) {
        args.push_back(graph::Argument::of_graph(*part));
      } else if (const auto* fake = std::get_if<PyObject*>(&operand)) {
        args.push_back(value(*fake));
      } else if (const auto* fakes = std::get_if<std::vector<PyObject*>>(&operand)) {
        std::vector<graph::Argument> items;
        for (PyObject* item : *fakes) items.push_back(value(item));
        args.push_back(graph::Argument::of_list(std::move(items)));
      } else if (const auto* option = std::get_if<std::optional<bool>>(&operand)) {
        args.push_back(graph::Argument::of_constant(*option));
      } else if (const auto* text = std::get_if<std::optional<std::string>>(&operand)) {
        args.push_back(graph::Argument::of_constant(*text));
      } else {
        args.push_back(graph::Argument::of_constant(std::get<bool>(operand)));
      }
    }
    impl_->tracer.add_control(handle, std::move(args), tensors_of(results));
    return Py_NewRef(Py_None);
  });
  return static_cast<bool>(done);
}

Ref TorchTracer::join_gradients(graph::ControlOp op, PyObject* made, const std::vector<PyObject*>& operands) {
  return run_on_fakes(
      [&] { return tuple_of(backend::join_gradients(op, tensors_of(made), tensors_of(operands))).release(); });
}

bool TorchTracer::attach_checkpoint(PyObject* made, const std::vector<PyObject*>& arguments) {
  Ref done = run_on_fakes([&] {
    backend::attach_checkpoint(tensors_of(made), tensors_of(arguments), {}, nullptr, std::nullopt);
    return Py_NewRef(Py_None);
  });
  return static_cast<bool>(done);
}

Ref TorchTracer::stack_rows(const std::vector<PyObject*>& rows, PyObject* like) {
  return run_on_fakes([&] {
    const c10::SymInt length = THPVariable_Unpack(like).sym_size(0);
    std::vector<at::Tensor> stacked;
    for (const at::Tensor& row : tensors_of(rows)) {
      if (const auto count = length.maybe_as_int()) {
        stacked.push_back(at::stack(std::vector<at::Tensor>(static_cast<size_t>(*count), row)));
        continue;
      }
      // Rows in another layout may give a result in another one, too.
      if (!row.is_contiguous()) throw std::runtime_error("rows that are not contiguous, as many as a symbolic size");
      std::vector<c10::SymInt> sizes = row.sym_sizes().vec();
      sizes.insert(sizes.begin(), length);
      stacked.push_back(at::empty_symint(sizes, row.options()));
    }
    return tuple_of(stacked).release();
  });
}

}  // namespace stator::capture
