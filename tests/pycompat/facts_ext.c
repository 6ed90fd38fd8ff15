// Shows the facts of objects to the Python tests.
#include "pycompat_ext.h"

#include "capture/pycompat/facts.h"

static PyObject* or_none(PyObject* borrowed) { return Py_NewRef(borrowed ? borrowed : Py_None); }

static PyObject* dict_tag(PyObject* self, PyObject* dict) { return PyLong_FromUnsignedLongLong(stator_dict_tag(dict)); }
static PyObject* has_tags(PyObject* self, PyObject* none) { return PyBool_FromLong(STATOR_HAS_DICT_TAGS); }
static PyObject* has_str_keys(PyObject* self, PyObject* dict) {
  return PyBool_FromLong(stator_dict_has_str_keys(dict));
}
static PyObject* get_str(PyObject* self, PyObject* args) {
  PyObject *dict, *name;
  if (!PyArg_ParseTuple(args, "OO", &dict, &name)) return NULL;
  return or_none(stator_dict_get_str(dict, name));
}
static PyObject* type_version(PyObject* self, PyObject* type) {
  return PyLong_FromUnsignedLong(stator_type_version((PyTypeObject*)type));
}
static PyObject* assign_version(PyObject* self, PyObject* type) {
  return PyLong_FromUnsignedLong(stator_type_assign_version((PyTypeObject*)type));
}
static PyObject* instance_dict(PyObject* self, PyObject* object) {
  PyObject* dict;
  const StatorInstanceDict kind = stator_instance_dict(object, &dict);
  return Py_BuildValue("iN", (int)kind, or_none(dict));
}
static PyObject* instance_value(PyObject* self, PyObject* args) {
  PyObject *object, *name;
  if (!PyArg_ParseTuple(args, "OO", &object, &name)) return NULL;
  return or_none(stator_instance_value(object, name));
}
static PyObject* inline_items(PyObject* self, PyObject* object) {
  PyObject* list = PyList_New(0);
  Py_ssize_t position = 0;
  PyObject *name, *value;
  while (list && stator_inline_next(object, &position, &name, &value)) {
    PyObject* pair = PyTuple_Pack(2, name, value);
    PyList_Append(list, pair);
    Py_DECREF(pair);
  }
  return list;
}
static PyObject* iterator(PyObject* self, PyObject* object) {
  const StatorIter it = stator_iter(object);
  return Py_BuildValue("iNnnll", (int)it.kind, or_none(it.source), it.index, it.count, it.start, it.step);
}
static PyObject* peek(PyObject* self, PyObject* args) {
  PyObject *iterator, *key = NULL, *item = NULL;
  Py_ssize_t ahead;
  if (!PyArg_ParseTuple(args, "On", &iterator, &ahead)) return NULL;
  const StatorPeek found = stator_iter_peek(iterator, ahead, &key, &item);
  return Py_BuildValue("iNN", (int)found, key ? key : Py_NewRef(Py_None), item ? item : Py_NewRef(Py_None));
}
static PyObject* is_tracing(PyObject* self, PyObject* none) {
  return PyBool_FromLong(stator_is_tracing(PyThreadState_Get()));
}
static PyObject* is_monitored(PyObject* self, PyObject* code) {
  return PyBool_FromLong(stator_code_is_monitored((PyCodeObject*)code));
}
static PyMethodDef methods[] = {{"dict_tag", dict_tag, METH_O, NULL},
                                {"has_tags", has_tags, METH_NOARGS, NULL},
                                {"has_str_keys", has_str_keys, METH_O, NULL},
                                {"get_str", get_str, METH_VARARGS, NULL},
                                {"type_version", type_version, METH_O, NULL},
                                {"assign_version", assign_version, METH_O, NULL},
                                {"instance_dict", instance_dict, METH_O, NULL},
                                {"instance_value", instance_value, METH_VARARGS, NULL},
                                {"inline_items", inline_items, METH_O, NULL},
                                {"iterator", iterator, METH_O, NULL},
                                {"peek", peek, METH_VARARGS, NULL},
                                {"is_tracing", is_tracing, METH_NOARGS, NULL},
                                {"is_monitored", is_monitored, METH_O, NULL},
                                {NULL, NULL, 0, NULL}};

PyMethodDef* facts_methods(void) { return methods; }
