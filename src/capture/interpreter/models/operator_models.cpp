// The operator module.
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {
namespace {
using enum pycompat::BinaryOp;
using pycompat::Op;

template <int op>
Value* binary(Interpreter& in, CallArgs& args) {
  return in.binary(op, args.positional[0], args.positional[1]);
}
template <int op>
Value* compared(Interpreter& in, CallArgs& args) {
  return in.compare(op, args.positional[0], args.positional[1]);
}
template <Op op>
Value* unary(Interpreter& in, CallArgs& args) {
  return in.unary(op, args.positional[0]);
}
Value* get_item(Interpreter& in, CallArgs& args) { return in.get_item(args.positional[0], args.positional[1]); }
Value* set_item(Interpreter& in, CallArgs& args) {
  in.set_item(args.positional[0], args.positional[1], args.positional[2]);
  return in.none();
}
Value* del_item(Interpreter& in, CallArgs& args) {
  in.del_item(args.positional[0], args.positional[1]);
  return in.none();
}
Value* is_(Interpreter& in, CallArgs& args) { return in.boolean(in.is_same(args.positional[0], args.positional[1])); }
Value* is_not(Interpreter& in, CallArgs& args) {
  return in.boolean(!in.is_same(args.positional[0], args.positional[1]));
}
Value* contains(Interpreter& in, CallArgs& args) {
  return in.boolean(in.contains(args.positional[0], args.positional[1]));
}
Value* truth(Interpreter& in, CallArgs& args) { return in.boolean(in.truth(args.positional[0])); }
Value* not_(Interpreter& in, CallArgs& args) { return in.boolean(!in.truth(args.positional[0])); }
Value* count_of(Interpreter& in, CallArgs& args) {
  int64_t found = 0;
  for (Value* item : in.unpack(args.positional[0])) found += same_or_equal(in, item, args.positional[1]);
  return in.integer(found);
}
Value* index_in(Interpreter& in, CallArgs& args) {
  std::vector<Value*> items = in.unpack(args.positional[0]);
  for (size_t i = 0; i < items.size(); ++i)
    if (same_or_equal(in, items[i], args.positional[1])) return in.integer(static_cast<int64_t>(i));
  in.raise(PyExc_ValueError, "sequence.index(x): x not in sequence");
}
Value* call(Interpreter& in, CallArgs& args) {
  CallArgs rest = args;
  rest.positional.erase(rest.positional.begin());
  return in.call(args.positional[0], std::move(rest));
}

// ---- itemgetter, attrgetter, methodcaller: their arguments are stored as the instance's built-in part

PyTypeObject* class_of(const char* path) { return reinterpret_cast<PyTypeObject*>(known_object(path)); }

/// The arguments that an instance was made with. For an external one they come from `__reduce__`; they never change.
SequenceValue* made_with(Interpreter& in, Value* self, DictValue** keywords = nullptr) {
  auto* getter = as<ObjectValue>(self);
  if (!getter) throw Break{BreakId::unknown_call, "a getter of the operator module"};
  if (!getter->base) {
    in.guards.add(getter->source, FactKind::Identity, getter->object.get());
    Ref parts = Ref::steal(PyObject_CallMethod(getter->object.get(), "__reduce__", nullptr));
    PyObject* first = parts ? PyTuple_GET_ITEM(parts.get(), 0) : nullptr;
    if (!parts || first != reinterpret_cast<PyObject*>(getter->type))
      throw Break{BreakId::unknown_call, "a getter of the operator module"};
    getter->base = in.wrap_result(PyTuple_GET_ITEM(parts.get(), 1));
  }
  if (keywords) *keywords = getter->own;
  return as_sequence(getter->base);
}

const char* const kItemGetter = "operator.itemgetter";
const char* const kAttrGetter = "operator.attrgetter";
const char* const kMethodCaller = "operator.methodcaller";
template <const char* const& path>
Value* make_getter(Interpreter& in, CallArgs& args) {
  for (size_t i = 0; i < args.positional.size(); ++i) {
    const bool is_name = path == kAttrGetter || (path == kMethodCaller && i == 0);
    if (is_name && !PyType_IsSubtype(in.type_of(args.positional[i]), &PyUnicode_Type))
      in.raise(PyExc_TypeError,
               path == kAttrGetter ? "attribute name must be a string" : "method name must be a string");
  }
  auto* made = in.arena.make<ObjectValue>(class_of(path));
  made->base = in.tuple(args.positional);
  if (!args.keywords.empty()) {
    made->own = in.dict();
    for (auto& [name, value] : args.keywords) in.dict_set(made->own, in.constant(name), value);
  }
  return made;
}

Value* collect(Interpreter& in, std::vector<Value*> found) {
  return found.size() == 1 ? found[0] : in.tuple(std::move(found));
}
Value* call_item_getter(Interpreter& in, CallArgs& args) {
  std::vector<Value*> found;
  for (Value* key : in.unpack(made_with(in, args.positional[0]))) found.push_back(in.get_item(args.positional[1], key));
  return collect(in, std::move(found));
}
Value* dotted(Interpreter& in, Value* value, PyObject* path) {
  Ref dot = Ref::steal(PyUnicode_FromString(".")), parts = Ref::steal(PyUnicode_Split(path, dot.get(), -1));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts.get()); ++i) {
    PyObject* name = PyList_GET_ITEM(parts.get(), i);
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    Ref owned = Ref::steal(name);
    value = in.get_attr(value, name);
  }
  return value;
}
Value* call_attr_getter(Interpreter& in, CallArgs& args) {
  std::vector<Value*> found;
  for (Value* name : in.unpack(made_with(in, args.positional[0]))) {
    PyObject* path = in.constant_of(name);
    if (!path || !PyUnicode_Check(path)) throw Break{BreakId::raises, "attribute name must be a string"};
    found.push_back(dotted(in, args.positional[1], path));
  }
  return collect(in, std::move(found));
}
Value* call_method_caller(Interpreter& in, CallArgs& args) {
  DictValue* keywords = nullptr;
  std::vector<Value*> made = in.unpack(made_with(in, args.positional[0], &keywords));
  PyObject* name = made.empty() ? nullptr : in.constant_of(made[0]);
  if (!name || !PyUnicode_Check(name)) throw Break{BreakId::raises, "method name must be a string"};
  CallArgs rest = arguments({made.begin() + 1, made.end()});
  if (keywords)
    for (auto& [key, value] : mapping_items(in, keywords))
      rest.keywords.emplace_back(Ref::borrow(in.constant_of(key)), value);
  return in.call(in.get_attr(args.positional[1], name), std::move(rest));
}

