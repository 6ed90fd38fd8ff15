// Models of standard-library callables.
#include "capture/guards/literals.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/iterators.h"
#include "capture/interpreter/known_types.h"

namespace stator::capture {
namespace {

Value* at(const CallArgs& args, size_t index) {
  if (index >= args.positional.size()) throw Break{BreakId::raises, "called with too few arguments"};
  return args.positional[index];
}

Value* partial(Interpreter& in, CallArgs& args) {
  auto* made = in.arena.make<ObjectValue>(partial_type());
  Value* function = at(args, 0);
  static PyObject* const func = PyUnicode_InternFromString("func");
  static PyObject* const bound = PyUnicode_InternFromString("args");
  static PyObject* const keywords = PyUnicode_InternFromString("keywords");
  DictValue* named = in.dict();
  for (auto& [name, value] : args.keywords) in.dict_set(named, in.constant(name), value);
  made->attributes.push_back({Ref::borrow(func), function});
  made->attributes.push_back({Ref::borrow(bound), in.tuple({args.positional.begin() + 1, args.positional.end()})});
  made->attributes.push_back({Ref::borrow(keywords), named});
  return made;
}

Value* reduce(Interpreter& in, CallArgs& args) {
  Value* iterator = in.iterate(at(args, 1));
  Value* total = args.positional.size() > 2 ? args.positional[2] : in.next(iterator);
  if (!total) in.raise(PyExc_TypeError, "reduce() of empty iterable with no initial value");
  while (Value* item = in.next(iterator)) {
    CallArgs two;
    two.positional = {total, item};
    total = in.call(args.positional[0], std::move(two));
  }
  return total;
}

Value* chain(Interpreter& in, CallArgs& args) {
  return in.arena.make<ChainIterator>(in.iterate(in.tuple(args.positional)),
                                      reinterpret_cast<PyTypeObject*>(known_object("itertools.chain")));
}
Value* repeat(Interpreter& in, CallArgs& args) {
  PyObject* times = args.positional.size() > 1 ? in.constant_of(args.positional[1]) : nullptr;
  if (!times || !PyLong_Check(times)) throw Break{BreakId::unknown_call, "itertools.repeat without a count"};
  std::vector<Value*> items(std::max(0L, PyLong_AsLong(times)), args.positional[0]);
  return in.arena.make<ListedIterator>(std::move(items),
                                       reinterpret_cast<PyTypeObject*>(known_object("itertools.repeat")));
}
Value* count(Interpreter& in, CallArgs& args) {
  Value* start = args.positional.empty() ? in.integer(0) : args.positional[0];
  Value* step = args.positional.size() > 1 ? args.positional[1] : in.integer(1);
  return in.arena.make<CountIterator>(start, step, reinterpret_cast<PyTypeObject*>(known_object("itertools.count")));
}
Value* islice(Interpreter& in, CallArgs& args) {
  auto bound = [&](size_t i, Py_ssize_t fallback) {
    if (i >= args.positional.size() || in.is_same(args.positional[i], in.none())) return fallback;
    PyObject* number = in.constant_of(args.positional[i]);
    if (!number || !PyLong_Check(number)) throw Break{BreakId::unknown_call, "itertools.islice"};
    return PyLong_AsSsize_t(number);
  };
  bool only_stop = args.positional.size() == 2;
  Py_ssize_t start = only_stop ? 0 : bound(1, 0),
             stop = only_stop ? bound(1, PY_SSIZE_T_MAX) : bound(2, PY_SSIZE_T_MAX);
  Py_ssize_t step = bound(3, 1);
  Value* iterator = in.iterate(at(args, 0));
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < stop; ++i) {
    Value* item = in.next(iterator);
    if (!item) break;
    if (i >= start && (i - start) % step == 0) items.push_back(item);
  }
  return in.arena.make<ListedIterator>(std::move(items),
                                       reinterpret_cast<PyTypeObject*>(known_object("itertools.islice")));
}
Value* product(Interpreter& in, CallArgs& args) {
  if (!args.keywords.empty()) throw Break{BreakId::unknown_call, "itertools.product with repeat"};
  std::vector<std::vector<Value*>> rows{{}};
  for (Value* part : args.positional) {
    std::vector<Value*> items = in.unpack(part);
    std::vector<std::vector<Value*>> longer;
    for (auto& row : rows)
      for (Value* item : items) {
        longer.push_back(row);
        longer.back().push_back(item);
      }
    rows = std::move(longer);
  }
  std::vector<Value*> tuples;
  for (auto& row : rows) tuples.push_back(in.tuple(row));
  return in.arena.make<ListedIterator>(std::move(tuples),
                                       reinterpret_cast<PyTypeObject*>(known_object("itertools.product")));
}

template <int op>
Value* binary(Interpreter& in, CallArgs& args) {
  return in.binary(op, at(args, 0), at(args, 1));
}
template <int op>
Value* compared(Interpreter& in, CallArgs& args) {
  return in.compare(op, at(args, 0), at(args, 1));
}
Value* getitem(Interpreter& in, CallArgs& args) { return in.get_item(at(args, 0), at(args, 1)); }
Value* is_(Interpreter& in, CallArgs& args) { return in.boolean(in.is_same(at(args, 0), at(args, 1))); }
Value* is_not(Interpreter& in, CallArgs& args) { return in.boolean(!in.is_same(at(args, 0), at(args, 1))); }
Value* contains(Interpreter& in, CallArgs& args) { return in.boolean(in.contains(at(args, 0), at(args, 1))); }
Value* truth(Interpreter& in, CallArgs& args) { return in.boolean(in.truth(at(args, 0))); }
Value* not_(Interpreter& in, CallArgs& args) { return in.boolean(!in.truth(at(args, 0))); }
Value* negative(Interpreter& in, CallArgs& args) { return in.unary(pycompat::Op::UNARY_NEGATIVE, at(args, 0)); }

/// typing.cast and friends: the value as it is.
Value* second(Interpreter&, CallArgs& args) { return at(args, 1); }

/// A signature is a fact of the function's code and defaults, which are guarded.
Value* signature(Interpreter& in, CallArgs& args) {
  Value* target = at(args, 0);
  Value* function = target->kind == Kind::Method ? as<MethodValue>(target)->function : target;
  auto* known = as<FunctionValue>(function);
  if (!known || !known->function || args.count() != 1) throw Break{BreakId::unknown_call, "inspect.signature"};
  in.guard(known->source, FactKind::Identity, known->function.get());
  in.guard(known->source, FactKind::Code, PyFunction_GET_CODE(known->function.get()),
           reinterpret_cast<int64_t>(PyFunction_GET_GLOBALS(known->function.get())));
  Ref callable = known->function;
  if (target->kind == Kind::Method) callable = Ref::steal(PyMethod_New(known->function.get(), Py_None));
  Ref made = Ref::steal(PyObject_CallOneArg(known_object("inspect.signature"), callable.get()));
  if (!made) throw Break{BreakId::raises, take_error_text()};
  return in.wrap(made.get(), in.sources().pinned(made.get(), "signature"));
}

/// What a weak reference from outside refers to; whether it is gone is looked at again on each call.
Value* referent(Interpreter& in, CallArgs& args) {
  auto* reference = as<ObjectValue>(at(args, 0));
  if (!reference || !reference->object || args.count() != 1 || !PyWeakref_CheckRefExact(reference->object.get()))
    throw Break{BreakId::unknown_call, "a weak reference"};
  PyObject* object = PyWeakref_GET_OBJECT(reference->object.get());
  return in.wrap(object, in.sources().child(reference->source, SourceKind::Referent, 0, nullptr, object));
}

constexpr ModelRow kRows[] = {
    {"functools.partial", partial},    {"_functools.reduce", reduce},     {"functools.reduce", reduce},
    {"itertools.chain", chain},        {"itertools.repeat", repeat},      {"itertools.count", count},
    {"itertools.islice", islice},      {"itertools.product", product},    {"_operator.add", binary<0>},
    {"_operator.and_", binary<1>},     {"_operator.floordiv", binary<2>}, {"_operator.matmul", binary<4>},
    {"_operator.mul", binary<5>},      {"_operator.mod", binary<6>},      {"_operator.or_", binary<7>},
    {"_operator.pow", binary<8>},      {"_operator.sub", binary<10>},     {"_operator.truediv", binary<11>},
    {"_operator.xor", binary<12>},     {"_operator.iadd", binary<13>},    {"_operator.imul", binary<18>},
    {"_operator.isub", binary<23>},    {"_operator.lt", compared<Py_LT>}, {"_operator.le", compared<Py_LE>},
    {"_operator.eq", compared<Py_EQ>}, {"_operator.ne", compared<Py_NE>}, {"_operator.gt", compared<Py_GT>},
    {"_operator.ge", compared<Py_GE>}, {"_operator.getitem", getitem},    {"_operator.is_", is_},
    {"_operator.is_not", is_not},      {"_operator.contains", contains},  {"_operator.truth", truth},
    {"_operator.not_", not_},          {"_operator.neg", negative},       {"typing.cast", second},
    {"inspect.signature", signature},  {"weakref.ReferenceType.__call__", referent},
};

}  // namespace

std::span<const ModelRow> library_models() { return kRows; }

}  // namespace stator::capture
