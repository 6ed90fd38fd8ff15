#define Py_BUILD_CORE 1
#include "capture/pycompat/frame.h"

#if PY_VERSION_HEX < 0x030D0000

#include <frameobject.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_pystate.h>

#define FIRST_UNIT(frame) _PyCode_CODE((frame)->f_code)

const char* stator_frames_unsupported(void) { return NULL; }

// ---- reading

PyCodeObject* stator_frame_code(const StatorFrame* frame) { return frame->f_code; }

PyObject* stator_frame_function(const StatorFrame* frame) {
#if PY_VERSION_HEX < 0x030C0000
  return (PyObject*)frame->f_func;
#else
  return frame->f_funcobj;
#endif
}

PyObject* stator_frame_globals(const StatorFrame* frame) { return frame->f_globals; }
PyObject* stator_frame_builtins(const StatorFrame* frame) { return frame->f_builtins; }
int stator_frame_slot_count(const StatorFrame* frame) { return frame->f_code->co_nlocalsplus; }
PyObject* stator_frame_slot(const StatorFrame* frame, int slot) { return frame->localsplus[slot]; }
PyObject* const* stator_frame_slots(const StatorFrame* frame) { return frame->localsplus; }
int stator_frame_stack_depth(const StatorFrame* frame) { return frame->stacktop - frame->f_code->co_nlocalsplus; }

PyObject* stator_frame_stack(const StatorFrame* frame, int index) {
  return frame->localsplus[frame->f_code->co_nlocalsplus + index];
}

int stator_frame_offset(const StatorFrame* frame) { return (int)(frame->prev_instr - FIRST_UNIT(frame)) + 1; }

bool stator_frame_is_fresh(const StatorFrame* frame) {
  return frame->owner == FRAME_OWNED_BY_THREAD && frame->prev_instr == FIRST_UNIT(frame) - 1;
}

// ---- writing

void stator_frame_set_slot(StatorFrame* frame, int slot, PyObject* value) {
  PyObject* old = frame->localsplus[slot];
  frame->localsplus[slot] = value;
  Py_XDECREF(old);
}

static int check_state(PyCodeObject* code, const StatorFrameState* state) {
  if (state->depth < 0 || state->depth > code->co_stacksize) {
    PyErr_Format(PyExc_SystemError, "%U: a stack of %d values, where the code has room for %d", code->co_qualname,
                 state->depth, code->co_stacksize);
    return -1;
  }
  if (state->offset < 0 || state->offset >= (int)Py_SIZE(code)) {
    PyErr_Format(PyExc_SystemError, "%U: offset %d lies outside the code", code->co_qualname, state->offset);
    return -1;
  }
  return 0;
}

// The garbage collector may traverse a generator's frame between these stores: the first `stacktop` values are valid at
// all times.
static void store_state(StatorFrame* frame, const StatorFrameState* state) {
  const int count = frame->f_code->co_nlocalsplus, given = state->places ? state->place_count : count;
  for (int i = 0; state->slots && i < given; ++i) {
    const int place = state->places ? state->places[i] : i;
    PyObject* old = frame->localsplus[place];
    frame->localsplus[place] = state->slots[i];
    state->slots[i] = old;
  }
  for (int i = 0; i < state->depth; ++i) {
    frame->localsplus[count + i] = state->stack[i];
    state->stack[i] = NULL;
  }
  frame->stacktop = count + state->depth;
}

static void release_old(const StatorFrameState* state, int all) {
  const int count = state->places ? state->place_count : all;
  for (int i = 0; state->slots && i < count; ++i) Py_CLEAR(state->slots[i]);
}

int stator_frame_fill(StatorFrame* frame, const StatorFrameState* state) {
  PyCodeObject* code = frame->f_code;
  if (check_state(code, state) < 0) return -1;
  PyObject* small[16];
  const int old = stator_frame_stack_depth(frame);
  PyObject** dropped = old <= 16 ? small : PyMem_Malloc(sizeof(PyObject*) * (size_t)old);
  if (!dropped) {
    PyErr_NoMemory();
    return -1;
  }
  for (int i = 0; i < old; ++i) dropped[i] = frame->localsplus[code->co_nlocalsplus + i];
  store_state(frame, state);
  frame->prev_instr = FIRST_UNIT(frame) + state->offset - 1;
  release_old(state, code->co_nlocalsplus);
  for (int i = old; i-- > 0;) Py_XDECREF(dropped[i]);
  if (dropped != small) PyMem_Free(dropped);
  return 0;
}

void stator_frame_push(StatorFrame* frame, PyObject* value) { frame->localsplus[frame->stacktop++] = value; }
PyObject* stator_frame_pop(StatorFrame* frame) { return frame->localsplus[--frame->stacktop]; }
void stator_frame_set_offset(StatorFrame* frame, int offset) { frame->prev_instr = FIRST_UNIT(frame) + offset - 1; }

int stator_generator_fill(PyObject* generator, const StatorFrameState* state) {
  PyGenObject* gen = (PyGenObject*)generator;
  StatorFrame* frame = (StatorFrame*)gen->gi_iframe;
  if (gen->gi_frame_state != FRAME_CREATED) {
    PyErr_SetString(PyExc_SystemError, "the generator to be filled has been started");
    return -1;
  }
  if (check_state(frame->f_code, state) < 0) return -1;
  store_state(frame, state);
  frame->prev_instr = FIRST_UNIT(frame) + state->offset;
  gen->gi_frame_state = FRAME_SUSPENDED;
  release_old(state, frame->f_code->co_nlocalsplus);
  return 0;
}

