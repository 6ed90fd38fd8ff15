// Models of torch functions that cannot simply be called on fakes.

#include <algorithm>
#include <optional>

#include "capture/guards/break_policy.h"
#include "capture/guards/literals.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/calls/allowed.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/assumptions.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/interpreter/torch/tensor_attributes.h"
#include "capture/interpreter/torch/tensor_data.h"
#include "capture/interpreter/torch/tensor_items.h"
#include "capture/pycompat/binary_ops.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

/// The name of the module whose code the frame runs.
std::string module_of(const Frame& frame) { return text_of(PyDict_GetItemString(frame.globals, "__name__"), ""); }

Value* is_true(Interpreter& in, CallArgs&) { return in.boolean(true); }
Value* is_false(Interpreter& in, CallArgs&) { return in.boolean(false); }
Value* is_none(Interpreter& in, CallArgs&) { return in.none(); }

/// `(device)`: makes a CUDA device the current one, unless the number is negative, and returns the one before. To
/// select the current device changes nothing; a graph cannot select another one.
Value* exchange_device(Interpreter& in, CallArgs& args) {
  CallArgs none;
  Value* current = in.call(in.constant(known_object("torch._C._cuda_getDevice")), none);
  Ref wanted = in.literal_of(args.positional[0]), before = in.literal_of(current);
  if (!wanted || !PyLong_CheckExact(wanted.get())) throw Break{BreakId::unknown_call, "a device that is not a number"};
  const long index = PyLong_AsLong(wanted.get());
  if (index < 0) return in.integer(-1);
  if (index != PyLong_AsLong(before.get())) throw Break{BreakId::unknown_call, "another CUDA device becomes current"};
  return current;
}

/// Constructors from literal data make the tensor now; each run of the graph gets a new copy.
void take_data_keyword(CallArgs& args) {
  if (!args.positional.empty() || !args.keyword("data")) return;
  args.positional.push_back(args.keyword("data"));
  std::erase_if(args.keywords,
                [](const auto& keyword) { return PyUnicode_CompareWithASCIIString(keyword.first.get(), "data") == 0; });
}

Value* tensor_from_data(Interpreter& in, CallArgs& args, const char* constructor) {
  if (args.positional.size() != 1) throw Break{BreakId::unknown_call, constructor};
  Ref data = in.literal_of(args.positional[0]);
  if (!data) throw Break{BreakId::unknown_call, std::string(constructor) + " of data that is not a literal"};
  Ref keywords = Ref::steal(PyDict_New());
  for (auto& [name, value] : args.keywords) {
    Ref literal = in.literal_of(value);
    if (!literal)
      throw Break{BreakId::unknown_call, std::string(constructor) + " with a keyword that is not a literal"};
    if (PyUnicode_CompareWithASCIIString(name.get(), "requires_grad") == 0 && PyObject_IsTrue(literal.get()))
      throw Break{BreakId::unknown_call, std::string(constructor) + " of a leaf that requires grad"};
    PyDict_SetItem(keywords.get(), name.get(), literal.get());
  }
  Ref arguments = Ref::steal(PyTuple_Pack(1, data.get()));
  Ref real = Ref::steal(PyObject_Call(known_object(constructor), arguments.get(), keywords.get()));
  if (!real) raise_current(in);
  in.torch.locate();
  Ref fake = in.torch.tracer.add_constant(real.get());
  if (!fake) throw Break{BreakId::no_shape_function, in.torch.tracer.failure()};
  return in.wrap_result(fake.get());
}

/// A tensor that shares the memory of an array, or (`copy`) copies it; other options are applied by `to`. Null if the
/// argument is not an array.
Value* tensor_from_array(Interpreter& in, CallArgs& args, bool copy) {
  Value* made = args.positional.size() == 1 ? tensor_of_data(in, args.positional[0], copy) : nullptr;
  if (!made || args.keywords.empty()) return made;
  CallArgs to = arguments({made});
  for (auto& keyword : args.keywords) {
    bool known = PyUnicode_CompareWithASCIIString(keyword.first.get(), "dtype") == 0 ||
                 PyUnicode_CompareWithASCIIString(keyword.first.get(), "device") == 0;
    if (!known) throw Break{BreakId::numpy, "a tensor made of an array with other options"};
    to.keywords.push_back(keyword);
  }
  return in.call_torch(known_object("torch._C.TensorBase.to"), to);
}

Value* tensor(Interpreter& in, CallArgs& args) {
  take_data_keyword(args);
  if (Value* made = tensor_from_array(in, args, true)) return made;
  if (Value* made = tensor_of_parts(in, args)) return made;
  return tensor_from_data(in, args, "torch.tensor");
}

