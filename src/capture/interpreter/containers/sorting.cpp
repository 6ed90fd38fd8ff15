#include "capture/interpreter/containers/sorting.h"

#include <algorithm>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/varying_numbers.h"

namespace stator::capture {
namespace {

/// The order that CPython's sort gives real keys. If a Python error is set: the order that it had reached.
std::vector<size_t> literal_order(PyObject* ranks, bool descending) {
  Ref range =
      Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "n", PyList_GET_SIZE(ranks)));
  Ref indices = Ref::steal(PySequence_List(range.get()));
  Ref key = Ref::steal(PyObject_GetAttrString(ranks, "__getitem__"));
  Ref sort = Ref::steal(PyObject_GetAttrString(indices.get(), "sort"));
  Ref none = Ref::steal(PyTuple_New(0)), options = Ref::steal(PyDict_New());
  PyDict_SetItemString(options.get(), "key", key.get());
  PyDict_SetItemString(options.get(), "reverse", descending ? Py_True : Py_False);
  Ref done = Ref::steal(PyObject_Call(sort.get(), none.get(), options.get()));
  std::vector<size_t> order;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(indices.get()); ++i)
    order.push_back(PyLong_AsSize_t(PyList_GET_ITEM(indices.get(), i)));
  return order;
}

using Ranked = std::pair<Value*, Value*>;  // rank, item

/// Sorts by `<` of the program, called in the same order as by CPython: counting a run, then binary insertion.
void sort_by_program(Interpreter& in, std::vector<Ranked>& items) {
  constexpr size_t kMergesFrom = 64;
  if (items.size() >= kMergesFrom) throw Break{BreakId::unknown_call, "a long sort by the program's own comparison"};
  auto less = [&](const Ranked& a, const Ranked& b) { return in.truth(in.compare(Py_LT, a.first, b.first)); };
  size_t run = std::min<size_t>(items.size(), 1);
  if (items.size() > 1) {
    bool descending = less(items[1], items[0]);
    for (run = 2; run < items.size() && less(items[run], items[run - 1]) == descending;) ++run;
    if (descending) std::reverse(items.begin(), items.begin() + static_cast<ptrdiff_t>(run));
  }
  for (; run < items.size(); ++run) {
    size_t left = 0, right = run;
    while (left < right) {
      size_t middle = left + (right - left) / 2;
      if (less(items[run], items[middle]))
        right = middle;
      else
        left = middle + 1;
    }
    std::rotate(items.begin() + static_cast<ptrdiff_t>(left), items.begin() + static_cast<ptrdiff_t>(run),
                items.begin() + static_cast<ptrdiff_t>(run) + 1);
  }
}

}  // namespace

void sort_list(Interpreter& in, SequenceValue* list, Value* key, Value* reverse) {
  constexpr size_t kFew = 8;
  std::vector<Ranked> ranked;
  bool keyed = key && !in.is_same(key, in.none());
  Ref ranks = Ref::steal(PyList_New(0));
  for (size_t i = 0; i < list->items.size(); ++i) {
    Value* item = in.item(list, i);
    Value* rank = keyed ? in.call(key, arguments({item})) : item;
    // A short list of symbolic ints is sorted by comparing them; each comparison becomes a guard.
    if (list->items.size() <= kFew && rank->kind == Kind::Constant && in.type_of(rank) == &PyLong_Type)
      rank = graph_number(in, rank);
    ranked.emplace_back(rank, item);
    Ref literal = ranks ? in.literal_of(ranked.back().first) : Ref();
    if (literal)
      PyList_Append(ranks.get(), literal.get());
    else
      ranks = Ref();
  }
  bool descending = reverse && in.truth(reverse);
  std::vector<Value*> sorted;
  if (ranks) {
    for (size_t index : literal_order(ranks.get(), descending)) sorted.push_back(ranked[index].second);
    list->items = std::move(sorted);
    if (PyErr_Occurred()) raise_current(in);
    return;
  }
  auto put = [&] {
    if (descending) std::reverse(ranked.begin(), ranked.end());
    for (auto& [rank, item] : ranked) sorted.push_back(item);
    list->items = std::move(sorted);
  };
  if (descending) std::reverse(ranked.begin(), ranked.end());
  try {
    sort_by_program(in, ranked);
  } catch (const Raise&) {
    put();
    throw;
  }
  put();
}

}  // namespace stator::capture
