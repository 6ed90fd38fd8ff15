#define Py_BUILD_CORE 1
#include "capture/pycompat/facts.h"

#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_pystate.h>
#if PY_VERSION_HEX >= 0x030C0000
#include <internal/pycore_list.h>
#include <internal/pycore_range.h>
#include <internal/pycore_tuple.h>
#endif

// ---- iterators

// Copies of private layouts of 3.11's listobject.c, tupleobject.c and rangeobject.c.
#if PY_VERSION_HEX < 0x030C0000
typedef struct {
  PyObject_HEAD Py_ssize_t it_index;
  PyObject* it_seq;
} SequenceIter;
typedef struct {
  PyObject_HEAD long index, start, step, len;
} RangeIter;
#else
typedef _PyListIterObject SequenceIter;
typedef _PyRangeIterObject RangeIter;
_Static_assert(sizeof(_PyListIterObject) == sizeof(_PyTupleIterObject), "one layout serves both");
#endif

// dictobject.c; the same in 3.11 to 3.13.
typedef struct {
  PyObject_HEAD PyObject* di_dict;
  Py_ssize_t di_used;
  Py_ssize_t di_pos;
  PyObject* di_result;
  Py_ssize_t len;
} DictIter;

// listobject.c, enumobject.c and bltinmodule.c; the first fields are the same in 3.11 to 3.13.
typedef struct {
  PyObject_HEAD Py_ssize_t index;
  PyObject* seq;
} ReversedIter;
typedef struct {
  PyObject_HEAD Py_ssize_t en_index;
  PyObject* en_sit;
  PyObject* en_result;
  PyObject* en_longindex;
} EnumerateIter;
typedef struct {
  PyObject_HEAD Py_ssize_t tuplesize;
  PyObject* ittuple;
  PyObject* result;
  int strict;
} ZipIter;

StatorIter stator_iter(PyObject* iterator) {
  static const struct {
    PyTypeObject* type;
    StatorIterKind kind;
  } kinds[] = {{&PyListIter_Type, kStatorIterList},
               {&PyTupleIter_Type, kStatorIterTuple},
               {&PyRangeIter_Type, kStatorIterRange},
               {&PyDictIterKey_Type, kStatorIterDictKeys},
               {&PyDictIterValue_Type, kStatorIterDictValues},
               {&PyDictIterItem_Type, kStatorIterDictItems},
               {&PyListRevIter_Type, kStatorIterListReversed},
               {&PyReversed_Type, kStatorIterReversed},
               {&PyEnum_Type, kStatorIterEnumerate},
               {&PyZip_Type, kStatorIterZip}};
  StatorIter out = {kStatorIterOther, NULL, 0, 0, 0, 0};
  for (size_t i = 0; i < Py_ARRAY_LENGTH(kinds); ++i) {
    if (Py_TYPE(iterator) == kinds[i].type) out.kind = kinds[i].kind;
  }
  switch (out.kind) {
    case kStatorIterOther:
      break;
    case kStatorIterList:
    case kStatorIterTuple:
      out.source = (PyObject*)((SequenceIter*)iterator)->it_seq;
      out.index = ((SequenceIter*)iterator)->it_index;
      break;
    case kStatorIterRange: {
      const RangeIter* it = (const RangeIter*)iterator;
      out.step = it->step;
#if PY_VERSION_HEX < 0x030C0000
      out.start = (long)((unsigned long)it->start + (unsigned long)it->index * (unsigned long)it->step);
      out.index = it->index;
      out.count = it->len - it->index;
#else
      out.start = it->start;
      out.count = it->len;
#endif
      break;
    }
    case kStatorIterListReversed:
    case kStatorIterReversed:
      out.source = ((ReversedIter*)iterator)->seq;
      out.index = ((ReversedIter*)iterator)->index;
      break;
    case kStatorIterEnumerate:
      out.source = ((EnumerateIter*)iterator)->en_sit;
      out.index = ((EnumerateIter*)iterator)->en_longindex ? -1 : ((EnumerateIter*)iterator)->en_index;
      break;
    case kStatorIterZip:
      out.source = ((ZipIter*)iterator)->ittuple;
      out.count = ((ZipIter*)iterator)->strict;
      break;
    default:
      out.source = ((DictIter*)iterator)->di_dict;
      out.index = ((DictIter*)iterator)->di_pos;
      out.count = ((DictIter*)iterator)->len;
  }
  return out;
}

static void give(PyObject** place, PyObject* borrowed) {
  if (place) *place = Py_NewRef(borrowed);
}

static StatorPeek peek_sequence(PyObject* sequence, Py_ssize_t index, PyObject** item) {
  if (index < 0 || index >= Py_SIZE(sequence)) return kStatorPeekEnd;
  give(item, PyList_Check(sequence) ? PyList_GET_ITEM(sequence, index) : PyTuple_GET_ITEM(sequence, index));
  return kStatorPeekItem;
}

static StatorPeek peek_dict(const StatorIter* it, Py_ssize_t used, Py_ssize_t ahead, PyObject** key, PyObject** item) {
  // The iterator raises if the dict has grown or shrunk.
  if (PyDict_GET_SIZE(it->source) != used) return kStatorPeekUnknown;
  Py_ssize_t position = it->index;
  PyObject *found_key = NULL, *value = NULL;
  for (Py_ssize_t i = 0; i <= ahead; ++i) {
    if (!PyDict_Next(it->source, &position, &found_key, &value)) return kStatorPeekEnd;
  }
  give(item, it->kind == kStatorIterDictKeys ? found_key : value);
  if (it->kind == kStatorIterDictItems) give(key, found_key);
  return kStatorPeekItem;
}

