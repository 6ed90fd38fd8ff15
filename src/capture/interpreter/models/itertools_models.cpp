// itertools: makes the iterators.
#include "capture/interpreter/models/itertools_iterators.h"
#include "capture/interpreter/protocol/models.h"

namespace stator::capture {
namespace {

Value* chain(Interpreter& in, CallArgs& args) {
  return in.arena.make<ChainIterator>(in.iterate(in.tuple(args.positional)));
}
Value* chain_from_iterable(Interpreter& in, CallArgs& args) {
  // A class method: the class is the first argument.
  return in.arena.make<ChainIterator>(in.iterate(args.positional.back()));
}
Value* count(Interpreter& in, CallArgs& args) {
  Value *start = argument(args, 0, "start"), *step = argument(args, 1, "step");
  PyObject *first = start ? in.constant_of(start) : nullptr, *by = step ? in.constant_of(step) : nullptr;
  for (PyObject* number : {first, by})
    if (number && !PyNumber_Check(number)) throw Break{BreakId::raises, "a number is required"};
  // With a step of 1, CPython converts a bool start to int.
  if (first && PyBool_Check(first) && (!by || (PyLong_Check(by) && PyLong_AsLong(by) == 1)))
    start = in.integer(first == Py_True);
  return in.arena.make<CountIterator>(start ? start : in.integer(0), step ? step : in.integer(1));
}
Value* repeat(Interpreter& in, CallArgs& args) {
  Value* times = argument(args, 1, "times");
  Py_ssize_t left = times ? std::max<Py_ssize_t>(0, index_of(in, times)) : -1;
  return in.arena.make<RepeatIterator>(args.positional[0], left);
}
Value* cycle(Interpreter& in, CallArgs& args) { return in.arena.make<CycleIterator>(in.iterate(args.positional[0])); }
Value* slice(Interpreter& in, CallArgs& args) {
  auto bound = [&](size_t i, Py_ssize_t fallback) {
    Value* value = at_or_null(args, i);
    if (!value || in.is_same(value, in.none())) return fallback;
    Py_ssize_t number = index_of(in, value);
    if (number < 0) throw Break{BreakId::raises, "a negative bound of islice"};
    return number;
  };
  bool only_stop = args.positional.size() == 2;
  Py_ssize_t start = only_stop ? 0 : bound(1, 0), stop = bound(only_stop ? 1 : 2, -1), step = bound(3, 1);
  if (step == 0) throw Break{BreakId::raises, "islice with a step of 0"};
  return in.arena.make<SliceIterator>(in.iterate(args.positional[0]), start, stop, step);
}
Value* accumulate(Interpreter& in, CallArgs& args) {
  Value *function = argument(args, 1, "func"), *initial = args.keyword("initial");
  if (function && in.is_same(function, in.none())) function = nullptr;
  if (initial && in.is_same(initial, in.none())) initial = nullptr;
  return in.arena.make<AccumulateIterator>(in.iterate(argument(args, 0, "iterable")), function, initial);
}
template <class T>
Value* by_function(Interpreter& in, CallArgs& args) {
  return in.arena.make<T>(args.positional[0], in.iterate(args.positional[1]));
}
Value* compress(Interpreter& in, CallArgs& args) {
  Value* data = in.iterate(argument(args, 0, "data"));
  return in.arena.make<CompressIterator>(data, in.iterate(argument(args, 1, "selectors")));
}
Value* zip_longest(Interpreter& in, CallArgs& args) {
  std::vector<Value*> parts;
  for (Value* part : args.positional) parts.push_back(in.iterate(part));
  Value* fill = args.keyword("fillvalue");
  return in.arena.make<ZipLongestIterator>(std::move(parts), fill ? fill : in.none());
}
Value* pairwise(Interpreter& in, CallArgs& args) {
  return in.arena.make<PairwiseIterator>(in.iterate(args.positional[0]));
}
Value* batched(Interpreter& in, CallArgs& args) {
  Py_ssize_t size = index_of(in, argument(args, 1, "n"));
  if (size < 1) in.raise(PyExc_ValueError, "n must be at least one");
  return in.arena.make<BatchedIterator>(in.iterate(argument(args, 0, "iterable")), static_cast<size_t>(size));
}
Value* tee(Interpreter& in, CallArgs& args) {
  Py_ssize_t copies = args.positional.size() > 1 ? index_of(in, args.positional[1]) : 2;
  if (copies < 0) in.raise(PyExc_ValueError, "n must be >= 0");
  auto shared = std::make_shared<TeeSource>(TeeSource{in.iterate(args.positional[0]), {}});
  std::vector<Value*> made;
  for (Py_ssize_t i = 0; i < copies; ++i) made.push_back(in.arena.make<TeeIterator>(shared));
  return in.tuple(std::move(made));
}
Value* group_by(Interpreter& in, CallArgs& args) {
  Value* function = argument(args, 1, "key");
  if (function && in.is_same(function, in.none())) function = nullptr;
  return in.arena.make<GroupByIterator>(in.iterate(argument(args, 0, "iterable")), function);
}

/// Combinations, permutations and products: the real class arranges positions, which are then mapped to items.
/// `option`: a keyword argument of the class, or null.
Value* arranged(Interpreter& in, const char* path, const std::vector<std::vector<Value*>>& pools,
                std::pair<const char*, Value*> option) {
  Ref arguments = Ref::steal(PyTuple_New(pools.size()));
  size_t first = 0;
  for (size_t i = 0; i < pools.size(); ++i) {
    Ref numbers = Ref::steal(PyTuple_New(pools[i].size()));
    for (size_t k = 0; k < pools[i].size(); ++k) PyTuple_SET_ITEM(numbers.get(), k, PyLong_FromSize_t(first + k));
    first += pools[i].size();
    PyTuple_SET_ITEM(arguments.get(), i, numbers.release());
  }
  std::vector<Value*> all;
  for (auto& pool : pools) all.insert(all.end(), pool.begin(), pool.end());
  auto [name, value] = option;
  Ref options = Ref::steal(PyDict_New());
  Ref literal = value ? in.literal_of(value) : Ref();
  if (value && !literal) throw Break{BreakId::unknown_call, std::string("itertools with an unknown ") + name};
  if (value) PyDict_SetItemString(options.get(), name, literal.get());
  Ref real = Ref::steal(PyObject_Call(known_object(path), arguments.get(), options.get()));
  if (!real) raise_current(in);
  constexpr size_t kLimit = 100000;
  std::vector<Value*> rows;
  while (Ref row = Ref::steal(PyIter_Next(real.get()))) {
    std::vector<Value*> items;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(row.get()); ++k)
      items.push_back(all[PyLong_AsSize_t(PyTuple_GET_ITEM(row.get(), k))]);
    rows.push_back(in.tuple(std::move(items)));
    if (rows.size() > kLimit) throw Break{BreakId::internal, "too many arrangements"};
  }
  Rebuild again{known_object(path)};
  for (auto& pool : pools) again.args.push_back(in.tuple(pool));
  if (value) again.keywords = {option};
  return in.arena.make<ListedIterator>(std::move(rows), class_of(path), std::move(again));
}
Value* product(Interpreter& in, CallArgs& args) {
  std::vector<std::vector<Value*>> pools;
  for (Value* part : args.positional) pools.push_back(unpack_hinted(in, part));
  return arranged(in, "itertools.product", pools, {"repeat", args.keyword("repeat")});
}
template <const char* const& path>
Value* arrangement(Interpreter& in, CallArgs& args) {
  Value* length = argument(args, 1, "r");
  return arranged(in, path, {unpack_hinted(in, argument(args, 0, "iterable"))}, {"r", length});
}
const char* const kPermutations = "itertools.permutations";
const char* const kCombinations = "itertools.combinations";
const char* const kWithReplacement = "itertools.combinations_with_replacement";

constexpr ModelRow kRows[] = {
    {"itertools.chain", chain},
    {"itertools.chain.from_iterable", chain_from_iterable, 1, 2},
    {"itertools.count", count, 0, 2, "start step"},
    {"itertools.repeat", repeat, 1, 2, "times"},
    {"itertools.cycle", cycle, 1, 1},
    {"itertools.islice", slice, 2, 4},
    {"itertools.accumulate", accumulate, 1, 2, "iterable func initial"},
    {"itertools.takewhile", by_function<TakeWhileIterator>, 2, 2},
    {"itertools.dropwhile", by_function<DropWhileIterator>, 2, 2},
    {"itertools.filterfalse", by_function<FilterFalseIterator>, 2, 2},
    {"itertools.starmap", by_function<StarMapIterator>, 2, 2},
    {"itertools.compress", compress, 2, 2, "data selectors"},
    {"itertools.zip_longest", zip_longest, 0, ModelRow::kAny, "fillvalue"},
    {"itertools.pairwise", pairwise, 1, 1},
    {"itertools.batched", batched, 2, 2, "iterable n"},
    {"itertools.tee", tee, 1, 2},
    {"itertools.groupby", group_by, 1, 2, "iterable key"},
    {"itertools.product", product, 0, ModelRow::kAny, "repeat"},
    {"itertools.permutations", arrangement<kPermutations>, 1, 2, "iterable r"},
    {"itertools.combinations", arrangement<kCombinations>, 2, 2, "iterable r"},
    {"itertools.combinations_with_replacement", arrangement<kWithReplacement>, 2, 2, "iterable r"},
};

}  // namespace

std::span<const ModelRow> itertools_models() { return kRows; }

}  // namespace stator::capture
