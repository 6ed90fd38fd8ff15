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
/// `dict.setdefault`: what is there, or null after putting it there.
Value* dict_put_new(Interpreter& in, DictValue* dict, Value* key, Value* value);
/// `dict.pop`: what was there, or null.
Value* dict_take(Interpreter& in, DictValue* dict, Value* key);
/// Whether keys like it are told apart by identity alone.
bool is_identity_key(Interpreter& in, Value* key);
/// The object that an outside container holds for this key; null for what only the program made.
Ref outside_key(Interpreter& in, Value* key);

/// The value of a key or element that an outside container holds, whose identity or value the container's guard fixes.
Value* outside_element(Interpreter& in, PyObject* object);

/// A set of these elements, in the order given.
SetValue* make_set(Interpreter& in, const std::vector<Value*>& items, PyTypeObject* type);
/// `set(iterable)` or `frozenset(iterable)`.
SetValue* set_from(Interpreter& in, Value* iterable, PyTypeObject* type);
/// `set.update(iterable)`.
void set_merge(Interpreter& in, SetValue* set, Value* iterable);
size_t set_size(const SetValue* set);
/// All elements in the set's own order. Breaks where that order hangs on addresses and could be seen.
std::vector<Value*> set_items(Interpreter& in, SetValue* set);
bool set_has(Interpreter& in, SetValue* set, Value* item);
/// Changes a set and logs the effect if it is an outside one.
void set_insert(Interpreter& in, SetValue* set, Value* item);
bool set_remove(Interpreter& in, SetValue* set, Value* item);
void set_empty(Interpreter& in, SetValue* set);
/// A copy that changes on its own.
SetValue* set_copy(Interpreter& in, SetValue* set, PyTypeObject* type);
/// The set that a value is, or that it is made into where set methods take any iterable.
SetValue* as_set(Interpreter& in, Value* value);
/// `&`, `|`, `-`, `^` by BinaryOp.
SetValue* set_combine(Interpreter& in, int op, SetValue* a, SetValue* b);
/// `&=`, `|=`, `-=`, `^=` by the number of the plain operator.
void set_change(Interpreter& in, int op, SetValue* set, SetValue* by);
/// `<=` and friends by Py_LT ...
bool set_compare(Interpreter& in, int op, SetValue* a, SetValue* b);

/// What a real dict holds under an exact str or bytes; borrowed, null if nothing. Breaks where looking could run code
/// of another key.
PyObject* plain_item(PyObject* dict, PyObject* name);

}  // namespace stator::capture