// ---- evaluating

PyObject* stator_frame_run(PyThreadState* tstate, StatorFrame* frame) {
  return _PyEval_EvalFrameDefault(tstate, frame, 0);
}

PyObject* stator_frame_throw(PyThreadState* tstate, StatorFrame* frame, int offset) {
  frame->prev_instr = FIRST_UNIT(frame) + offset;
  return _PyEval_EvalFrameDefault(tstate, frame, 1);
}

static void drop_stack(StatorFrame* frame) {
  const int count = frame->f_code->co_nlocalsplus;
  while (frame->stacktop > count) {
    PyObject* value = frame->localsplus[--frame->stacktop];
    Py_XDECREF(value);
  }
}

#if PY_VERSION_HEX < 0x030C0000

PyObject* stator_frame_return(PyThreadState* tstate, StatorFrame* frame, PyObject* result, StatorReturn site) {
  // The caller clears the frame; a frame object that outlives it finds its f_back through `previous`.
  (void)site;
  drop_stack(frame);
  frame->previous = tstate->cframe->current_frame;
  return result;
}

#else

// CPython does not export the function that clears and pops a frame, so a return instruction of the code does it.
PyObject* stator_frame_return(PyThreadState* tstate, StatorFrame* frame, PyObject* result, StatorReturn site) {
  drop_stack(frame);
  if (site.offset >= 0) {
    frame->prev_instr = FIRST_UNIT(frame) + site.offset - 1;
    if (!site.is_const) {
      frame->localsplus[frame->stacktop++] = result;
      return _PyEval_EvalFrameDefault(tstate, frame, 0);
    }
    PyObject* constant = _PyEval_EvalFrameDefault(tstate, frame, 0);
    if (!constant) Py_CLEAR(result);
    Py_XDECREF(constant);
    return result;
  }
  // A function without a return instruction is unwound by an exception at its start, where it has no handler.
  PyErr_SetNone(PyExc_RuntimeError);
  frame->prev_instr = FIRST_UNIT(frame) + frame->f_code->_co_firsttraceable;
  PyObject* none = _PyEval_EvalFrameDefault(tstate, frame, 1);
  Py_XDECREF(none);
  PyErr_Clear();
  return result;
}

#endif

// ---- linking

void stator_frame_link(StatorFrameLink* link, PyThreadState* tstate, StatorFrame* frame, int offset) {
  link->tstate = tstate;
  link->frame = frame;
  link->caller = tstate->cframe->current_frame;
  frame->prev_instr = FIRST_UNIT(frame) + offset;
  frame->previous = link->caller;
  tstate->cframe->current_frame = frame;
}

void stator_frame_unlink(StatorFrameLink* link) {
  link->tstate->cframe->current_frame = link->caller;
  // The evaluator links the frame again; without this, it would link it to itself.
  link->frame->previous = NULL;
}

#else  // 3.13 and later: instr_ptr, return_offset and the ownership of frames are different

const char* stator_frames_unsupported(void) {
  return "frames of this CPython cannot be filled yet: 3.11 and 3.12 are supported";
}

static void refuse(void) { PyErr_SetString(PyExc_NotImplementedError, stator_frames_unsupported()); }
static void never(void) { Py_FatalError(stator_frames_unsupported()); }

#define REFUSED(result_type, name, value, ...) \
  result_type name(__VA_ARGS__) {              \
    refuse();                                  \
    return value;                              \
  }
#define NEVER(result_type, name, ...) \
  result_type name(__VA_ARGS__) {     \
    never();                          \
    return (result_type)0;            \
  }

NEVER(PyCodeObject*, stator_frame_code, const StatorFrame* frame)
NEVER(PyObject*, stator_frame_function, const StatorFrame* frame)
NEVER(PyObject*, stator_frame_globals, const StatorFrame* frame)
NEVER(PyObject*, stator_frame_builtins, const StatorFrame* frame)
NEVER(int, stator_frame_slot_count, const StatorFrame* frame)
NEVER(PyObject*, stator_frame_slot, const StatorFrame* frame, int slot)
NEVER(PyObject* const*, stator_frame_slots, const StatorFrame* frame)
NEVER(int, stator_frame_stack_depth, const StatorFrame* frame)
NEVER(PyObject*, stator_frame_stack, const StatorFrame* frame, int index)
NEVER(int, stator_frame_offset, const StatorFrame* frame)
NEVER(bool, stator_frame_is_fresh, const StatorFrame* frame)
void stator_frame_set_slot(StatorFrame* frame, int slot, PyObject* value) { never(); }
void stator_frame_link(StatorFrameLink* link, PyThreadState* tstate, StatorFrame* frame, int offset) { never(); }
void stator_frame_unlink(StatorFrameLink* link) { never(); }
void stator_frame_push(StatorFrame* frame, PyObject* value) { never(); }
NEVER(PyObject*, stator_frame_pop, StatorFrame* frame)
void stator_frame_set_offset(StatorFrame* frame, int offset) { never(); }
REFUSED(int, stator_frame_fill, -1, StatorFrame* frame, const StatorFrameState* state)
REFUSED(int, stator_generator_fill, -1, PyObject* generator, const StatorFrameState* state)
REFUSED(PyObject*, stator_frame_run, NULL, PyThreadState* tstate, StatorFrame* frame)
REFUSED(PyObject*, stator_frame_throw, NULL, PyThreadState* tstate, StatorFrame* frame, int offset)
REFUSED(PyObject*, stator_frame_return, NULL, PyThreadState* tstate, StatorFrame* frame, PyObject* result,
        StatorReturn site)

#endif
