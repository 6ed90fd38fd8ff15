#include "capture/interpreter/protocol/exceptions.h"

#include <structmember.h>

#include <algorithm>
#include <unordered_set>

#include "capture/guards/literals.h"
#include "capture/interpreter/classes/classes.h"
#include "capture/interpreter/protocol/classes.h"
#include "capture/pycompat/text.h"
#include "core/base/check.h"

namespace stator::capture {
namespace {

PyTypeObject* base_exception() { return reinterpret_cast<PyTypeObject*>(PyExc_BaseException); }

SequenceValue* args_of(ObjectValue* exception) { return as_sequence(exception->base); }

bool is_name(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

/// Whether the class copies some of its args to fields, which keep their values when `args` is written.
bool derives_fields(PyTypeObject* type) {
  static PyObject* const known[] = {PyExc_StopIteration, PyExc_SystemExit,   PyExc_OSError,           PyExc_ImportError,
                                    PyExc_SyntaxError,   PyExc_UnicodeError, PyExc_BaseExceptionGroup};
  return std::any_of(std::begin(known), std::end(known),
                     [type](PyObject* cls) { return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(cls)); });
}

/// A field that the constructor of a built-in exception class sets from its args.
Value* field_of_args(Interpreter& in, ObjectValue* exception, PyObject* name) {
  if (!derives_fields(exception->type)) return nullptr;
  // An __init__ of the program may not have called the built-in one.
  if (exception->type->tp_init != native_base(exception->type)->tp_init)
    throw Break{BreakId::raises,
                std::string("a field of an exception with its own __init__: ") + exception->type->tp_name};
  auto& args = args_of(exception)->items;
  if (is_exception(in, exception, PyExc_StopIteration) && is_name(name, "value"))
    return args.empty() ? in.none() : args[0];
  if (is_exception(in, exception, PyExc_SystemExit) && is_name(name, "code"))
    return args.empty() ? in.none() : args.size() == 1 ? args[0] : exception->base;
  return nullptr;
}

}  // namespace

bool is_exception_class(PyTypeObject* type) { return PyType_IsSubtype(type, base_exception()); }

bool is_exception(Interpreter& in, Value* value, PyObject* type) {
  return PyType_IsSubtype(in.type_of(value), reinterpret_cast<PyTypeObject*>(type));
}

Value* attribute_or_null(Interpreter& in, Value* value, PyObject* name) {
  try {
    return in.find_attr(value, name);
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_AttributeError)) throw;
    return nullptr;
  }
}

ObjectValue* make_exception(Interpreter& in, PyTypeObject* type, std::vector<Value*> args) {
  auto* made = in.arena.make<ObjectValue>(type);
  made->base = in.tuple(std::move(args));
  return made;
}

ObjectValue* new_exception(Interpreter& in, PyTypeObject* type, const CallArgs& args) {
  static PyObject* const special[] = {PyExc_UnicodeEncodeError, PyExc_UnicodeDecodeError, PyExc_UnicodeTranslateError,
                                      PyExc_SyntaxError, PyExc_BaseExceptionGroup};
  for (PyObject* known : special)
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(known)))
      throw Break{BreakId::raises, std::string("an exception with fields of its own: ") + type->tp_name};
  // The constructor of OSError chooses a subclass by the error number.
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_OSError)) && args.positional.size() > 1)
    throw Break{BreakId::raises, "an OSError made from an error number"};
  return make_exception(in, type, args.positional);
}

bool is_exception_init(PyObject* callable) {
  static PyObject* const init = PyUnicode_InternFromString("__init__");
  if (Py_TYPE(callable) != &PyWrapperDescr_Type) return false;
  auto* descriptor = reinterpret_cast<PyDescrObject*>(callable);
  return is_exception_class(descriptor->d_type) && PyUnicode_Compare(descriptor->d_name, init) == 0;
}

