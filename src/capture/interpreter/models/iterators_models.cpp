// Methods of generators and of the iterators of built-in classes.
#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/models.h"

namespace stator::capture {
namespace {

GeneratorValue* self_of(CallArgs& args) {
  auto* generator = dynamic_cast<GeneratorValue*>(args.positional[0]);
  if (!generator) throw Break{BreakId::unknown_call, "a method of an external generator"};
  return generator;
}

Value* item_or_stop(Interpreter& in, GeneratorValue* generator, Value* item) {
  if (item) return item;
  raise_stop_iteration(in, std::exchange(generator->result, nullptr));
}

Value* send(Interpreter& in, CallArgs& args) {
  GeneratorValue* generator = self_of(args);
  return item_or_stop(in, generator, generator->send(in, args.positional[1]));
}
Value* throw_in(Interpreter& in, CallArgs& args) {
  GeneratorValue* generator = self_of(args);
  Value* exception = args.positional[1];
  if (args.positional.size() > 2 && !in.is_same(args.positional[2], in.none())) {
    // The deprecated form: class, instance, traceback.
    exception = args.positional[2];
    if (!is_exception(in, exception, PyExc_BaseException))
      throw Break{BreakId::unknown_call, "generator.throw with a class and a value"};
  }
  PyObject* type = exception->kind == Kind::Constant ? in.constant_of(exception) : nullptr;
  if (type && PyExceptionClass_Check(type)) exception = in.call(exception, {});
  auto* object = as<ObjectValue>(exception);
  if (!object || object->object || !is_exception(in, exception, PyExc_BaseException))
    throw Break{BreakId::raises, "generator.throw of an object that is not an exception of the program"};
  object->raised = true;
  return item_or_stop(in, generator, generator->raise_inside(in, exception));
}
Value* close(Interpreter& in, CallArgs& args) {
  self_of(args)->close(in);
  return in.none();
}
Value* next(Interpreter& in, CallArgs& args) {
  if (args.positional[0]->kind != Kind::Iterator) throw Break{BreakId::unknown_call, "an external iterator"};
  if (Value* item = in.next(args.positional[0])) return item;
  auto* generator = dynamic_cast<GeneratorValue*>(args.positional[0]);
  raise_stop_iteration(in, generator ? std::exchange(generator->result, nullptr) : nullptr);
}
Value* itself(Interpreter&, CallArgs& args) { return args.positional[0]; }
Value* over_literal(Interpreter& in, CallArgs& args) {
  if (args.positional[0]->kind != Kind::Constant) throw Break{BreakId::unknown_object, "iteration over an instance"};
  return in.iterate(args.positional[0]);
}

#define STATOR_ITERATOR(path) \
  {path ".__next__", next, 1, 1}, { path ".__iter__", itself, 1, 1 }
constexpr ModelRow kRows[] = {
    {"builtins.str.__iter__", over_literal, 1, 1},
    {"builtins.bytes.__iter__", over_literal, 1, 1},
    {"builtins.range.__iter__", over_literal, 1, 1},
    {"types.GeneratorType.send", send, 2, 2},
    {"types.GeneratorType.throw", throw_in, 2, 4},
    {"types.GeneratorType.close", close, 1, 1},
    STATOR_ITERATOR("types.GeneratorType"),
    STATOR_ITERATOR("builtins.zip"),
    STATOR_ITERATOR("builtins.map"),
    STATOR_ITERATOR("builtins.filter"),
    STATOR_ITERATOR("builtins.enumerate"),
    STATOR_ITERATOR("builtins.reversed"),
    STATOR_ITERATOR("_collections_abc.list_iterator"),
    STATOR_ITERATOR("_collections_abc.tuple_iterator"),
    STATOR_ITERATOR("_collections_abc.str_iterator"),
    STATOR_ITERATOR("_collections_abc.range_iterator"),
    STATOR_ITERATOR("_collections_abc.set_iterator"),
    STATOR_ITERATOR("_collections_abc.dict_keyiterator"),
    STATOR_ITERATOR("_collections_abc.dict_valueiterator"),
    STATOR_ITERATOR("_collections_abc.dict_itemiterator"),
    STATOR_ITERATOR("itertools.chain"),
    STATOR_ITERATOR("itertools.count"),
    STATOR_ITERATOR("itertools.cycle"),
    STATOR_ITERATOR("itertools.repeat"),
    STATOR_ITERATOR("itertools.islice"),
};
#undef STATOR_ITERATOR

}  // namespace

std::span<const ModelRow> iterator_models() { return kRows; }

}  // namespace stator::capture
