#pragma once

#include "capture/pycompat/ref.h"

/// Classes and functions of the standard library and torch that the interpreter knows, looked up once.
namespace stator::capture {

PyTypeObject* ordered_dict_type();
PyTypeObject* default_dict_type();
PyTypeObject* deque_type();
PyTypeObject* namespace_type();  // types.SimpleNamespace
PyTypeObject* partial_type();
PyTypeObject* lru_cache_type();
PyTypeObject* script_function_type();
PyTypeObject* enum_meta_type();
PyTypeObject* module_class();  // torch.nn.Module
PyTypeObject* size_type();     // torch.Size
/// The object at a dotted path in an importable module, or null without an error set. Kept for ever.
PyObject* known_object(const char* path);

/// The default overload of an ATen operator. Kept for ever.
PyObject* known_operator(const char* name);

/// The class of Stator's compiled functions: a captured program that calls one inlines the wrapped function.
void set_transparent_type(PyTypeObject* type);
bool is_transparent(PyTypeObject* type);

/// A tuple subclass whose items are its only state: collections.namedtuple, typing.NamedTuple, torch.return_types.
bool is_named_tuple(PyTypeObject* type);
bool is_module_instance(PyObject* object);
/// Whether attributes, and the contents of a built-in container, are the whole state of the instances: the class is
/// written in Python, and the C class below it is `object` or a container. Such instances are guarded by structure.
bool has_open_instances(PyTypeObject* type);
/// C classes whose instances never change and whose methods only compute: patterns and matches of `re`, dates,
/// decimals.
bool is_value_type(PyTypeObject* type);
/// Objects that are guarded by identity: classes, Python modules, C functions, descriptors, enum members, operators,
/// typing aliases, code. Their attributes may change, and are guarded where they are read.
bool is_guarded_by_identity(PyObject* object);

}  // namespace stator::capture