constexpr ModelRow kRows[] = {
    {"_operator.add", binary<kAdd>, 2, 2},
    {"_operator.and_", binary<kAnd>, 2, 2},
    {"_operator.floordiv", binary<kFloorDivide>, 2, 2},
    {"_operator.lshift", binary<kLeftShift>, 2, 2},
    {"_operator.matmul", binary<kMatrixMultiply>, 2, 2},
    {"_operator.mul", binary<kMultiply>, 2, 2},
    {"_operator.mod", binary<kRemainder>, 2, 2},
    {"_operator.or_", binary<kOr>, 2, 2},
    {"_operator.pow", binary<kPower>, 2, 2},
    {"_operator.rshift", binary<kRightShift>, 2, 2},
    {"_operator.sub", binary<kSubtract>, 2, 2},
    {"_operator.truediv", binary<kTrueDivide>, 2, 2},
    {"_operator.xor", binary<kXor>, 2, 2},
    {"_operator.iadd", binary<kInPlace + kAdd>, 2, 2},
    {"_operator.iand", binary<kInPlace + kAnd>, 2, 2},
    {"_operator.ifloordiv", binary<kInPlace + kFloorDivide>, 2, 2},
    {"_operator.ilshift", binary<kInPlace + kLeftShift>, 2, 2},
    {"_operator.imatmul", binary<kInPlace + kMatrixMultiply>, 2, 2},
    {"_operator.imul", binary<kInPlace + kMultiply>, 2, 2},
    {"_operator.imod", binary<kInPlace + kRemainder>, 2, 2},
    {"_operator.ior", binary<kInPlace + kOr>, 2, 2},
    {"_operator.ipow", binary<kInPlace + kPower>, 2, 2},
    {"_operator.irshift", binary<kInPlace + kRightShift>, 2, 2},
    {"_operator.isub", binary<kInPlace + kSubtract>, 2, 2},
    {"_operator.itruediv", binary<kInPlace + kTrueDivide>, 2, 2},
    {"_operator.ixor", binary<kInPlace + kXor>, 2, 2},
    {"_operator.concat", binary<kAdd>, 2, 2},
    {"_operator.iconcat", binary<kInPlace + kAdd>, 2, 2},
    {"_operator.lt", compared<Py_LT>, 2, 2},
    {"_operator.le", compared<Py_LE>, 2, 2},
    {"_operator.eq", compared<Py_EQ>, 2, 2},
    {"_operator.ne", compared<Py_NE>, 2, 2},
    {"_operator.gt", compared<Py_GT>, 2, 2},
    {"_operator.ge", compared<Py_GE>, 2, 2},
    {"_operator.neg", unary<Op::UNARY_NEGATIVE>, 1, 1},
    {"_operator.pos", unary<Op::UNARY_POSITIVE>, 1, 1},
    {"_operator.invert", unary<Op::UNARY_INVERT>, 1, 1},
    {"_operator.inv", unary<Op::UNARY_INVERT>, 1, 1},
    {"_operator.getitem", get_item, 2, 2},
    {"_operator.setitem", set_item, 3, 3},
    {"_operator.delitem", del_item, 2, 2},
    {"_operator.is_", is_, 2, 2},
    {"_operator.is_not", is_not, 2, 2},
    {"_operator.contains", contains, 2, 2},
    {"_operator.truth", truth, 1, 1},
    {"_operator.not_", not_, 1, 1},
    {"_operator.countOf", count_of, 2, 2},
    {"_operator.indexOf", index_in, 2, 2},
    {"_operator.call", call, 1, ModelRow::kAny, "*"},
    {"operator.itemgetter", make_getter<kItemGetter>, 1},
    {"operator.attrgetter", make_getter<kAttrGetter>, 1},
    {"operator.methodcaller", make_getter<kMethodCaller>, 1, ModelRow::kAny, "*"},
    {"operator.itemgetter.__call__", call_item_getter, 2, 2},
    {"operator.attrgetter.__call__", call_attr_getter, 2, 2},
    {"operator.methodcaller.__call__", call_method_caller, 2, 2},
};

}  // namespace

std::span<const ModelRow> operator_models() { return kRows; }

}  // namespace stator::capture