/// torch.Tensor(...): from sizes, or from data with the default dtype.
Value* plain_tensor(Interpreter& in, CallArgs& args) {
  auto is_size = [&](Value* value) { return in.type_of(value) == &PyLong_Type; };
  if (std::all_of(args.positional.begin(), args.positional.end(), is_size))
    return in.call_torch(known_object("torch.empty"),
                         args.positional.empty() ? arguments({in.integer(0)}) : arguments(args.positional));
  bool is_list = args.positional[0]->kind == Kind::List || args.positional[0]->kind == Kind::Tuple;
  if (!is_list || !args.keywords.empty()) throw Break{BreakId::unknown_call, "an instance is made: Tensor"};
  return tensor_from_data(in, args, "torch.Tensor");
}

Value* as_tensor(Interpreter& in, CallArgs& args) {
  take_data_keyword(args);
  if (!args.positional.empty() && args.positional[0]->kind == Kind::Tensor) {
    if (args.count() == 1) return args.positional[0];
    CallArgs to;
    to.positional = {args.positional[0]};
    for (auto& keyword : args.keywords) to.keywords.push_back(keyword);
    return in.call_torch(known_object("torch._C.TensorBase.to"), to);
  }
  if (Value* made = tensor_from_array(in, args, false)) return made;
  if (Value* made = tensor_of_parts(in, args)) return made;
  return tensor_from_data(in, args, "torch.as_tensor");
}

Value* asarray(Interpreter& in, CallArgs& args) {
  if (Value* made = tensor_from_array(in, args, false)) return made;
  return tensor_from_data(in, args, "torch.asarray");
}

/// torch.Size(...) of literals and of numbers that depend on data.
Value* torch_size(Interpreter& in, CallArgs& args) {
  if (auto* sequence = args.positional.empty() ? nullptr : as_sequence(args.positional[0])) {
    std::vector<Value*> items;
    for (size_t i = 0; i < sequence->items.size(); ++i) {
      Value* item = in.item(sequence, i);
      items.push_back(item->kind == Kind::Constant && in.type_of(item) == &PyLong_Type ? graph_number(in, item) : item);
    }
    if (std::any_of(items.begin(), items.end(), is_symbolic_number)) return size_of_numbers(in, std::move(items));
  }
  auto is_known = [&](Value* value) { return static_cast<bool>(in.literal_of(value)); };
  if (std::all_of(args.positional.begin(), args.positional.end(), is_known))
    return call_literal(in, reinterpret_cast<PyObject*>(size_type()), args);
  return size_of_numbers(in, in.unpack(args.positional[0]));
}

/// Constant objects of torch made from literals: device, finfo, iinfo.
template <const char* const& path>
Value* torch_value(Interpreter& in, CallArgs& args) {
  return call_literal(in, known_object(path), args);
}
const char* const kDevice = "torch.device";
const char* const kFinfo = "torch.finfo";
const char* const kIinfo = "torch.iinfo";

Value* graph_break(Interpreter& in, CallArgs& args) {
  // Torch's own code calls graph_break where torch.compile needs it; Stator does not.
  if (module_of(*in.frames.current()).starts_with("torch.")) return in.none();
  // Graph breaks in an allowed function are ignored.
  if (is_within_allowed(in)) return in.none();
  Ref why = args.positional.empty() ? Ref() : in.literal_of(args.positional[0]);
  if (!why)
    if (Value* reason = args.keyword("reason")) why = in.literal_of(reason);
  throw Break{BreakId::user, text_of(why.get(), "")};
}

/// CPython runs the entire frame.
Value* skip_frame(Interpreter& in, CallArgs& args) {
  if (is_within_allowed(in)) return in.none();
  in.end.note_hopeless(in.frames);
  Ref why = args.positional.empty() ? Ref() : in.literal_of(args.positional[0]);
  const std::string text = text_of(why.get(), "");
  throw Break{BreakId::user, text.empty() ? "the program asked to skip the frame" : text};
}

/// What precedes it is captured; CPython runs the rest of the frame.
Value* step_unsupported(Interpreter& in, CallArgs& args) {
  if (is_within_allowed(in)) return in.none();
  throw Break{BreakId::skip_rest, ""};
}

/// RAII: nodes that are recorded belong to a call of a marked region, for backends that can share equal ones.
class MarkedRegion {
 public:
  explicit MarkedRegion(Interpreter& in)
      : in_(in), is_open_(in.options.for_python_backend && in.torch.tracer.open_region()) {}
  ~MarkedRegion() {
    if (is_open_) in_.torch.tracer.close_region();
  }
  MarkedRegion(const MarkedRegion&) = delete;
  MarkedRegion& operator=(const MarkedRegion&) = delete;

 private:
  Interpreter& in_;
  const bool is_open_;
};

