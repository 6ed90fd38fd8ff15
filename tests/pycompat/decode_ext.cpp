// Shows decoded code objects to the Python tests.
#include "capture/pycompat/code.h"
#include "capture/pycompat/opcode_rows.h"
#include "capture/pycompat/ref.h"
#include "pycompat_ext.h"

namespace pc = stator::pycompat;
using stator::Ref;

namespace {

const pc::Code* decoded(PyObject* code) {
  if (!PyCode_Check(code)) {
    PyErr_SetString(PyExc_TypeError, "a code object is needed");
    return nullptr;
  }
  return pc::decode(reinterpret_cast<PyCodeObject*>(code));
}

/// [(op, arg, arg2, target, offset, unit, line)], [(start, end, target, depth, lasti)], [slot kinds]
PyObject* decode(PyObject*, PyObject* object) {
  const pc::Code* code = decoded(object);
  if (!code) return nullptr;
  Ref instrs = Ref::steal(PyList_New(0));
  for (const pc::Instr& i : code->instrs) {
    const Ref row =
        Ref::steal(Py_BuildValue("siiiiii", pc::op_name(i.op), i.arg, i.arg2, i.target, i.offset, i.unit, i.line));
    if (!row || PyList_Append(instrs.get(), row.get()) < 0) return nullptr;
  }
  Ref exceptions = Ref::steal(PyList_New(0));
  for (const pc::ExceptionEntry& e : code->exceptions) {
    const Ref row = Ref::steal(Py_BuildValue("iiiiO", e.start, e.end, e.target, e.depth, e.lasti ? Py_True : Py_False));
    if (!row || PyList_Append(exceptions.get(), row.get()) < 0) return nullptr;
  }
  const Ref kinds = Ref::steal(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(code->slot_kinds.data()),
                                                         static_cast<Py_ssize_t>(code->slot_kinds.size())));
  return Py_BuildValue("OOO", instrs.get(), exceptions.get(), kinds.get());
}

PyObject* decode_only(PyObject*, PyObject* object) {
  const pc::Code* code = decoded(object);
  return code ? PyLong_FromSize_t(code->instrs.size()) : nullptr;
}

PyObject* index_of(PyObject*, PyObject* args) {
  PyObject* object = nullptr;
  int offset = 0;
  if (!PyArg_ParseTuple(args, "Oi", &object, &offset)) return nullptr;
  const pc::Code* code = decoded(object);
  return code ? PyLong_FromLong(code->index_of(offset)) : nullptr;
}

/// (offset, is_const) of an instruction that can end a frame.
PyObject* return_site(PyObject*, PyObject* object) {
  const pc::Code* code = decoded(object);
  return code ? Py_BuildValue("iO", code->return_offset, code->return_is_const ? Py_True : Py_False) : nullptr;
}

PyObject* has_row(PyObject*, PyObject* number) {
  const long opcode = PyLong_AsLong(number);
  if (opcode < 0 || opcode > 255) return nullptr;
  return PyBool_FromLong(stator_opcode_rows[opcode].rule != kRuleMissing);
}

PyMethodDef methods[] = {{"decode", decode, METH_O, nullptr},           {"decode_only", decode_only, METH_O, nullptr},
                         {"index_of", index_of, METH_VARARGS, nullptr}, {"return_site", return_site, METH_O, nullptr},
                         {"has_row", has_row, METH_O, nullptr},         {}};

}  // namespace

PyMethodDef* decode_methods() { return methods; }
