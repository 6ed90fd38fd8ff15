#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Values as keys of dicts and elements of sets.
namespace stator::capture {

/// A hash for tables of the capture: equal for equal keys. Clears `exact` if it is not the hash that the program would
/// see (that of an address). Raises TypeError for unhashable keys; inlines the program's __hash__.
Py_hash_t key_hash(Interpreter& in, Value* key, bool* exact = nullptr);
/// Whether two keys of equal hash are one key: identical, or equal by `==`.
bool same_key(Interpreter& in, Value* known, Value* asked);
/// Whether hashing it runs code of the program, which must not run more often than in the program.
bool hash_runs_user_code(Interpreter& in, Value* key);
/// Breaks if a plan could not copy the keys of a dict, or the elements of a set, without running such code.
void refuse_rehash(Interpreter& in, const DictValue* table);
/// Items of a mapping that are put into another dict. CPython reuses the hashes of a dict's keys; a plan can't.
std::vector<std::pair<Value*, Value*>> items_to_put(Interpreter& in, Value* mapping);
/// Whether the key compares by identity.
bool is_identity_key(Interpreter& in, Value* key);
/// What decides whether the key is another one: the key itself if it compares by identity, the referent of a weak
/// reference; null for other keys.
Value* identity_of_key(Interpreter& in, Value* key);
/// The object of the key as an external container would hold it; null for objects that the program made.
Ref external_key(Interpreter& in, Value* key);

/// Breaks if the key's class hashes in its own way.
void refuse_own_hash(PyObject* key);

/// The value of a key or element of an external container, whose guard implies its identity or value.
Value* external_element(Interpreter& in, PyObject* object);

/// The item of a real dict under an exact str or bytes; borrowed, null if there is none. Breaks if the lookup could run
/// the `__eq__` of another key.
PyObject* plain_item(PyObject* dict, PyObject* name);

}  // namespace stator::capture