/// What a function marked by `torch.compiler.nested_compile_region` calls: the function itself.
Value* marked_region(Interpreter& in, CallArgs& args) {
  Value* function = args.positional[0];
  args.positional.erase(args.positional.begin());
  const MarkedRegion region(in);
  return in.call(function, std::move(args));
}

/// Torch's own error_on_graph_break blocks. The policy to restore at their end is stored beside their own attribute.
/// That attribute is set so that their `__exit__`, if it runs as plain Python, does not change torch's setting.
PyObject* const* names_in_block() {
  static PyObject* const names[] = {PyUnicode_InternFromString("error_on_graph_break"),
                                    PyUnicode_InternFromString("prev_error_on_graph_break"),
                                    PyUnicode_InternFromString("stator_break_policies")};
  return names;
}
Value* break_block_enter(Interpreter& in, CallArgs& args) {
  Value* block = args.positional[0];
  PyObject* const* names = names_in_block();
  Value* policies = in.find_attr(block, names[2]);
  if (!policies) in.set_attr(block, names[2], policies = in.list({}));
  std::optional<bool>& policy = break_policy();
  in.call_method(policies, "append", {policy ? in.boolean(*policy) : in.none()});
  in.call_method(in.get_attr(block, names[1]), "append", {in.none()});
  policy = in.truth(in.get_attr(block, names[0]));
  return in.none();
}
Value* break_block_exit(Interpreter& in, CallArgs& args) {
  Value* block = args.positional[0];
  PyObject* const* names = names_in_block();
  Value* policies = in.find_attr(block, names[2]);
  if (!policies || in.length_of(policies).value_or(0) == 0) return nullptr;
  in.call_method(in.get_attr(block, names[1]), "pop", {});
  PyObject* before = in.constant_of(in.call_method(policies, "pop", {}));
  break_policy() = before == Py_None ? std::optional<bool>() : before == Py_True;
  return in.none();
}

/// Tensor methods in Python that only dispatch to an operator: they are called on fakes instead of being inlined.
Value* tensor_python_method(Interpreter& in, CallArgs& args, const char* path) {
  return in.call_torch(known_object(path), args);
}
TensorValue* given_tensor(const CallArgs& args, const char* what) {
  auto* tensor = as<TensorValue>(at_or_null(args, 0));
  if (!tensor) throw Break{BreakId::raises, std::string(what) + " of an object that is not a tensor"};
  return tensor;
}
Value* tensor_len(Interpreter& in, CallArgs& args) { return tensor_length(in, given_tensor(args, "len")); }
Value* item(Interpreter& in, CallArgs& args) { return tensor_number(in, given_tensor(args, "item")); }
template <const char* const& to>
Value* conversion(Interpreter& in, CallArgs& args) {
  return number_conversion(in, to, given_tensor(args, to));
}
const char* const kInt = "int";
const char* const kFloat = "float";
const char* const kBool = "bool";
/// Guards the symbolic sizes of inputs among those of the tensor to be at least 2. A smaller one becomes a constant.
void guard_large_sizes(Interpreter& in, TensorValue* tensor) {
  PyObject* fake = in.fake_of(tensor);
  Value* sizes = in.torch_result([&] { return PyObject_CallMethod(fake, "size", nullptr); }, "size");
  for (Value* size : in.unpack(sizes)) {
    Value* is_large = is_symbolic_number(size) ? number_result(in, "ge", size, in.integer(2)) : nullptr;
    if (is_large && is_symbolic_number(is_large) && number_truth(in, is_large) == false)
      needs_number(in, size, "is 0 or 1, and strides are asked for");
  }
}

/// Where a size is 0 or 1, strides follow other rules, so those of a tensor with such a symbolic size are not known.
Value* tensor_stride(Interpreter& in, CallArgs& args) {
  auto* tensor = as<TensorValue>(args.positional[0]);
  const bool has_symbols = tensor && TorchTracer::has_symbolic_sizes(in.fake_of(tensor));
  if (has_symbols && !TorchTracer::has_known_strides(in.fake_of(tensor))) {
    guard_large_sizes(in, tensor);
    if (!TorchTracer::has_known_strides(in.fake_of(tensor)))
      throw Break{BreakId::data_dependent, "the strides of a tensor whose size may be 0 or 1"};
  }
  return in.call_torch(known_object("torch._C.TensorBase.stride"), args);
}
Value* tensor_iter(Interpreter& in, CallArgs& args) { return tensor_iterator(in, given_tensor(args, "iter")); }
Value* tensor_split(Interpreter& in, CallArgs& args) { return tensor_python_method(in, args, "torch.Tensor.split"); }
Value* einsum(Interpreter& in, CallArgs& args) {
  // The Python wrapper only selects a contraction path if opt_einsum is installed, so it is called directly.
  return in.call_torch(known_object("torch.functional.einsum"), args);
}