ObjectValue* from_real_exception(Interpreter& in, PyObject* exception) {
  Ref args = Ref::steal(PyObject_GetAttrString(exception, "args"));
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; args && i < PyTuple_GET_SIZE(args.get()); ++i)
    items.push_back(in.wrap_result(PyTuple_GET_ITEM(args.get(), i)));
  ObjectValue* made = make_exception(in, Py_TYPE(exception), std::move(items));
  // Fields of C classes that are literals. Reading another one is a break.
  for (PyTypeObject* type = made->type; type && type != base_exception(); type = type->tp_base)
    for (const PyMemberDef* field = type->tp_members; field && field->name; ++field) {
      Ref value = Ref::steal(PyObject_GetAttrString(exception, field->name));
      PyErr_Clear();
      if (value && is_literal(value.get()))
        made->attributes.push_back(
            {Ref::steal(PyUnicode_InternFromString(field->name)), in.constant(std::move(value))});
    }
  return made;
}

Ref real_exception(Interpreter& in, ObjectValue* exception) {
  if (exception->object) return exception->object;
  Ref args = in.literal_of(exception->base);
  if (!args) return {};
  PyTypeObject* maker = exception->type;
  while (maker->tp_flags & Py_TPFLAGS_HEAPTYPE) maker = maker->tp_base;
  Ref made = Ref::steal(maker->tp_new(exception->type, args.get(), nullptr));
  // The text of some classes is made of fields that their constructor sets.
  const bool sets_fields = maker->tp_init != base_exception()->tp_init && exception->type->tp_init == maker->tp_init;
  if (made && sets_fields && maker->tp_init(made.get(), args.get(), nullptr) < 0) made = Ref();
  PyErr_Clear();
  return made;
}

Value* handled_exception(const Frame& frame) {
  for (const Frame* f = &frame; f; f = f->caller)
    if (f->handled) return f->handled;
  return nullptr;
}

/// Guards that the caller of the captured frame handles no exception. Breaks if it does.
static void require_idle_caller(Interpreter& in) {
  if (Ref::steal(PyErr_GetHandledException()))
    throw Break{BreakId::unknown_object, "the exception that a caller is handling"};
  in.guards.add(in.guards.sources().pinned(Py_None, "the caller"), FactKind::NothingHandled);
}

Value* visible_exception(Interpreter& in) {
  Value* handled = handled_exception(*in.frames.current());
  if (!handled) require_idle_caller(in);
  return handled;
}

Value* unseen_traceback(Interpreter& in) { return in.arena.make<ObjectValue>(&PyTraceBack_Type); }

void raise_exception(Interpreter& in, Value* exception, Value* cause) {
  auto instance = [&](Value* given) {
    PyObject* type = given->kind == Kind::Constant ? in.constant_of(given) : nullptr;
    Value* made = type && PyExceptionClass_Check(type) ? in.call(given, {}) : given;
    return is_exception(in, made, PyExc_BaseException) ? made : nullptr;
  };
  exception = instance(exception);
  if (!exception) in.raise(PyExc_TypeError, "exceptions must derive from BaseException");
  auto* object = as<ObjectValue>(exception);
  if (!object || object->object) throw Break{BreakId::raises, "an exception from outside is raised"};
  if (cause) {
    bool none = in.is_same(cause, in.none());
    object->cause = none ? in.none() : instance(cause);
    if (!object->cause) in.raise(PyExc_TypeError, "exception causes must derive from BaseException");
    object->suppress_context = true;
  }
  Value* handled = handled_exception(*in.frames.current());
  if (handled && handled != exception) {
    // As CPython does: cut the chain of contexts where it would lead back to this exception. The program may have made
    // other cycles.
    std::unordered_set<Value*> seen;
    for (auto* link = as<ObjectValue>(handled); link && seen.insert(link).second; link = as<ObjectValue>(link->context))
      if (link->context == exception) {
        link->context = nullptr;
        break;
      }
    object->context = handled;
  }
  object->raised = true;
  std::erase_if(object->attributes, [](auto& written) { return is_name(written.name.get(), "__traceback__"); });
  throw Raise{exception};
}

