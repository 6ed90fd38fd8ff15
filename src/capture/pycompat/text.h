#pragma once

#include <string>
#include <string_view>

#include "capture/pycompat/ref.h"

/// Texts of Python's str objects. A str can hold code points that UTF-8 cannot express: those of file names whose bytes
/// are no UTF-8, for one. These functions run no code of the program, and leave Python's error as it was.
namespace stator {

/// The text of a str for people, logs and files, always valid UTF-8: what UTF-8 cannot express is an escape like
/// `\udcff`. `otherwise` for null and for other objects.
std::string text_of(PyObject* object, std::string_view otherwise = "?");

/// The text of a str from which `exact_str` makes an equal str. It may be invalid UTF-8: only for messages of
/// exceptions, which must equal the plain program's.
std::string exact_text_of(PyObject* str);
/// The str of an exact text, or of any other valid UTF-8. Other invalid bytes become U+FFFD. Null with an error set if
/// there is no memory.
Ref exact_str(std::string_view text);

}  // namespace stator