/// Tensor.new_tensor: a constructor with the tensor's dtype and device, unless others are given.
Value* new_tensor(Interpreter& in, CallArgs& args) {
  CallArgs made = args;
  Value* self = args.positional[0];
  made.positional.erase(made.positional.begin());
  if (made.positional.size() != 1 || made.positional[0]->kind == Kind::Tensor)
    throw Break{BreakId::unknown_call, "Tensor.new_tensor"};
  for (const char* option : {"dtype", "device"}) {
    Ref name = Ref::steal(PyUnicode_InternFromString(option));
    if (!args.keyword(option)) made.keywords.emplace_back(name, in.get_attr(self, name.get()));
  }
  if (Value* joined = tensor_of_parts(in, made)) return joined;
  return tensor_from_data(in, made, "torch.tensor");
}
/// Tensor.new of sizes: as `new_empty`. Other arguments are data, or a tensor whose memory the result shares.
Value* new_of_sizes(Interpreter& in, CallArgs& args) {
  const std::vector<Value*> given(args.positional.begin() + 1, args.positional.end());
  const bool are_ints = std::ranges::all_of(given, [&](Value* size) { return in.type_of(size) == &PyLong_Type; });
  if (given.size() == 1 && in.type_of(given[0]) == size_type())
    return in.call_method(args.positional[0], "new_empty", given);
  if (given.empty() || !are_ints) throw Break{BreakId::tensor_internals, "Tensor.new: an old constructor"};
  return in.call_method(args.positional[0], "new_empty", {size_of_numbers(in, given)});
}
/// The sizes of one argument of `broadcast_shapes`; null for other objects.
std::optional<std::vector<Value*>> sizes_of_shape(Interpreter& in, Value* shape) {
  std::vector<Value*> sizes{shape};
  PyTypeObject* type = in.type_of(shape);
  if (type == &PyTuple_Type || type == &PyList_Type || type == size_type()) sizes = in.unpack(shape);
  const bool are_ints = std::ranges::all_of(sizes, [&](Value* size) { return in.type_of(size) == &PyLong_Type; });
  return are_ints ? std::optional(std::move(sizes)) : std::nullopt;
}
Value* broadcast_shapes(Interpreter& in, CallArgs& args) {
  std::vector<std::vector<Value*>> shapes;
  bool has_numbers = false;
  for (Value* shape : args.positional) {
    std::optional<std::vector<Value*>> sizes = sizes_of_shape(in, shape);
    if (!sizes) return call_literal(in, known_object("torch.functional.broadcast_shapes"), args);
    has_numbers = has_numbers || std::ranges::any_of(*sizes, is_symbolic_number);
    shapes.push_back(std::move(*sizes));
  }
  if (!has_numbers || !args.keywords.empty())
    return call_literal(in, known_object("torch.functional.broadcast_shapes"), args);
  auto* made = in.arena.make<SequenceValue>(Kind::Tuple, size_type());
  auto equals = [&](Value* a, Value* b) { return in.truth(in.compare(Py_EQ, a, b)); };
  for (const auto& shape : shapes) {
    if (shape.size() > made->items.size())
      made->items.insert(made->items.begin(), shape.size() - made->items.size(), in.integer(1));
    for (size_t i = 0; i < shape.size(); ++i) {
      Value *size = shape[i], *&joined = made->items[made->items.size() - shape.size() + i];
      if (equals(size, in.integer(1))) continue;
      if (in.truth(in.compare(Py_LT, size, in.integer(0))) || (!equals(joined, in.integer(1)) && !equals(joined, size)))
        throw Break{BreakId::raises, "broadcast_shapes of sizes that do not fit"};
      joined = size;
    }
  }
  return made;
}
/// torch.Size.numel
Value* size_numel(Interpreter& in, CallArgs& args) {
  auto* sequence = as_sequence(args.positional[0]);
  if (!sequence) return call_literal(in, known_object("torch.Size.numel"), args);
  Value* product = in.integer(1);
  for (size_t i = 0; i < sequence->items.size(); ++i)
    product = in.binary(pycompat::kMultiply, product, in.item(sequence, i));
  return product;
}

