// collections.deque: an instance whose built-in part is a list. Also heapq and bisect over lists.
#include <algorithm>

#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {
namespace {

/// Iterates over the live deque. As in CPython, advancing it after an item was added or removed raises; replacing an
/// item is allowed. The reverse iterator checks for its end before it checks for changes.
struct DequeIterator final : TypedIterator {
  SequenceValue* sequence;
  bool backwards;
  uint64_t moves;
  size_t left;
  explicit DequeIterator(SequenceValue* s, bool b, PyTypeObject* t)
      : TypedIterator(t), sequence(s), backwards(b), moves(s->moves), left(s->items.size()) {}
  Value* next(Interpreter& in) override {
    if (backwards && left == 0) return nullptr;
    if (sequence->moves != moves) {
      left = 0;
      in.raise(PyExc_RuntimeError, "deque mutated during iteration");
    }
    if (left == 0) return nullptr;
    --left;
    return in.item(sequence, backwards ? left : sequence->items.size() - 1 - left);
  }
};

PyObject* const kMaxlen = PyUnicode_InternFromString("maxlen");

struct Deque {
  Interpreter& in;
  ObjectValue* object;
  SequenceValue* list;

  Deque(Interpreter& i, CallArgs& args) : in(i), object(as<ObjectValue>(args.positional[0])) {
    list = object ? in.list_part(object) : nullptr;
    if (!list) throw Break{BreakId::unknown_call, "a deque method on an object that is not a deque"};
    for (size_t k = 0; list->external && k < list->items.size(); ++k) in.item(list, k);
  }
  std::vector<Value*>& items() { return list->items; }
  Py_ssize_t size() { return static_cast<Py_ssize_t>(list->items.size()); }
  Py_ssize_t limit() {
    Value* given = in.get_attr(object, kMaxlen);
    return in.is_same(given, in.none()) ? PY_SSIZE_T_MAX : index_of(in, given);
  }
  void push(Value* item) {
    items().push_back(item);
    if (size() > limit()) items().erase(items().begin());
  }
  void push_left(Value* item) {
    items().insert(items().begin(), item);
    if (size() > limit()) items().pop_back();
  }
  /// As `changed`, and invalidates iterators.
  Value* moved(const char* method, std::vector<Value*> arguments, Value* result = nullptr) {
    ++list->moves;
    return changed(method, std::move(arguments), result);
  }
  /// Logs the call as a side effect: the plan makes it on the real deque.
  Value* changed(const char* method, std::vector<Value*> arguments, Value* result = nullptr) {
    in.effects.note_change();
    if (object->source) in.replay_method(object, method, std::move(arguments));
    return result ? result : in.none();
  }
  Value* fresh(std::vector<Value*> with) {
    auto* made = in.arena.make<ObjectValue>(deque_type());
    made->base = in.list(std::move(with));
    made->attributes.push_back({Ref::borrow(kMaxlen), in.get_attr(object, kMaxlen)});
    return made;
  }
};

Value* make(Interpreter& in, CallArgs& args) {
  auto* made = in.arena.make<ObjectValue>(deque_type());
  Value *items = argument(args, 0, "iterable"), *limit = argument(args, 1, "maxlen");
  if (limit && !in.is_same(limit, in.none()) && index_of(in, limit) < 0)
    in.raise(PyExc_ValueError, "maxlen must be non-negative");
  made->base = in.list({});
  made->attributes.push_back({Ref::borrow(kMaxlen), limit ? limit : in.none()});
  CallArgs self = arguments({made});
  Deque deque(in, self);
  if (items)
    for (Value* item : in.unpack(items)) deque.push(item);
  return made;
}
Value* append(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  deque.push(args.positional[1]);
  return deque.moved("append", {args.positional[1]});
}
Value* append_left(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  deque.push_left(args.positional[1]);
  return deque.moved("appendleft", {args.positional[1]});
}
/// Adds items one by one: if the iterable raises, the items before stay.
void extend_by(Interpreter& in, CallArgs& args, const char* method, void (Deque::*push)(Value*)) {
  Deque deque(in, args);
  Value *more = args.positional[1], *itself = args.positional[0];
  Value* iterator = in.iterate(in.is_same(more, itself) ? in.list(deque.items()) : more);
  const bool keeps = deque.limit() > 0;
  while (Value* item = in.next(iterator)) {
    if (!keeps) continue;
    (deque.*push)(item);
    deque.moved(method, {item});
  }
}
Value* extend(Interpreter& in, CallArgs& args) {
  extend_by(in, args, "append", &Deque::push);
  return in.none();
}
Value* extend_left(Interpreter& in, CallArgs& args) {
  extend_by(in, args, "appendleft", &Deque::push_left);
  return in.none();
}
Value* take(Interpreter& in, CallArgs& args, bool left) {
  Deque deque(in, args);
  if (deque.size() == 0) in.raise(PyExc_IndexError, "pop from an empty deque");
  auto at = left ? deque.items().begin() : deque.items().end() - 1;
  Value* item = *at;
  deque.items().erase(at);
  return deque.moved(left ? "popleft" : "pop", {}, item);
}
Value* pop(Interpreter& in, CallArgs& args) { return take(in, args, false); }
Value* pop_left(Interpreter& in, CallArgs& args) { return take(in, args, true); }
Value* clear(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  if (deque.size() == 0) return in.none();
  deque.items().clear();
  return deque.moved("clear", {});
}
Value* reverse(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  std::reverse(deque.items().begin(), deque.items().end());
  return deque.changed("reverse", {});
}
Value* rotate(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  Py_ssize_t by = args.positional.size() > 1 ? index_of(in, args.positional[1]) : 1, size = deque.size();
  if (size > 1) {
    ++deque.list->moves;
    by = ((by % size) + size) % size;
    std::rotate(deque.items().begin(), deque.items().begin() + (size - by), deque.items().end());
  }
  return deque.changed("rotate", {in.integer(by)});
}
Value* insert(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  if (deque.size() >= deque.limit()) in.raise(PyExc_IndexError, "deque already at its maximum size");
  Py_ssize_t at = index_of(in, args.positional[1]);
  if (at < 0) at = std::max<Py_ssize_t>(0, at + deque.size());
  deque.items().insert(deque.items().begin() + std::min(at, deque.size()), args.positional[2]);
  return deque.moved("insert", {args.positional[1], args.positional[2]});
}
Value* remove(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  for (Py_ssize_t i = 0; i < deque.size(); ++i)
    if (same_or_equal(in, deque.items()[i], args.positional[1])) {
      deque.items().erase(deque.items().begin() + i);
      return deque.moved("__delitem__", {in.integer(i)});
    }
  throw Break{BreakId::raises, "deque.remove(x): x not in deque"};
}
Value* set_item(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  Py_ssize_t at = index_of(in, args.positional[1]);
  if (at < 0) at += deque.size();
  if (at < 0 || at >= deque.size()) in.raise(PyExc_IndexError, "deque index out of range");
  deque.items()[at] = args.positional[2];
  return deque.changed("__setitem__", {args.positional[1], args.positional[2]});
}
Value* del_item(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  Py_ssize_t at = index_of(in, args.positional[1]);
  if (at < 0) at += deque.size();
  if (at < 0 || at >= deque.size()) in.raise(PyExc_IndexError, "deque index out of range");
  deque.items().erase(deque.items().begin() + at);
  return deque.moved("__delitem__", {args.positional[1]});
}
Value* get_item(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  Py_ssize_t at = index_of(in, args.positional[1]);
  if (at < 0) at += deque.size();
  if (at < 0 || at >= deque.size()) in.raise(PyExc_IndexError, "deque index out of range");
  return deque.items()[at];
}
Value* length(Interpreter& in, CallArgs& args) { return in.integer(Deque(in, args).size()); }
Value* contains(Interpreter& in, CallArgs& args) {
  return in.boolean(in.contains(Deque(in, args).list, args.positional[1]));
}
Value* count(Interpreter& in, CallArgs& args) {
  return in.call_method(Deque(in, args).list, "count", {args.positional[1]});
}
Value* index(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  std::vector<Value*> rest(args.positional.begin() + 1, args.positional.end());
  if (!in.contains(deque.list, rest[0])) throw Break{BreakId::raises, "deque.index(x): x not in deque"};
  return in.call_method(deque.list, "index", rest);
}
Value* iterate(Interpreter& in, CallArgs& args, bool backwards) {
  Deque deque(in, args);
  auto* type = reinterpret_cast<PyTypeObject*>(
      known_object(backwards ? "_collections._deque_reverse_iterator" : "_collections._deque_iterator"));
  return in.arena.make<DequeIterator>(deque.list, backwards, type);
}
Value* forwards(Interpreter& in, CallArgs& args) { return iterate(in, args, false); }
Value* backwards(Interpreter& in, CallArgs& args) { return iterate(in, args, true); }
Value* copy(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  return deque.fresh(deque.items());
}
template <int op>
Value* compare(Interpreter& in, CallArgs& args) {
  CallArgs other = arguments({args.positional[1]});
  if (!PyType_IsSubtype(in.type_of(args.positional[1]), deque_type())) return in.constant(Py_NotImplemented);
  return in.compare(op, Deque(in, args).list, Deque(in, other).list);
}
Value* add(Interpreter& in, CallArgs& args) {
  Deque deque(in, args);
  if (in.type_of(args.positional[1]) != deque_type())
    throw Break{BreakId::raises, "a deque plus an object that is not a deque"};
  CallArgs other = arguments({args.positional[1]});
  Value* made = copy(in, args);
  CallArgs self = arguments({made});
  Deque sum(in, self);
  for (Value* item : Deque(in, other).items()) sum.push(item);
  return made;
}
Value* add_in_place(Interpreter& in, CallArgs& args) {
  extend(in, args);
  return args.positional[0];
}

// ---- heapq and bisect over lists of literals, by the real functions

Value* on_literals(Interpreter& in, CallArgs& args, const char* path) {
  bool is_list = !args.positional.empty() && PyType_IsSubtype(in.type_of(args.positional[0]), &PyList_Type);
  SequenceValue* list = is_list ? in.list_part(args.positional[0]) : nullptr;
  Ref real = list && list->kind == Kind::List ? in.literal_of(list) : Ref();
  CallArgs rest = args;
  if (!rest.positional.empty()) rest.positional.erase(rest.positional.begin());
  LiteralArgs literals = literal_args(in, rest);
  if (!real || !literals.positional)
    throw Break{BreakId::unknown_call, std::string(path) + " on items that are not literals"};
  Ref before = Ref::steal(PyList_GetSlice(real.get(), 0, PyList_GET_SIZE(real.get())));
  Ref all = Ref::steal(PyTuple_New(1 + PyTuple_GET_SIZE(literals.positional.get())));
  PyTuple_SET_ITEM(all.get(), 0, Ref(real).release());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(literals.positional.get()); ++i)
    PyTuple_SET_ITEM(all.get(), i + 1, Ref::borrow(PyTuple_GET_ITEM(literals.positional.get(), i)).release());
  Ref result = Ref::steal(PyObject_Call(known_object(path), all.get(), literals.keywords.get()));
  if (!result) {
    PyErr_Clear();
    throw Break{BreakId::raises, std::string(path) + " may raise after a partial change"};
  }
  // Compare by identity: equal items may have changed places.
  bool same = PyList_GET_SIZE(before.get()) == PyList_GET_SIZE(real.get());
  for (Py_ssize_t i = 0; same && i < PyList_GET_SIZE(real.get()); ++i)
    same = PyList_GET_ITEM(before.get(), i) == PyList_GET_ITEM(real.get(), i);
  if (!same) {
    list->items.clear();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(real.get()); ++i)
      list->items.push_back(in.wrap_result(PyList_GET_ITEM(real.get(), i)));
    in.mutated(list);
  }
  return in.wrap_result(result.get());
}
#define STATOR_ON_LITERALS(name, path) \
  Value* name(Interpreter& in, CallArgs& args) { return on_literals(in, args, path); }
