// Iterators over sequences, dicts, ranges, tensors, and the iterator classes of builtins.
#include "capture/interpreter/iteration/iterators.h"

#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/torch/tensor_items.h"
#include "capture/pycompat/binary_ops.h"

namespace stator::capture {

Value* SequenceIterator::next(Interpreter& in) {
  if (done || index >= sequence->items.size()) {
    done = true;
    return nullptr;
  }
  return in.item(sequence, index++);
}
PyTypeObject* SequenceIterator::type() const {
  return sequence->kind == Kind::List ? &PyListIter_Type : &PyTupleIter_Type;
}

Value* ListedIterator::next(Interpreter&) { return index < items.size() ? items[index++] : nullptr; }

Value* LiteralIterator::next(Interpreter& in) {
  if (!real) return nullptr;
  Ref item = Ref::steal(PyIter_Next(real.get()));
  ++taken;
  if (item) return in.constant(std::move(item));
  real = Ref();
  return nullptr;
}

Value* ZipIterator::next(Interpreter& in) {
  auto uneven = [&](size_t argument, const char* how) {
    std::string others = argument == 1 ? "argument 1" : "arguments 1-" + std::to_string(argument);
    in.raise(PyExc_ValueError, "zip() argument " + std::to_string(argument + 1) + " is " + how + " than " + others);
  };
  std::vector<Value*> row;
  for (size_t i = 0; i < parts.size(); ++i) {
    Value* item = in.next(parts[i]);
    if (item) {
      row.push_back(item);
      continue;
    }
    if (strict && i > 0) uneven(i, "shorter");
    for (size_t k = 1; strict && k < parts.size(); ++k)
      if (in.next(parts[k])) uneven(k, "longer");
    return nullptr;
  }
  return parts.empty() ? nullptr : in.tuple(std::move(row));
}

Value* EnumerateIterator::next(Interpreter& in) {
  Value* item = in.next(inner);
  if (!item) return nullptr;
  Value* number = count;
  count = in.binary(pycompat::kAdd, count, in.integer(1));
  return in.tuple({number, item});
}

Value* MapIterator::next(Interpreter& in) {
  CallArgs args;
  for (Value* part : parts) {
    Value* item = in.next(part);
    if (!item) return nullptr;
    args.positional.push_back(item);
  }
  return in.call(function, std::move(args));
}

Value* FilterIterator::next(Interpreter& in) {
  while (Value* item = in.next(inner)) {
    if (in.is_same(function, in.none())) {
      if (in.truth(item)) return item;
      continue;
    }
    if (in.truth(in.call(function, arguments({item})))) return item;
  }
  return nullptr;
}

Value* DictIterator::next(Interpreter& in) {
  if (done) return nullptr;
  if (dict->live != live || dict->entries.size() != entries) {
    if (dict->live == live || dict->type == &PyODict_Type)
      throw Break{BreakId::raises, "a dict whose keys change while it is iterated"};
    in.raise(PyExc_RuntimeError, "dictionary changed size during iteration");
  }
  while (index < dict->entries.size()) {
    size_t at = reverse ? dict->entries.size() - 1 - index : index;
    ++index;
    if (!dict->entries[at].key) continue;
    Value* key = dict->entries[at].key;
    if (part == ViewValue::Part::Keys) return key;
    Value* value = in.entry_value(dict, at);
    return part == ViewValue::Part::Values ? value : in.tuple({key, value});
  }
  done = true;
  return nullptr;
}

Value* SetIterator::next(Interpreter& in) {
  if (done) return nullptr;
  if (set->version != version) {
    if (set_size(set) == items.size()) throw Break{BreakId::raises, "a set that changes while it is iterated"};
    in.raise(PyExc_RuntimeError, "Set changed size during iteration");
  }
  done = index >= items.size();
  return done ? nullptr : items[index++];
}

Value* CallIterator::next(Interpreter& in) {
  if (!function) return nullptr;
  try {
    Value* item = in.call(function, {});
    if (!same_or_equal(in, sentinel, item)) return item;
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_StopIteration)) throw;
  }
  function = nullptr;
  return nullptr;
}

Value* ItemIterator::next(Interpreter& in) {
  if (done || index < 0) return nullptr;
  try {
    Value* item = in.get_item(container, in.integer(index));
    index += step;
    return item;
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_IndexError) &&
        !is_exception(in, raised.exception, PyExc_StopIteration))
      throw;
    done = true;
    return nullptr;
  }
}

}  // namespace stator::capture