// torch._C._InferenceMode, which torch.inference_mode wraps. Its instances hold the thread's state.
Value* inference_block(Interpreter& in, CallArgs& args) {
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(known_object("torch._C._InferenceMode"));
  if (args.positional.size() != 1 || !args.keywords.empty() || !in.constant_of(args.positional[0]))
    throw Break{BreakId::unknown_call, "torch._C._InferenceMode"};
  auto* made = in.arena.make<ObjectValue>(type);
  made->attributes.push_back({Ref::steal(PyUnicode_InternFromString("mode")), args.positional[0]});
  made->step = in.frames.resumable_step();
  return made;
}
Value* inference_enter(Interpreter& in, CallArgs& args) {
  auto* block = as<ObjectValue>(args.positional.at(0));
  if (!block || block->object) throw Break{BreakId::unknown_call, "an external inference-mode block"};
  in.torch.tracer.enter_inference_mode(in.truth(block->attributes.at(0).value));
  return block;
}
Value* inference_exit(Interpreter& in, CallArgs& args) {
  auto* block = as<ObjectValue>(args.positional.at(0));
  if (!block || block->object) throw Break{BreakId::unknown_call, "an external inference-mode block"};
  in.torch.tracer.leave_inference_mode();
  return in.none();
}

/// torch._group_tensors_by_device_and_dtype: supports one group, whose device and dtype are those of the first list.
Value* group_tensors(Interpreter& in, CallArgs& args) {
  static PyObject* const names[] = {PyUnicode_InternFromString("device"), PyUnicode_InternFromString("dtype")};
  bool with_indices = in.truth(args.positional[1]);
  std::vector<Value*> lists = in.unpack(args.positional[0]), kinds, indices, grouped;
  if (lists.empty()) throw Break{BreakId::raises, "no lists of tensors to group"};
  for (Value* tensor : in.unpack(lists[0])) {
    if (tensor->kind != Kind::Tensor)
      throw Break{BreakId::unknown_call, "a group with an element that is not a tensor"};
    for (size_t i = 0; i < std::size(names); ++i) {
      Value* kind = in.get_attr(tensor, names[i]);
      if (kinds.size() <= i)
        kinds.push_back(kind);
      else if (!literal_equal(in.constant_of(kind), in.constant_of(kinds[i])))
        // The order of several groups is the iteration order of a hash table.
        throw Break{BreakId::unknown_call, "tensors of several devices or dtypes are grouped"};
    }
    if (with_indices) indices.push_back(in.integer(static_cast<int64_t>(indices.size())));
  }
  DictValue* groups = in.dict();
  if (kinds.empty()) return groups;
  for (Value* list : lists) grouped.push_back(in.list(in.unpack(list)));
  in.dict_set(groups, in.tuple(std::move(kinds)), in.tuple({in.list(std::move(grouped)), in.list(std::move(indices))}));
  return groups;
}

/// record_function.__enter__. The nodes of the block name the range, and a run opens it if a profiler records. If the
/// plan ends inside the range, the plan opens a real one.
Value* record_enter(Interpreter& in, CallArgs& args) {
  static PyObject* const record = PyUnicode_InternFromString("record");
  auto* made = in.arena.make<OpaqueValue>("a range of the profiler");
  made->callable = Ref::borrow(known_object("stator.functions.opened_range"));
  for (const char* name : {"name", "args"})
    made->arguments.push_back(in.get_attr(args.positional[0], Ref::steal(PyUnicode_InternFromString(name)).get()));
  PyObject* name = made->arguments[0]->kind == Kind::Constant ? in.constant_of(made->arguments[0]) : nullptr;
  const std::string text = text_of(name, "");
  if (name && PyUnicode_Check(name) && text != exact_text_of(name))
    throw Break{BreakId::raises, "a range of the profiler whose name is not valid UTF-8"};
  in.torch.tracer.open_range(text);
  in.set_attr(args.positional[0], record, made);
  return args.positional[0];
}
Value* record_exit(Interpreter& in, CallArgs& args) {
  static PyObject* const record = PyUnicode_InternFromString("record");
  static PyObject* const runs = PyUnicode_InternFromString("run_callbacks_on_exit");
  if (!in.truth(in.get_attr(args.positional[0], runs))) return in.none();
  Value* range = in.get_attr(args.positional[0], record);
  if (in.is_same(range, in.none())) in.raise(PyExc_AssertionError, "Expected record to be set");
  if (auto* opened = as<OpaqueValue>(range)) {
    // The block keeps the range, which is closed.
    in.torch.tracer.close_range();
    opened->callable = Ref::borrow(known_object("stator.functions.ended_range"));
  } else {
    auto* ended = in.arena.make<OpaqueValue>("nothing");
    ended->callable = Ref::borrow(known_object("stator.functions.end_range"));
    ended->arguments = {range};
    in.effects.add({EffectKind::Make, ended});
  }
  return in.none();
}

