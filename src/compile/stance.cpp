#include "compile/stance.h"

#include <iterator>

#include "capture/pycompat/facts.h"
#include "compile/compiled_function.h"
#include "compile/reports.h"

namespace stator {
using namespace capture;

namespace {

struct StanceRow {
  const char* name;
  RunMode mode;
};
// In the order of `Stance`.
constexpr StanceRow kStances[] = {
    {"default", RunMode::Compile},
    {"eager_then_compile", RunMode::Compile},
    {"force_eager", RunMode::Off},
    {"eager_on_recompile", RunMode::RunOnly},
    {"fail_on_recompile", RunMode::FailOnMiss},
};

Stance own = Stance::Default;

std::optional<Stance> stance_of(PyObject* name) {
  if (PyUnicode_Check(name))
    for (size_t i = 0; i < std::size(kStances); ++i)
      if (PyUnicode_CompareWithASCIIString(name, kStances[i].name) == 0) return static_cast<Stance>(i);
  // Its first run is for another compiler's choice of sizes.
  if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "aot_eager_then_compile") == 0)
    return Stance::Default;
  PyErr_Format(PyExc_RuntimeError, "there is no stance %R", name);
  return {};
}

/// A dict that is looked into again only when it has changed.
class WatchedDict {
 public:
  bool changed(PyObject* dict) {
    const uint64_t tag = stator_dict_tag(dict);
    return std::exchange(tag_, tag) != tag || tag == 0;
  }

 private:
  uint64_t tag_ = 0;
};

/// Torch keeps its own as a variable of a module, which is not imported for this.
std::optional<Stance> torch_stance() {
  static PyObject* const module_name = PyUnicode_InternFromString("torch._dynamo.eval_frame");
  static PyObject* const variable = PyUnicode_InternFromString("_stance");
  static WatchedDict modules, globals;
  static PyObject* dict = nullptr;  // of the module; owned
  static Stance known = Stance::Default;
  if (PyObject* loaded = PyImport_GetModuleDict(); modules.changed(loaded)) {
    PyObject* module = stator_dict_get_str(loaded, module_name);
    Py_XSETREF(dict, Py_XNewRef(module && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr));
    globals = {};
  }
  if (!dict) return Stance::Default;
  if (!globals.changed(dict)) return known;
  known = Stance::Default;
  PyObject* stance = stator_dict_get_str(dict, variable);
  Ref name = stance ? Ref::steal(PyObject_GetAttrString(stance, "stance")) : Ref();
  PyErr_Clear();
  if (!name) return known;
  std::optional<Stance> found = stance_of(name.get());
  if (!found) globals = {};
  return found ? known = *found : found;
}

std::optional<Stance> stance_now() { return own != Stance::Default ? own : torch_stance(); }

}  // namespace

int set_stance(PyObject* name) {
  std::optional<Stance> wanted = stance_of(name);
  return wanted ? static_cast<int>(std::exchange(own, *wanted)) : -1;
}

PyObject* stance_name(Stance stance) {
  static PyObject* names[std::size(kStances)];
  auto index = static_cast<size_t>(stance);
  if (!names[index]) names[index] = PyUnicode_InternFromString(kStances[index].name);
  return names[index];
}

std::optional<RunMode> mode_now() {
  std::optional<Stance> stance = stance_now();
  if (!stance) return {};
  const RunMode asked = run_mode(), stands = kStances[static_cast<size_t>(*stance)].mode;
  if (asked == RunMode::Off || stands == RunMode::Off) return RunMode::Off;
  return asked == RunMode::Compile ? stands : asked;
}

bool is_first_call(CodeCache& cache) {
  return stance_now() == Stance::EagerThenCompile && !std::exchange(cache.was_called, true) && cache.entries().empty();
}

void refuse_capture(CodeCache& cache, const Place& place, PyObject* cache_key) {
  PyCodeObject* code = cache.code();
  std::string message = "the stance fail_on_recompile forbids to capture " + text_of(code->co_qualname) + " (" +
                        text_of(code->co_filename) + ":" + std::to_string(code->co_firstlineno) + ")";
  std::vector<std::string> reasons = cache.failures(place.offset, cache_key, {place.values, place.function});
  message += reasons.empty() ? ", which was not captured before" : "; what was captured does not fit:";
  for (const std::string& reason : reasons) message += "\n  " + reason;
  Ref error = Ref::steal(PyObject_CallFunction(error_types().recompile_forbidden.get(), "s", message.c_str()));
  if (error) PyErr_SetObject(error_types().recompile_forbidden.get(), error.get());
}

}  // namespace stator
