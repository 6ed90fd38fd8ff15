#pragma once

/// CPython's interpreter frames behind an opaque handle: reading and filling them, and evaluating them from any
/// instruction. C linkage, GIL held throughout. Offsets are code units, those of `Instr` in
/// code.h.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _PyInterpreterFrame StatorFrame;

/// NULL if frames can be filled and hooked on this CPython, else the reason in words. Then everything here and
/// in hook.h that returns an object or an int fails with NotImplementedError; nothing else may be called.
const char* stator_frames_unsupported(void);

// ---- reading; references are borrowed

PyCodeObject* stator_frame_code(const StatorFrame* frame);
PyObject* stator_frame_function(const StatorFrame* frame);
PyObject* stator_frame_globals(const StatorFrame* frame);
PyObject* stator_frame_builtins(const StatorFrame* frame);
/// Locals, cells and free variables: co_nlocalsplus of them. NULL is unbound. A frame that is not fresh holds cells
/// where MAKE_CELL and COPY_FREE_VARS have run.
int stator_frame_slot_count(const StatorFrame* frame);
PyObject* stator_frame_slot(const StatorFrame* frame, int slot);
/// The slots as an array of stator_frame_slot_count() borrowed references; valid while the frame is not evaluated.
PyObject* const* stator_frame_slots(const StatorFrame* frame);
int stator_frame_stack_depth(const StatorFrame* frame);
PyObject* stator_frame_stack(const StatorFrame* frame, int index);
/// Offset of the instruction that is executed next.
int stator_frame_offset(const StatorFrame* frame);
/// True if nothing of the frame has run: a plain call that a hook may answer itself.
bool stator_frame_is_fresh(const StatorFrame* frame);

// ---- writing

/// Replaces one slot; steals `value` (NULL: unbound).
void stator_frame_set_slot(StatorFrame* frame, int slot, PyObject* value);

typedef struct {
  PyObject** slots;       // co_nlocalsplus references or NULLs, or NULL to leave all as they are
  PyObject** stack;       // bottom first; NULLs where the program has them
  int depth;              // at most co_stacksize
  int offset;             // next instruction
  const int32_t* places;  // NULL: `slots` has all of them; else which, and the others stay as they are
  int place_count;
} StatorFrameState;

/// Puts the state into a frame that is not running. Steals all references of both arrays and leaves them NULL. What the
/// slots and the stack held is released when the frame is whole, so finalizers see a sound one. -1 with SystemError
/// (and nothing stolen) when the state does not fit the code.
int stator_frame_fill(StatorFrame* frame, const StatorFrameState* state);

/// The stack of a frame that is not running. `push` steals (NULL is a value here); `pop` hands the reference out.
void stator_frame_push(StatorFrame* frame, PyObject* value);
PyObject* stator_frame_pop(StatorFrame* frame);
/// The instruction that is executed next.
void stator_frame_set_offset(StatorFrame* frame, int offset);

// ---- evaluating. A hook callback ends with exactly one of these, or with stator_eval_next: from 3.12 on the evaluator
// owns the frame and a hook that merely returns leaks it.

/// Goes on at the frame's offset.
PyObject* stator_frame_run(PyThreadState* tstate, StatorFrame* frame);
/// Raises the current exception as if the instruction at `offset` had: the program's handlers run, and the traceback
/// gets its entry. The stack must be as deep as at that instruction or empty of what its handler drops anyway.
PyObject* stator_frame_throw(PyThreadState* tstate, StatorFrame* frame, int offset);

/// Where a code object returns, see `Code`: an instruction that ends the frame.
typedef struct {
  int offset;     // -1: the code never returns
  bool is_const;  // RETURN_CONST
} StatorReturn;
/// Ends the frame without evaluating it: `result` (stolen) is what the call gives. Only for fresh or filled frames.
PyObject* stator_frame_return(PyThreadState* tstate, StatorFrame* frame, PyObject* result, StatorReturn site);

// ---- frames for inlined calls, which hook.h makes

/// Makes a frame visible as the running one, at the instruction `offset`, while C code does that instruction's work.
/// Unlink in reverse order, before the frame is evaluated.
typedef struct {
  PyThreadState* tstate;
  StatorFrame* frame;
  StatorFrame* caller;
} StatorFrameLink;
void stator_frame_link(StatorFrameLink* link, PyThreadState* tstate, StatorFrame* frame, int offset);
void stator_frame_unlink(StatorFrameLink* link);

/// Puts a fresh generator (made by calling its function) into the state "suspended at the YIELD_VALUE at `offset`";
/// `state->offset` is that YIELD_VALUE, and the stack is without the yielded value. Steals as stator_frame_fill does.
int stator_generator_fill(PyObject* generator, const StatorFrameState* state);

#ifdef __cplusplus
}

namespace stator::pycompat {

/// A frame that is linked for the length of a scope.
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