/// linspace and logspace: gradients do not flow to start and end tensors, because factories run below autograd.
Value* spaced(Interpreter& in, CallArgs& args, PyObject* callable) {
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  auto detach = [&](Value*& end) {
    if (end->kind == Kind::Tensor && !is_overridden(in, end) && in.truth(in.get_attr(end, requires_grad)))
      end = in.call_method(end, "detach", {});
  };
  for (Value*& end : args.positional) detach(end);
  for (auto& [name, value] : args.keywords)
    if (PyUnicode_CompareWithASCIIString(name.get(), "out") != 0) detach(value);
  return in.call_torch(callable, args);
}
Value* linspace(Interpreter& in, CallArgs& args) {
  static PyObject* const callable = known_object("torch.linspace");
  return spaced(in, args, callable);
}
Value* logspace(Interpreter& in, CallArgs& args) {
  static PyObject* const callable = known_object("torch.logspace");
  return spaced(in, args, callable);
}

/// Torch's binding takes a plain int; the operator takes a symbolic one.
Value* randperm(Interpreter& in, CallArgs& args) {
  static PyObject* const callable = known_object("torch.randperm");
  constexpr std::string_view kTaken[] = {"dtype", "layout", "device", "pin_memory"};
  const bool is_taken = args.positional.size() == 1 && in.torch.modes.empty() &&
                        std::ranges::all_of(args.keywords, [&](const auto& keyword) {
                          return std::ranges::find(kTaken, name_text(keyword.first.get())) != std::end(kTaken);
                        });
  Value* count = is_taken ? graph_number(in, args.positional[0]) : nullptr;
  if (!count || !is_symbolic_number(count)) return in.call_torch(callable, args);
  args.positional[0] = count;
  return in.call_torch(known_operator("randperm"), args);
}

/// True, except in torch's own modules, optimizers and transforms, which compute other results if it is true.
Value* is_compiling(Interpreter& in, CallArgs&) {
  const std::string caller = module_of(*in.frames.current());
  constexpr std::string_view kPlain[] = {"torch.optim.", "torch.nn.", "torch._functorch."};
  return in.boolean(std::none_of(std::begin(kPlain), std::end(kPlain), [&](auto s) { return caller.starts_with(s); }));
}

/// torch._check and similar functions. The real one imports torch's symbolic shapes.
Value* check_with(Interpreter& in, CallArgs& args) {
  Value* truth = args.positional[1];
  if (is_symbolic_number(truth) && in.type_of(truth) == &PyBool_Type) {
    const auto known = number_truth(in, truth);
    if (known == false) throw Break{BreakId::raises, "torch._check fails"};
    if (!known && !earlier_assumed(in, truth).value_or(false) && !assume(in, truth, true))
      needs_number(in, truth, "is checked where the graph must not fail");
    return in.none();
  }
  if (in.constant_of(args.positional[1]) != Py_True) throw Break{BreakId::raises, "torch._check fails"};
  return in.none();
}

/// torch._check_is_size(i, message=None, *, max=None). What torch's shape environment is told beside follows from it.
Value* check_is_size(Interpreter& in, CallArgs& args) {
  auto check = [&](int op, Value* bound) {
    CallArgs checked = arguments({in.none(), in.compare(op, args.positional[0], bound), in.none()});
    check_with(in, checked);
  };
  check(Py_GE, in.integer(0));
  if (Value* max = args.keyword("max"); max && !in.is_same(max, in.none())) check(Py_LE, max);
  return in.none();
}

enum class Setting : uint8_t { Dtype, Flash, Math, MemEfficient, CuDNN, Overrideable, Order };
constexpr const char* kSetters[] = {
    "torch._C._set_default_dtype",         "torch._C._set_sdp_use_flash", "torch._C._set_sdp_use_math",
    "torch._C._set_sdp_use_mem_efficient", "torch._C._set_sdp_use_cudnn", "torch._C._set_sdp_use_overrideable",
    "torch._C._set_sdp_priority_order",
};

/// A change of the default dtype without a node: operators are recorded with the dtypes that they give, and the plan
/// sets the dtype that holds at its end.
Value* set_dtype_by_operators(Interpreter& in, PyObject* set, CallArgs& args) {
  Ref value = in.literal_of(args.positional[0]);
  in.torch.tracer.fix_dtypes();
  if (!value || !Ref::steal(PyObject_CallOneArg(set, value.get()))) throw Break{BreakId::raises, take_error_text()};
  return in.none();
}