StatorPeek stator_iter_peek(PyObject* iterator, Py_ssize_t ahead, PyObject** key, PyObject** item) {
  const StatorIter it = stator_iter(iterator);
  switch (it.kind) {
    case kStatorIterOther:
    case kStatorIterEnumerate:
    case kStatorIterZip:
      return kStatorPeekUnknown;
    case kStatorIterRange:
      if (ahead >= it.count) return kStatorPeekEnd;
      if (!item) return kStatorPeekItem;
      *item = PyLong_FromLong((long)((unsigned long)it.start + (unsigned long)ahead * (unsigned long)it.step));
      if (*item) return kStatorPeekItem;
      PyErr_Clear();
      return kStatorPeekUnknown;
    default:
      break;
  }
  if (!it.source) return kStatorPeekEnd;
  switch (it.kind) {
    case kStatorIterList:
    case kStatorIterTuple:
      return peek_sequence(it.source, it.index + ahead, item);
    case kStatorIterReversed:
      if (!PyTuple_CheckExact(it.source)) return kStatorPeekUnknown;
      return peek_sequence(it.source, it.index - ahead, item);
    case kStatorIterListReversed:
      // An index past the end: the iterator will end.
      if (it.index >= Py_SIZE(it.source)) return kStatorPeekUnknown;
      return peek_sequence(it.source, it.index - ahead, item);
    default:
      return peek_dict(&it, ((DictIter*)iterator)->di_used, ahead, key, item);
  }
}

// ---- abstract base classes

// The state of the module `_abc`; the same in 3.11 to 3.13.
typedef struct {
  PyTypeObject* data_type;
  unsigned long long invalidation_counter;
} AbcState;

static const StatorWord* find_abc_counter(void) {
  PyObject* module = PyImport_ImportModule("_abc");
  PyObject* token = module ? PyObject_CallMethod(module, "get_cache_token", NULL) : NULL;
  AbcState* state = NULL;
  if (token) {
    PyModuleDef* definition = PyModule_GetDef(module);
    if (definition && definition->m_size >= (Py_ssize_t)sizeof(AbcState)) state = (AbcState*)PyModule_GetState(module);
    // The standard library registers dozens of classes, so an equal count confirms the layout.
    const unsigned long long count = PyLong_AsUnsignedLongLong(token);
    if (state && (count < 8 || state->invalidation_counter != count)) state = NULL;
  }
  PyErr_Clear();
  Py_XDECREF(token);
  // Keep the reference to the module, because it owns the state.
  return state ? (const StatorWord*)&state->invalidation_counter : NULL;
}

const StatorWord* stator_abc_counter_place(void) {
  static const StatorWord* place = NULL;
  static bool asked = false;
  if (!asked) {
    asked = true;
    place = find_abc_counter();
  }
  return place;
}

// ---- threads

bool stator_is_tracing(PyThreadState* tstate) {
  if (tstate->c_tracefunc || tstate->c_profilefunc) return true;
#if PY_VERSION_HEX < 0x030C0000
  return tstate->cframe->use_tracing != 0;
#else
  // The two highest tools are sys.settrace and sys.setprofile of any thread; those of this thread were checked above.
  const uint8_t tools = (1 << PY_MONITORING_SYS_PROFILE_ID) - 1;
  for (size_t event = 0; event < Py_ARRAY_LENGTH(tstate->interp->monitors.tools); ++event) {
    if (tstate->interp->monitors.tools[event] & tools) return true;
  }
  return false;
#endif
}

bool stator_is_debugged(const PyThreadState* tstate) {
  if (tstate->c_tracefunc) return true;
#if PY_VERSION_HEX >= 0x030C0000
  // A tool without events for the whole process may have events for single code objects.
  PyObject* const* names = tstate->interp->monitoring_tool_names;
  for (int tool = 0; tool < PY_MONITORING_SYS_PROFILE_ID; ++tool)
    if (names[tool] && tool != PY_MONITORING_PROFILER_ID) return true;
#endif
  return false;
}

bool stator_code_is_monitored(PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030C0000
  if (!code->_co_monitoring) return false;
  for (size_t event = 0; event < Py_ARRAY_LENGTH(code->_co_monitoring->local_monitors.tools); ++event) {
    if (code->_co_monitoring->local_monitors.tools[event]) return true;
  }
#else
  (void)code;
#endif
  return false;
}

static _PyInterpreterFrame* first_complete(_PyInterpreterFrame* frame) {
  while (frame && _PyFrame_IsIncomplete(frame)) frame = frame->previous;
  return frame;
}

static _PyInterpreterFrame* running_frame(PyThreadState* tstate) {
#if PY_VERSION_HEX < 0x030D0000
  return first_complete(tstate->cframe->current_frame);
#else
  return first_complete(tstate->current_frame);
#endif
}

static PyCodeObject* code_of(_PyInterpreterFrame* frame) {
#if PY_VERSION_HEX < 0x030D0000
  return frame->f_code;
#else
  return _PyFrame_GetCode(frame);
#endif
}

PyCodeObject* stator_running_code(PyThreadState* tstate) {
  _PyInterpreterFrame* frame = running_frame(tstate);
  return frame ? code_of(frame) : NULL;
}