STATOR_ON_LITERALS(heapify, "_heapq.heapify")
STATOR_ON_LITERALS(heappush, "_heapq.heappush")
STATOR_ON_LITERALS(heappop, "_heapq.heappop")
STATOR_ON_LITERALS(heappushpop, "_heapq.heappushpop")
STATOR_ON_LITERALS(heapreplace, "_heapq.heapreplace")
STATOR_ON_LITERALS(bisect_left, "_bisect.bisect_left")
STATOR_ON_LITERALS(bisect_right, "_bisect.bisect_right")
STATOR_ON_LITERALS(insort_left, "_bisect.insort_left")
STATOR_ON_LITERALS(insort_right, "_bisect.insort_right")
#undef STATOR_ON_LITERALS

constexpr ModelRow kRows[] = {
    {"collections.deque", make, 0, 2, "iterable maxlen"},
    {"collections.deque.append", append, 2, 2},
    {"collections.deque.appendleft", append_left, 2, 2},
    {"collections.deque.extend", extend, 2, 2},
    {"collections.deque.extendleft", extend_left, 2, 2},
    {"collections.deque.pop", pop, 1, 1},
    {"collections.deque.popleft", pop_left, 1, 1},
    {"collections.deque.clear", clear, 1, 1},
    {"collections.deque.reverse", reverse, 1, 1},
    {"collections.deque.rotate", rotate, 1, 2},
    {"collections.deque.insert", insert, 3, 3},
    {"collections.deque.remove", remove, 2, 2},
    {"collections.deque.copy", copy, 1, 1},
    {"collections.deque.__copy__", copy, 1, 1},
    {"collections.deque.count", count, 2, 2},
    {"collections.deque.index", index, 2, 4},
    {"collections.deque.__getitem__", get_item, 2, 2},
    {"collections.deque.__setitem__", set_item, 3, 3},
    {"collections.deque.__delitem__", del_item, 2, 2},
    {"collections.deque.__len__", length, 1, 1},
    {"collections.deque.__contains__", contains, 2, 2},
    {"collections.deque.__iter__", forwards, 1, 1},
    {"collections.deque.__reversed__", backwards, 1, 1},
    {"collections.deque.__add__", add, 2, 2},
    {"collections.deque.__iadd__", add_in_place, 2, 2},
    {"collections.deque.__eq__", compare<Py_EQ>, 2, 2},
    {"collections.deque.__ne__", compare<Py_NE>, 2, 2},
    {"collections.deque.__lt__", compare<Py_LT>, 2, 2},
    {"collections.deque.__gt__", compare<Py_GT>, 2, 2},
    {"_heapq.heapify", heapify, 1, 1},
    {"_heapq.heappush", heappush, 2, 2},
    {"_heapq.heappop", heappop, 1, 1},
    {"_heapq.heappushpop", heappushpop, 2, 2},
    {"_heapq.heapreplace", heapreplace, 2, 2},
    {"_bisect.bisect_left", bisect_left, 2, 4, "lo hi"},
    {"_bisect.bisect_right", bisect_right, 2, 4, "lo hi"},
    {"_bisect.insort_left", insort_left, 2, 4, "lo hi"},
    {"_bisect.insort_right", insort_right, 2, 4, "lo hi"},
};

}  // namespace

std::span<const ModelRow> deque_models() { return kRows; }

}  // namespace stator::capture