/// A change of a global setting of torch. It affects only later operators, so it is a node between them.
template <Setting kWhich>
Value* set_setting(Interpreter& in, CallArgs& args) {
  static PyObject* const set = known_object(kSetters[static_cast<size_t>(kWhich)]);
  // The compiler of a Python backend traces the graph again, and its operators run under any default dtype.
  if (kWhich == Setting::Dtype && in.options.for_python_backend) return set_dtype_by_operators(in, set, args);
  Ref module = Ref::steal(PyImport_ImportModule("stator.functions"));
  Ref maker = module ? Ref::steal(PyObject_GetAttrString(module.get(), "Setting")) : Ref();
  Ref value = in.literal_of(args.positional[0]);
  Ref node = maker && value ? Ref::steal(PyObject_CallFunctionObjArgs(maker.get(), set, value.get(), nullptr)) : Ref();
  Ref done = node ? Ref::steal(PyObject_CallOneArg(set, value.get())) : Ref(), nothing = Ref::steal(PyTuple_New(0));
  if (!done) throw Break{BreakId::raises, take_error_text()};
  in.torch.locate();
  if (!in.torch.tracer.add_call(node.get(), {}, nothing.get(), CallNode::Random))
    throw Break{BreakId::no_shape_function, in.torch.tracer.failure()};
  return in.none();
}

/// Whether the fake of an input begins where the input does.
bool has_offset_of_input(const TensorValue* input) {
  const Ref offset = Ref::steal(PyObject_CallMethod(input->fake.get(), "storage_offset", nullptr));
  PyErr_Clear();
  return offset && PyLong_CheckExact(offset.get()) &&
         PyLong_AsLongLong(offset.get()) == storage_offset_of(input->real.get());
}

/// Where an input begins: an int that is guarded, or an input of the graph if it varies.
Value* offset_of_input(Interpreter& in, const TensorValue* input) {
  const Ref offset = Ref::steal(PyLong_FromLongLong(storage_offset_of(input->real.get())));
  Source* source = in.guards.sources().child(input->source, SourceKind::StorageOffset, 0, nullptr, offset.get());
  return in.wrap(offset.get(), source);
}

/// Known for inputs and for their views, whose fakes count from the offsets of the inputs. What operators make begins
/// where its storage does.
Value* storage_offset(Interpreter& in, CallArgs& args) {
  auto* tensor = as<TensorValue>(args.positional[0]);
  if (!tensor || tensor->written || tensor->wrapped_at || in.frames.in_transform())
    throw Break{BreakId::data_exit, "the storage offset of a tensor"};
  PyObject* fake = in.fake_of(tensor);
  std::vector<TensorValue*> owners;
  for (TensorValue* input : in.torch.inputs) {
    if (is_number_input(*input) || !TorchTracer::share_storage(input->fake.get(), fake)) continue;
    if (input->layout || input->written || !has_offset_of_input(input))
      throw Break{BreakId::data_exit, "the storage offset of a tensor"};
    owners.push_back(input);
  }
  if (owners.size() == 1 && owners[0] == tensor) return offset_of_input(in, tensor);
  Value* offset =
      in.torch_result([&] { return PyObject_CallMethod(fake, "storage_offset", nullptr); }, "storage_offset");
  if (owners.size() == 1 && !in.torch.tracer.states_offsets()) {
    Value* start = in.integer(storage_offset_of(owners[0]->real.get()));
    return in.binary(pycompat::kAdd, offset_of_input(in, owners[0]), in.binary(pycompat::kSubtract, offset, start));
  }
  for (const TensorValue* owner : owners)
    in.guards.add(owner->source, FactKind::Offset, nullptr, storage_offset_of(owner->real.get()));
  return offset;
}

