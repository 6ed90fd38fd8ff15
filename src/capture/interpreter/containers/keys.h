#pragma once

#include "capture/interpreter/interpreter.h"

/// Values as keys of dicts and elements of sets.
namespace stator::capture {

/// A hash that equal keys share. `exact` is cleared when it is not the number that the program would see, since that
/// one comes from an address. Raises TypeError for what has no hash; runs the program's own __hash__ inlined.
Py_hash_t key_hash(Interpreter& in, Value* key, bool* exact = nullptr);
/// Whether two keys of equal hash are the same one: identical, or equal by the program's own rules.
bool same_key(Interpreter& in, Value* known, Value* asked);
/// Whether its hash comes from code of the program that nobody may run once more than the program does.
bool hashes_aloud(Interpreter& in, Value* key);
/// Breaks if the keys of a dict, or the elements of a set, cannot be put into another one unseen.
void refuse_rehash(Interpreter& in, const DictValue* table);
/// Items of what another dict takes over; CPython knows the hashes of a dict's own keys.
std::vector<std::pair<Value*, Value*>> items_to_put(Interpreter& in, Value* mapping);
/// Whether keys like it are told apart by identity alone.
bool is_identity_key(Interpreter& in, Value* key);
/// The object that an outside container holds for this key; null for what only the program made.
Ref outside_key(Interpreter& in, Value* key);

/// The value of a key or element that an outside container holds, whose identity or value the container's guard fixes.
Value* outside_element(Interpreter& in, PyObject* object);

/// What a real dict holds under an exact str or bytes; borrowed, null if nothing. Breaks where looking could run code
/// of another key.
PyObject* plain_item(PyObject* dict, PyObject* name);

}  // namespace stator::capture
