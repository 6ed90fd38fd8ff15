#pragma once

/// CPython's interpreter frames behind an opaque handle: reading them, filling them, and evaluating them from any
/// instruction. C linkage, GIL held throughout. Offsets are in code units, as in `Instr` (code.h).

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _PyInterpreterFrame StatorFrame;

/// NULL if frames can be filled and hooked on this CPython, otherwise the reason as text. In the latter case all
/// functions here and in hook.h that return an object or an int fail with NotImplementedError, and no other may be
/// called.
const char* stator_frames_unsupported(void);

// ---- reading; references are borrowed

PyCodeObject* stator_frame_code(const StatorFrame* frame);
PyObject* stator_frame_function(const StatorFrame* frame);
PyObject* stator_frame_globals(const StatorFrame* frame);
PyObject* stator_frame_builtins(const StatorFrame* frame);
/// Locals, cells and free variables: co_nlocalsplus slots; NULL is unbound. Once MAKE_CELL and COPY_FREE_VARS have run,
/// the slots of cell and free variables hold cells.
int stator_frame_slot_count(const StatorFrame* frame);
PyObject* stator_frame_slot(const StatorFrame* frame, int slot);
/// The slots as an array of stator_frame_slot_count() borrowed references; valid while the frame is not evaluated.
PyObject* const* stator_frame_slots(const StatorFrame* frame);
int stator_frame_stack_depth(const StatorFrame* frame);
PyObject* stator_frame_stack(const StatorFrame* frame, int index);
/// Offset of the next instruction.
int stator_frame_offset(const StatorFrame* frame);
/// True if no instruction of the frame has run: a hook may then handle the call itself.
bool stator_frame_is_fresh(const StatorFrame* frame);

// ---- writing

/// Replaces one slot; steals `value` (NULL: unbound).
void stator_frame_set_slot(StatorFrame* frame, int slot, PyObject* value);

typedef struct {
  PyObject** slots;       // co_nlocalsplus references or NULLs; NULL: keep all slots
  PyObject** stack;       // bottom first; contains NULLs where the bytecode pushes NULL
  int depth;              // at most co_stacksize
  int offset;             // next instruction
  const int32_t* places;  // indices of the slots given in `slots`, the others are kept; NULL: all slots are given
  int place_count;
} StatorFrameState;

/// Stores the state in a frame that is not running. Steals all references of both arrays and sets them to NULL. The old
/// contents are released after the frame is complete, so that finalizers see a valid frame. -1 with SystemError (and
/// nothing stolen) if the state does not match the code.
int stator_frame_fill(StatorFrame* frame, const StatorFrameState* state);

/// The stack of a frame that is not running. `push` steals its argument (which may be NULL); `pop` returns an owned
/// reference.
void stator_frame_push(StatorFrame* frame, PyObject* value);
PyObject* stator_frame_pop(StatorFrame* frame);
/// Sets the next instruction.
void stator_frame_set_offset(StatorFrame* frame, int offset);

// ---- evaluating. A hook callback ends with exactly one of these, or with stator_eval_next: from 3.12 on the evaluator
// owns the frame, and a hook that only returns leaks it.

/// Evaluates the frame from its offset.
PyObject* stator_frame_run(PyThreadState* tstate, StatorFrame* frame);
/// Raises the current exception at the instruction at `offset`: the program's handlers run, and the traceback gets an
/// entry for it. The stack must be as deep as the handler of that instruction requires.
PyObject* stator_frame_throw(PyThreadState* tstate, StatorFrame* frame, int offset);

/// An instruction that returns from a code object, as `Code` stores it.
typedef struct {
  int offset;     // -1: the code never returns
  bool is_const;  // RETURN_CONST
} StatorReturn;
/// Ends the frame without evaluating it. The call returns `result` (stolen). Only for fresh or filled frames.
PyObject* stator_frame_return(PyThreadState* tstate, StatorFrame* frame, PyObject* result, StatorReturn site);

// ---- frames for inlined calls, which hook.h makes

/// Makes a frame the running one, at the instruction `offset`, while C code executes that instruction. Unlink in
/// reverse order, before the frame is evaluated.
typedef struct {
  PyThreadState* tstate;
  StatorFrame* frame;
  StatorFrame* caller;
} StatorFrameLink;
void stator_frame_link(StatorFrameLink* link, PyThreadState* tstate, StatorFrame* frame, int offset);
void stator_frame_unlink(StatorFrameLink* link);

/// Makes a fresh generator (made by calling its function) one that is suspended at the YIELD_VALUE at `state->offset`.
/// The stack does not contain the yielded value. Steals references as stator_frame_fill does.
int stator_generator_fill(PyObject* generator, const StatorFrameState* state);

#ifdef __cplusplus
}

namespace stator::pycompat {

/// Links a frame for the duration of a scope.
class LinkedFrame {
 public:
  LinkedFrame(PyThreadState* tstate, StatorFrame* frame, int offset) {
    stator_frame_link(&link_, tstate, frame, offset);
  }
  ~LinkedFrame() { stator_frame_unlink(&link_); }
  LinkedFrame(const LinkedFrame&) = delete;
  LinkedFrame& operator=(const LinkedFrame&) = delete;

 private:
  StatorFrameLink link_;
};

}  // namespace stator::pycompat
#endif