constexpr ModelRow kRows[] = {
    {"torch._C._cuda_exchangeDevice", exchange_device, 1, 1},
    {"torch._C._cuda_maybeExchangeDevice", exchange_device, 1, 1},
    {"torch.linspace", linspace, 0, ModelRow::kAny, "*"},
    {"torch.randperm", randperm, 0, ModelRow::kAny, "*"},
    {"torch.logspace", logspace, 0, ModelRow::kAny, "*"},
    {kSetters[0], set_setting<Setting::Dtype>, 1, 1},
    {kSetters[1], set_setting<Setting::Flash>, 1, 1},
    {kSetters[2], set_setting<Setting::Math>, 1, 1},
    {kSetters[3], set_setting<Setting::MemEfficient>, 1, 1},
    {kSetters[4], set_setting<Setting::CuDNN>, 1, 1},
    {kSetters[5], set_setting<Setting::Overrideable>, 1, 1},
    {kSetters[6], set_setting<Setting::Order>, 1, 1},
    {"torch._C.TensorBase.storage_offset", storage_offset, 1, 1},
    {"torch._C.TensorBase.stride", tensor_stride, 1, 2, "dim"},
    {"torch._C.TensorBase.item", item, 1, 1},
    {"torch._C.TensorBase.__int__", conversion<kInt>, 1, 1},
    {"torch._C.TensorBase.__float__", conversion<kFloat>, 1, 1},
    {"torch._C.TensorBase.__bool__", conversion<kBool>, 1, 1},
    {"torch._check_with", check_with, 3, 3},
    {"torch._check_is_size.__wrapped__", check_is_size, 1, 2, "message max"},
    // torch.compile, if it runs in the same process, tags new modules; those made in a capture are skipped.
    {"torch._dynamo.mutation_guard.GenerationTracker.tag.__func__", is_none, 0, ModelRow::kAny, "*"},
    {"torch.compiler.is_compiling", is_compiling, 0, ModelRow::kAny, "*"},
    {"torch.compiler.is_dynamo_compiling", is_true, 0, ModelRow::kAny, "*"},
    {"torch._utils.is_compiling", is_compiling, 0, ModelRow::kAny, "*"},
    {"torch._dynamo.external_utils.is_compiling", is_compiling, 0, ModelRow::kAny, "*"},
    {"stator.is_compiling", is_true, 0, ModelRow::kAny, "*"},
    {"stator.graph_break", graph_break, 0, ModelRow::kAny, "*"},
    {"torch._dynamo.decorators.graph_break", graph_break, 0, ModelRow::kAny, "*"},
    {"torch._dynamo.decorators.skip_frame", skip_frame, 0, ModelRow::kAny, "*"},
    {"torch._dynamo.decorators.step_unsupported", step_unsupported, 0, ModelRow::kAny, "*"},
    {"torch._higher_order_ops.invoke_subgraph.invoke_subgraph_placeholder", marked_region, 1, ModelRow::kAny, "*"},
    {"torch._dynamo.decorators.ErrorOnGraphBreakDecoratorContextManager.__enter__", break_block_enter, 1, 1},
    {"torch._dynamo.decorators.ErrorOnGraphBreakDecoratorContextManager.__exit__", break_block_exit, 4, 4},
    {"torch.compiler.is_exporting", is_false, 0, ModelRow::kAny, "*"},
    {"torch.jit._script.is_scripting", is_false, 0, ModelRow::kAny, "*"},
    {"torch._C._get_tracing_state", is_none, 0, ModelRow::kAny, "*"},
    {"torch._jit_internal.is_scripting", is_false, 0, ModelRow::kAny, "*"},
    {"torch.jit.is_tracing", is_false, 0, ModelRow::kAny, "*"},
    {"torch._C._is_tracing", is_false, 0, ModelRow::kAny, "*"},
    {"torch._C._log_api_usage_once", is_none, 0, ModelRow::kAny, "*"},
    {"torch._C._log_api_usage_metadata", is_none, 0, ModelRow::kAny, "*"},
    {"torch.tensor", tensor, 0, ModelRow::kAny, "*"},
    {"torch.Tensor", plain_tensor, 0, ModelRow::kAny},
    {"torch.as_tensor", as_tensor, 0, ModelRow::kAny, "*"},
    {"torch.asarray", asarray, 1, 1, "dtype device copy requires_grad"},
    {"torch.Size", torch_size, 0, 1},
    {"torch.Size.numel", size_numel, 1, 1},
    {"torch.device", torch_value<kDevice>, 0, ModelRow::kAny, "*"},
    {"torch.finfo", torch_value<kFinfo>, 0, ModelRow::kAny, "*"},
    {"torch.iinfo", torch_value<kIinfo>, 0, ModelRow::kAny, "*"},
    {"torch._C.TensorBase.requires_grad_", tensor_requires_grad, 0, ModelRow::kAny, "*"},
    {"torch._C.TensorBase.new", new_of_sizes, 1, ModelRow::kAny},
    {"torch._C.TensorBase.new_tensor", new_tensor, 2, 2, "dtype device requires_grad"},
    {"torch.functional.broadcast_shapes", broadcast_shapes},
    {"torch._C._group_tensors_by_device_and_dtype", group_tensors, 2, 2},
    {"torch.autograd.profiler.record_function.__enter__", record_enter, 1, 1},
    {"torch.autograd.profiler.record_function.__exit__", record_exit, 1, 4},
    {"torch._C._InferenceMode", inference_block, 0, ModelRow::kAny, "*"},
    {"torch._C._InferenceMode.__enter__", inference_enter, 0, ModelRow::kAny, "*"},
    {"torch._C._InferenceMode.__exit__", inference_exit, 0, ModelRow::kAny, "*"},
    {"torch.Tensor.__len__", tensor_len, 1, 1, "", true},
    {"torch.Tensor.__iter__", tensor_iter, 1, 1, "", true},
    {"torch.Tensor.split", tensor_split, 0, ModelRow::kAny, "*", true},
    {"torch.functional.einsum", einsum, 0, ModelRow::kAny, "*", true},
};

}  // namespace

std::span<const ModelRow> torch_models() { return kRows; }

}  // namespace stator::capture
