#include "capture/interpreter/classes/abstract_classes.h"

#include <optional>
#include <unordered_set>

#include "capture/guards/literals.h"
#include "capture/interpreter/protocol/classes.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {
namespace {

/// The registry and caches of an abstract class: sets of weak references.
struct Dump {
  explicit Dump(PyTypeObject* abstract) {
    static PyObject* const get = known_object("_abc._get_dump");
    sets = Ref::steal(PyObject_CallOneArg(get, reinterpret_cast<PyObject*>(abstract)));
    if (!sets) throw Break{BreakId::raises, take_error_text()};
  }
  PyObject* registry() const { return PyTuple_GET_ITEM(sets.get(), 0); }
  std::optional<bool> known(PyTypeObject* cls) const {
    Ref weak = Ref::steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(cls), nullptr));
    auto has = [&](Py_ssize_t part) {
      return weak && PySet_Contains(PyTuple_GET_ITEM(sets.get(), part), weak.get()) == 1;
    };
    if (has(1)) return true;
    const bool is_current = PyLong_AsLongLong(PyTuple_GET_ITEM(sets.get(), 3)) == abc_token();
    if (is_current && has(2)) return false;
    return {};
  }
  Ref sets;
};

/// Whether a subclass check of the class, or of one that it consults in turn, would call code of the program.
bool asks_program(PyTypeObject* cls, std::unordered_set<PyTypeObject*>& seen) {
  static PyObject* const hook = PyUnicode_InternFromString("__subclasshook__");
  static PyObject* const check = PyUnicode_InternFromString("__subclasscheck__");
  static PyTypeObject* const abc_meta = reinterpret_cast<PyTypeObject*>(known_object("abc.ABCMeta"));
  static PyObject* const list = known_object("builtins.type.__subclasses__");
  if (!seen.insert(cls).second) return false;
  if (is_of_program(look_up(cls, hook)) || is_of_program(look_up(Py_TYPE(cls), check))) return true;
  if (!PyType_IsSubtype(Py_TYPE(cls), abc_meta)) return false;
  auto asks = [&](PyObject* other) {
    return PyType_Check(other) && asks_program(reinterpret_cast<PyTypeObject*>(other), seen);
  };
  const Dump dump(cls);
  const Ref registered = Ref::steal(PySequence_List(dump.registry()));
  const Ref below = Ref::steal(PyObject_CallOneArg(list, reinterpret_cast<PyObject*>(cls)));
  if (!registered || !below) throw Break{BreakId::raises, take_error_text()};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(registered.get()); ++i)
    if (asks(PyWeakref_GetObject(PyList_GET_ITEM(registered.get(), i)))) return true;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(below.get()); ++i)
    if (asks(PyList_GET_ITEM(below.get(), i))) return true;
  return false;
}

}  // namespace

bool is_abstract_subclass(Interpreter& in, PyTypeObject* cls, PyTypeObject* abstract) {
  // The caches look a class up by its hash.
  if (Py_TYPE(cls)->tp_hash != PyType_Type.tp_hash || Py_TYPE(cls)->tp_richcompare != PyType_Type.tp_richcompare)
    throw Break{BreakId::unknown_call, "an abstract class is asked for a class with a hash of its own"};
  in.guards.add(in.guards.sources().pinned(reinterpret_cast<PyObject*>(abstract), abstract->tp_name),
                FactKind::AbcToken, nullptr, abc_token());
  if (std::optional<bool> known = Dump(abstract).known(cls)) return *known;
  std::unordered_set<PyTypeObject*> seen;
  if (asks_program(abstract, seen))
    throw Break{BreakId::unknown_call, "an abstract class asks a __subclasshook__ of the program"};
  const int answer = PyObject_IsSubclass(reinterpret_cast<PyObject*>(cls), reinterpret_cast<PyObject*>(abstract));
  if (answer < 0) throw Break{BreakId::raises, take_error_text()};
  return answer == 1;
}

}  // namespace stator::capture