Value* exception_field(Interpreter& in, ObjectValue* exception, PyObject* name) {
  if (exception->object) return nullptr;
  if (is_name(name, "args")) return exception->base;
  if (is_name(name, "__cause__")) return exception->cause ? exception->cause : in.none();
  if (is_name(name, "__context__")) {
    if (!exception->context && exception->raised) require_idle_caller(in);
    return exception->context ? exception->context : in.none();
  }
  if (is_name(name, "__suppress_context__")) return in.boolean(exception->suppress_context);
  if (is_name(name, "__traceback__")) return exception->raised ? unseen_traceback(in) : in.none();
  return field_of_args(in, exception, name);
}

/// Sets `__traceback__`, which holds until the exception is raised again.
static void set_traceback(Interpreter& in, ObjectValue* exception, PyObject* name, Value* to) {
  if (!in.is_same(to, in.none()) && in.type_of(to) != &PyTraceBack_Type)
    in.raise(PyExc_TypeError, "__traceback__ must be a traceback or None");
  if (Value** written = exception->find(name))
    *written = to;
  else
    exception->attributes.push_back({Ref::borrow(name), to});
}

bool set_exception_field(Interpreter& in, ObjectValue* exception, PyObject* name, Value* to) {
  if (exception->object) return false;
  auto check_link = [&](const char* which) {
    if (!in.is_same(to, in.none()) && !is_exception(in, to, PyExc_BaseException))
      in.raise(PyExc_TypeError, std::string("exception ") + which + " must be None or derive from BaseException");
  };
  if (is_name(name, "args")) {
    if (derives_fields(exception->type))
      throw Break{BreakId::raises, std::string("the args of an exception with fields: ") + exception->type->tp_name};
    exception->base = in.tuple(in.unpack(to));
  } else if (is_name(name, "__cause__")) {
    check_link("cause");
    exception->cause = to;
    exception->suppress_context = true;
  } else if (is_name(name, "__context__")) {
    check_link("context");
    exception->context = to;
  } else if (is_name(name, "__suppress_context__")) {
    exception->suppress_context = in.truth(to);
  } else if (is_name(name, "__traceback__")) {
    set_traceback(in, exception, name, to);
  } else {
    return false;
  }
  return true;
}

bool exception_matches(Interpreter& in, Value* exception, Value* classes) {
  Ref wanted = known_classes(in, classes);
  bool known = wanted && (PyTuple_Check(wanted.get()) || PyExceptionClass_Check(wanted.get()));
  for (Py_ssize_t i = 0; known && PyTuple_Check(wanted.get()) && i < PyTuple_GET_SIZE(wanted.get()); ++i)
    known = PyExceptionClass_Check(PyTuple_GET_ITEM(wanted.get(), i));
  if (!known) throw Break{BreakId::unknown_call, "except with a class that is not known"};
  return PyErr_GivenExceptionMatches(reinterpret_cast<PyObject*>(in.type_of(exception)), wanted.get());
}

std::string exception_text(Interpreter& in, Value* exception) {
  auto* object = as<ObjectValue>(exception);
  Ref real;
  try {
    if (object) real = real_exception(in, object);
  } catch (const Break&) {  // its args are not known before the plan runs
  }
  return real ? short_repr(real.get()) : in.type_of(exception)->tp_name;
}

void raise_current(Interpreter& in) {
  STATOR_CHECK(PyErr_Occurred(), "there is no error to raise");
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref owned_type = Ref::steal(type), owned_trace = Ref::steal(trace), exception = Ref::steal(value);
  raise_exception(in, from_real_exception(in, exception.get()), nullptr);
}

Value* result_or_raise(Interpreter& in, PyObject* result) {
  Ref owned = Ref::steal(result);
  if (!owned) raise_current(in);
  return in.wrap_result(owned.get());
}

void Interpreter::raise(PyObject* type, const std::string& message) {
  raise_exception(*this, make_exception(*this, reinterpret_cast<PyTypeObject*>(type), {constant(exact_str(message))}),
                  nullptr);
}

}  // namespace stator::capture
