#include "bindings/symbol_bindings.h"

#include <torch/csrc/utils/pybind.h>

#include "core/shapes/node.h"

namespace pybind11::detail {

template <>
class type_caster<stator::shapes::EnvPtr>
    : public copyable_holder_caster<stator::shapes::ShapeEnv, stator::shapes::EnvPtr> {};

}  // namespace pybind11::detail

namespace stator::bindings {
namespace {

using namespace shapes;
using Class = py::class_<Node, c10::SymNodeImpl, c10::intrusive_ptr<Node>>;

py::object to_object(WideInt value) {
  if (fits_int64(value)) return py::int_(static_cast<int64_t>(value));
  auto high = py::int_(static_cast<int64_t>(value >> 64));
  auto low = py::int_(static_cast<uint64_t>(value));
  return (high << py::int_(64)) | low;
}

/// None if there is no value.
py::object to_object(const Value& value) {
  if (!value) return py::none();
  if (value.is_float()) return py::float_(value.real());
  return value.is_bool() ? py::object(py::bool_(value.truth())) : to_object(value.integer());
}

/// None for an end that is not bounded.
py::object bound_of(WideInt bound) {
  return bound <= -kInfinite || bound >= kInfinite ? py::object(py::none()) : to_object(bound);
}

py::object to_object(std::optional<bool> truth) {
  return truth ? py::object(py::bool_(*truth)) : py::object(py::none());
}

py::handle python_type(Type type) {
  if (type == Type::Int) return reinterpret_cast<PyObject*>(&PyLong_Type);
  return reinterpret_cast<PyObject*>(type == Type::Float ? &PyFloat_Type : &PyBool_Type);
}

/// A function of `stator.symbols`, which knows torch's environment and sympy.
py::object in_python(const char* name) { return py::module_::import("stator.symbols").attr(name); }

/// Functions of torch ask whether a node is of torch's class. If that is not imported, no code can ask.
py::object class_of(const py::object& node) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.fx.experimental.sym_node");
  if (module == nullptr || !py::hasattr(module, "SymNode")) return py::type::of(node);
  return py::reinterpret_borrow<py::object>(module).attr("SymNode");
}

/// (operator, operands, numbers, addend, value): what `Expression` says about the canonical forms. The value is that of
/// a constant, or the name of a symbol.
py::tuple parts_of(Node& node) {
  Ex expr = node.expr;
  py::list operands, numbers;
  for (uint32_t i = 0; i < expr->count; ++i) {
    operands.append(py::cast(to_node(expr->operands[i])));
    if (expr->numbers != nullptr) numbers.append(expr->numbers[i]);
  }
  py::object value = expr->op == Op::Symbol ? py::object(py::str(expr->symbol->name)) : to_object(expr->constant);
  return py::make_tuple(op_name(expr->op), std::move(operands), std::move(numbers), expr->addend, std::move(value));
}

void add_operators(Class& node) {
  static constexpr std::pair<const char*, Op> kUnary[] = {
      {"abs", Op::Abs},       {"trunc", Op::Trunc},   {"sym_sqrt", Op::Sqrt}, {"sym_cos", Op::Cos},
      {"sym_sin", Op::Sin},   {"sym_tan", Op::Tan},   {"sym_acos", Op::Acos}, {"sym_asin", Op::Asin},
      {"sym_atan", Op::Atan}, {"sym_cosh", Op::Cosh}, {"sym_sinh", Op::Sinh}, {"sym_tanh", Op::Tanh},
      {"sym_log2", Op::Log2}, {"sym_int", Op::ToInt},
  };
  static constexpr std::pair<const char*, Op> kBinary[] = {
      {"bitwise_and", Op::BitAnd},
      {"bitwise_or", Op::BitOr},
      {"bitwise_xor", Op::BitXor},
      {"lshift", Op::Shl},
      {"rshift", Op::Shr},
      {"and_", Op::And},
      {"or_", Op::Or},
  };
  for (const auto& [name, op] : kUnary) node.def(name, [op](Node& self) { return self.unary(op); });
  for (const auto& [name, op] : kBinary)
    node.def(name, [op](Node& self, const c10::SymNode& other) { return self.binary(op, other); });
  node.def("pos", [](Node& self) { return to_node(self.expr); })
      .def("is_integer", &Node::is_integer)
      .def(
          "round",
          [](Node& self, std::optional<int64_t> digits) {
            return digits ? self.round_digits(*digits) : self.unary(Op::Round);
          },
          py::arg("ndigits") = py::none())
      .def("sym_ite", [](Node& self, const c10::SymNode& a, const c10::SymNode& b) { return self.sym_ite(a, b); })
      .def("sym_sum", [](Node& self, const std::vector<c10::SymNode>& terms) { return self.sum(terms); })
      .def("statically_known_true",
           [](Node& self, const char* file, int64_t line) { return self.statically_known_true(file, line); });
}

void add_facts(Class& node) {
  node.def_property_readonly("_hint", [](Node& self) { return to_object(self.expr->hint); })
      .def_property_readonly("hint", [](Node& self) { return to_object(self.expr->hint); })
      .def_property_readonly("constant", [](Node& self) { return to_object(self.expr->constant); })
      .def_property_readonly("fx_node", [](Node&) { return py::none(); })
      .def_property_readonly(
          "pytype", [](Node& self) { return py::reinterpret_borrow<py::object>(python_type(self.expr->type)); })
      .def_property_readonly("expr", [](const py::object& self) { return in_python("expression_of")(self); })
      .def_property_readonly("_expr", [](const py::object& self) { return in_python("expression_of")(self); })
      .def_property_readonly("env", [](Node& self) { return EnvPtr(self.expr->env); })
      .def_property_readonly("shape_env",
                             [](const py::object& self) { return in_python("environment_of")(self.attr("env")); })
      .def_property_readonly("is_unbacked", [](Node& self) { return self.expr->has_unbacked; })
      .def_property_readonly("key", [](Node& self) { return reinterpret_cast<uintptr_t>(self.expr.get()); })
      .def_property_readonly("lowest", [](Node& self) { return bound_of(self.expr->symbol->range.low); })
      .def("parts", parts_of)
      .def("maybe_as_int", &Node::maybe_as_int)
      .def("maybe_as_float", [](Node& self) { return self.is_float() ? to_object(self.expr->constant) : py::none(); })
      .def("maybe_as_bool", &Node::constant_bool)
      .def("str", &Node::str)
      .def("__str__", &Node::str)
      .def("__repr__", &Node::str);
}

void add_environment(py::module_& module) {
  py::class_<ShapeEnv, EnvPtr>(module, "ShapeEnv", "The symbols, facts and guards of one trace.")
      .def_static(
          "make",
          [](bool duck_shaping, bool zero_one) {
            return ShapeEnv::make({duck_shaping, zero_one});
          },
          py::arg("duck_shaping") = true, py::arg("zero_one") = true)
      .def_property_readonly("key", [](ShapeEnv& self) { return reinterpret_cast<uintptr_t>(&self); })
      .def(
          "add_backed",
          [](ShapeEnv& self, int64_t hint, std::string source, bool shared) {
            return to_node(self.add_backed({.hint = hint, .source = std::move(source), .shared = shared}).expr);
          },
          py::arg("hint"), py::arg("source"), py::arg("shared") = true)
      .def("add_unbacked", [](ShapeEnv& self) { return to_node(self.add_unbacked(Type::Int)); })
      .def("add_unbacked_float", [](ShapeEnv& self) { return to_node(self.add_unbacked(Type::Float)); })
      .def("add_unbacked_bool", [](ShapeEnv& self) { return to_node(self.add_unbacked(Type::Bool)); })
      .def("zero", [](ShapeEnv& self) { return to_node(self.constant(int64_t{0})); })
      .def("symbols",
           [](ShapeEnv& self) {
             py::list nodes;
             for (const SymbolInfo* symbol : self.symbols()) nodes.append(py::cast(to_node(symbol->expr)));
             return nodes;
           })
      .def("simplify", [](ShapeEnv& self, Node& node) { return to_node(self.simplify(node.expr)); })
      .def("known", [](ShapeEnv& self, Node& node) { return to_object(self.known(node.expr)); })
      .def("decide", [](ShapeEnv& self, Node& node) { return to_object(self.decide(node.expr)); })
      .def("oblivious", [](ShapeEnv& self, Node& node) { return to_object(self.guard_size_oblivious(node.expr)); })
      .def("specialize", [](ShapeEnv& self, Node& node) { return to_object(self.specialize(node.expr)); })
      .def("assume", [](ShapeEnv& self, Node& node) { return self.assume(node.expr); })
      .def("range",
           [](ShapeEnv& self, Node& node) {
             const Range range = self.derived(node.expr).range;
             return py::make_tuple(bound_of(range.low), bound_of(range.high));
           })
      .def("guards",
           [](ShapeEnv& self) {
             py::list texts;
             for (const Guard& guard : self.guards()) texts.append(to_python(guard.truth));
             return texts;
           })
      .def("freeze", &ShapeEnv::freeze)
      .def_property_readonly("is_frozen", &ShapeEnv::is_frozen)
      .def("__eq__", [](ShapeEnv& self, ShapeEnv& other) { return self == other; })
      .def("__hash__", [](ShapeEnv& self) { return reinterpret_cast<uintptr_t>(&self) >> 4; })
      .def("__str__", &ShapeEnv::describe);
}

}  // namespace

bool add_symbol_bindings(PyObject* module) try {
  auto part = py::reinterpret_borrow<py::module_>(module).def_submodule("_symbols", "Symbolic numbers.");
  add_environment(part);
  Class node(part, "Node", "A symbolic number, as torch's SymInt, SymFloat and SymBool hold it.");
  add_operators(node);
  add_facts(node);
  // An assignment to `__class__` would change the class of the class.
  auto* type = reinterpret_cast<PyTypeObject*>(node.ptr());
  const py::object property = py::module_::import("builtins").attr("property")(py::cpp_function(class_of));
  if (PyDict_SetItemString(type->tp_dict, "__class__", property.ptr()) < 0) return false;
  PyType_Modified(type);
  return true;
} catch (const py::error_already_set& error) {
  py::error_already_set(error).restore();
  return false;
} catch (const std::exception& error) {
  PyErr_SetString(PyExc_ImportError, error.what());
  return false;
}

}  // namespace stator::bindings
