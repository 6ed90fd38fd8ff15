#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/iteration.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/binary_ops.h"

/// Models of the iterators of itertools. Each advances its inputs exactly when CPython's iterator does, because a
/// program sees how far its inputs were consumed.
namespace stator::capture {

/// Iterators of itertools classes, which a plan rebuilds from their remaining inputs.
struct LibraryIterator : TypedIterator {
  using TypedIterator::TypedIterator;

 protected:
  Rebuild again(std::vector<Value*> args, std::vector<std::pair<const char*, Value*>> keywords = {}, size_t taken = 0) {
    return {reinterpret_cast<PyObject*>(type_), std::move(args), std::move(keywords), taken};
  }
};

inline PyTypeObject* class_of(const char* path) { return reinterpret_cast<PyTypeObject*>(known_object(path)); }

inline bool predicate(Interpreter& in, Value* function, Value* item) {
  return in.truth(in.is_same(function, in.none()) ? item : in.call(function, arguments({item})));
}

/// `parts` iterates over iterables.
struct ChainIterator final : LibraryIterator {
  Value* parts;
  Value* current = nullptr;
  explicit ChainIterator(Value* p) : LibraryIterator(class_of("itertools.chain")), parts(p) {}
  Value* next(Interpreter& in) override {
    for (;;) {
      if (!current) {
        Value* part = parts ? in.next(parts) : nullptr;
        if (!part) return parts = nullptr;
        current = in.iterate(part);
      }
      if (Value* item = in.next(current)) return item;
      current = nullptr;
    }
  }
  Rebuild rebuild(Interpreter& in) override {
    Value* rest = parts ? parts : in.iterate(in.tuple({}));
    if (current) rest = in.arena.make<ChainIterator>(in.iterate(in.tuple({in.tuple({current}), rest})));
    static PyObject* const flat = known_object("itertools.chain.from_iterable");
    return {flat, {in.constant(reinterpret_cast<PyObject*>(type_)), rest}};
  }
};

struct CountIterator final : LibraryIterator {
  Value *current, *step;
  CountIterator(Value* c, Value* s) : LibraryIterator(class_of("itertools.count")), current(c), step(s) {}
  Value* next(Interpreter& in) override {
    Value* number = current;
    current = in.binary(pycompat::kAdd, current, step);
    return number;
  }
  Rebuild rebuild(Interpreter&) override { return again({current, step}); }
};

struct RepeatIterator final : LibraryIterator {
  Value* item;
  Py_ssize_t left;  // negative: without end
  RepeatIterator(Value* i, Py_ssize_t n) : LibraryIterator(class_of("itertools.repeat")), item(i), left(n) {}
  Value* next(Interpreter&) override {
    if (left == 0) return nullptr;
    if (left > 0) --left;
    return item;
  }
  Rebuild rebuild(Interpreter& in) override { return left < 0 ? again({item}) : again({item, in.integer(left)}); }
};

struct CycleIterator final : LibraryIterator {
  Value* inner;
  std::vector<Value*> seen;
  size_t index = 0;
  explicit CycleIterator(Value* i) : LibraryIterator(class_of("itertools.cycle")), inner(i) {}
  Value* next(Interpreter& in) override {
    if (inner) {
      if (Value* item = in.next(inner)) {
        seen.push_back(item);
        return item;
      }
      inner = nullptr;
    }
    if (seen.empty()) return nullptr;
    return seen[index++ % seen.size()];
  }
  Rebuild rebuild(Interpreter& in) override {
    if (!inner) return again({in.list(seen)}, {}, seen.empty() ? 0 : index % seen.size());
    if (seen.empty()) return again({inner});
    return again({in.arena.make<ChainIterator>(in.iterate(in.tuple({in.list(seen), inner})))}, {}, seen.size());
  }
};

struct SliceIterator final : LibraryIterator {
  Value* inner;
  Py_ssize_t at = 0, next_at, stop, step;  // stop: -1 without end
  SliceIterator(Value* i, Py_ssize_t first, Py_ssize_t last, Py_ssize_t by)
      : LibraryIterator(class_of("itertools.islice")), inner(i), next_at(first), stop(last), step(by) {}
  Value* next(Interpreter& in) override {
    while (inner && at < next_at) {
      if (!in.next(inner)) return inner = nullptr;
      ++at;
    }
    if (!inner || (stop >= 0 && at >= stop)) return inner = nullptr;
    Value* item = in.next(inner);
    if (!item) return inner = nullptr;
    ++at;
    Py_ssize_t ahead = step > PY_SSIZE_T_MAX - next_at ? PY_SSIZE_T_MAX : next_at + step;
    next_at = stop >= 0 && ahead > stop ? stop : ahead;
    return item;
  }
  Rebuild rebuild(Interpreter& in) override {
    if (!inner) return again({in.tuple({}), in.integer(0)});
    return again({inner, in.integer(next_at - at), stop < 0 ? in.none() : in.integer(stop - at), in.integer(step)});
  }
};

struct AccumulateIterator final : LibraryIterator {
  Value *inner, *function, *total;
  bool first;
  AccumulateIterator(Value* i, Value* f, Value* initial)
      : LibraryIterator(class_of("itertools.accumulate")), inner(i), function(f), total(initial), first(initial) {}
  Value* next(Interpreter& in) override {
    if (std::exchange(first, false)) return total;
    Value* item = in.next(inner);
    if (!item) return nullptr;
    if (!total)
      total = item;
    else
      total = function ? in.call(function, arguments({total, item})) : in.binary(pycompat::kAdd, total, item);
    return total;
  }
  Rebuild rebuild(Interpreter& in) override {
    Value* by = function ? function : in.none();
    return total ? again({inner, by}, {{"initial", total}}, first ? 0 : 1) : again({inner, by});
  }
};

struct TakeWhileIterator final : LibraryIterator {
  Value *function, *inner;
  TakeWhileIterator(Value* f, Value* i) : LibraryIterator(class_of("itertools.takewhile")), function(f), inner(i) {}
  Value* next(Interpreter& in) override {
    Value* item = inner ? in.next(inner) : nullptr;
    if (item && in.truth(in.call(function, arguments({item})))) return item;
    return inner = nullptr;
  }
  Rebuild rebuild(Interpreter& in) override { return again({function, inner ? inner : in.tuple({})}); }
};

struct DropWhileIterator final : LibraryIterator {
  Value *function, *inner;
  DropWhileIterator(Value* f, Value* i) : LibraryIterator(class_of("itertools.dropwhile")), function(f), inner(i) {}
  Value* next(Interpreter& in) override {
    while (Value* item = in.next(inner)) {
      if (function && in.truth(in.call(function, arguments({item})))) continue;
      function = nullptr;
      return item;
    }
    return nullptr;
  }
  Rebuild rebuild(Interpreter&) override { return function ? again({function, inner}) : Rebuild(); }
};

struct FilterFalseIterator final : LibraryIterator {
  Value *function, *inner;
  FilterFalseIterator(Value* f, Value* i) : LibraryIterator(class_of("itertools.filterfalse")), function(f), inner(i) {}
  Value* next(Interpreter& in) override {
    while (Value* item = in.next(inner))
      if (!predicate(in, function, item)) return item;
    return nullptr;
  }
  Rebuild rebuild(Interpreter&) override { return again({function, inner}); }
};

struct StarMapIterator final : LibraryIterator {
  Value *function, *inner;
  StarMapIterator(Value* f, Value* i) : LibraryIterator(class_of("itertools.starmap")), function(f), inner(i) {}
  Value* next(Interpreter& in) override {
    Value* row = in.next(inner);
    return row ? in.call(function, arguments(in.unpack(row))) : nullptr;
  }
  Rebuild rebuild(Interpreter&) override { return again({function, inner}); }
};

struct CompressIterator final : LibraryIterator {
  Value *data, *selectors;
  CompressIterator(Value* d, Value* s) : LibraryIterator(class_of("itertools.compress")), data(d), selectors(s) {}
  Value* next(Interpreter& in) override {
    for (;;) {
      Value* item = in.next(data);
      Value* selector = item ? in.next(selectors) : nullptr;
      if (!selector) return nullptr;
      if (in.truth(selector)) return item;
    }
  }
  Rebuild rebuild(Interpreter&) override { return again({data, selectors}); }
};

struct ZipLongestIterator final : LibraryIterator {
  std::vector<Value*> parts;  // null: ended
  Value* fill;
  size_t active;
  ZipLongestIterator(std::vector<Value*> p, Value* f)
      : LibraryIterator(class_of("itertools.zip_longest")), parts(std::move(p)), fill(f), active(parts.size()) {}
  Value* next(Interpreter& in) override {
    if (active == 0) return nullptr;
    std::vector<Value*> row;
    for (Value*& part : parts) {
      Value* item = part ? in.next(part) : nullptr;
      if (!item && part) {
        part = nullptr;
        if (--active == 0) return nullptr;
      }
      row.push_back(item ? item : fill);
    }
    return in.tuple(std::move(row));
  }
  Rebuild rebuild(Interpreter& in) override {
    std::vector<Value*> rest;
    if (active > 0)
      for (Value* part : parts) rest.push_back(part ? part : in.tuple({}));
    return again(std::move(rest), {{"fillvalue", fill}});
  }
};

struct PairwiseIterator final : LibraryIterator {
  Value *inner, *previous = nullptr;
  bool running = false;
  explicit PairwiseIterator(Value* i) : LibraryIterator(class_of("itertools.pairwise")), inner(i) {}
  Value* next(Interpreter& in) override {
    if (!inner) return nullptr;
    // The inner iterator may call this one recursively.
    if (std::exchange(running, true)) throw Break{BreakId::unknown_call, "an iterator that advances itself"};
    if (!previous) previous = in.next(inner);
    Value* item = previous ? in.next(inner) : nullptr;
    running = false;
    if (!item) return inner = nullptr;
    return in.tuple({std::exchange(previous, item), item});
  }
  Rebuild rebuild(Interpreter& in) override {
    if (!inner) return again({in.tuple({})});
    if (!previous) return again({inner});
    return again({in.arena.make<ChainIterator>(in.iterate(in.tuple({in.tuple({previous}), inner})))});
  }
};

struct BatchedIterator final : LibraryIterator {
  Value* inner;
  size_t size;
  BatchedIterator(Value* i, size_t n) : LibraryIterator(class_of("itertools.batched")), inner(i), size(n) {}
  Value* next(Interpreter& in) override {
    std::vector<Value*> row;
    while (row.size() < size)
      if (Value* item = in.next(inner))
        row.push_back(item);
      else
        break;
    return row.empty() ? nullptr : in.tuple(std::move(row));
  }
  Rebuild rebuild(Interpreter& in) override { return again({inner, in.integer(static_cast<int64_t>(size))}); }
};

/// State shared by the iterators of one `tee`.
struct TeeSource {
  Value* inner;
  std::deque<Value*> items;
};
struct TeeIterator final : TypedIterator {
  std::shared_ptr<TeeSource> shared;
  size_t index = 0;
  explicit TeeIterator(std::shared_ptr<TeeSource> s)
      : TypedIterator(class_of("itertools._tee")), shared(std::move(s)) {}
  Value* next(Interpreter& in) override {
    if (index == shared->items.size()) {
      Value* item = in.next(shared->inner);
      if (!item) return nullptr;
      shared->items.push_back(item);
    }
    return shared->items[index++];
  }
};

struct GroupByIterator final : TypedIterator {
  Value *inner, *function;
  Value *target = nullptr, *key = nullptr, *item = nullptr;
  size_t groups = 0;  // only the newest group gives more items
  GroupByIterator(Value* i, Value* f) : TypedIterator(class_of("itertools.groupby")), inner(i), function(f) {}
  bool step(Interpreter& in) {
    item = in.next(inner);
    if (!item) return false;
    key = function ? in.call(function, arguments({item})) : item;
    return true;
  }
  static bool same(Interpreter& in, Value* a, Value* b) { return same_or_equal(in, a, b); }
  Value* next(Interpreter& in) override;
};
struct GroupIterator final : TypedIterator {
  GroupByIterator* parent;
  Value* target;
  size_t number;
  GroupIterator(GroupByIterator* p, Value* t, size_t n)
      : TypedIterator(class_of("itertools._grouper")), parent(p), target(t), number(n) {}
  Value* next(Interpreter& in) override {
    if (parent->groups != number) return nullptr;
    if (!parent->item && !parent->step(in)) return nullptr;
    if (!GroupByIterator::same(in, target, parent->key)) return nullptr;
    return std::exchange(parent->item, nullptr);
  }
};
inline Value* GroupByIterator::next(Interpreter& in) {
  ++groups;
  for (;;) {
    if (key && !(target && same(in, target, key))) break;
    if (!step(in)) return nullptr;
  }
  target = key;
  return in.tuple({key, in.arena.make<GroupIterator>(this, key, groups)});
}

}  // namespace stator::capture
