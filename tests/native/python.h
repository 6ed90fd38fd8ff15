#pragma once

#include <gtest/gtest.h>

#include <string>

#include "capture/pycompat/ref.h"

/// Python objects for tests: what an expression gives, in a namespace of its own.
namespace stator::testing {

class Python {
 public:
  Python() : names_(Ref::steal(PyDict_New())) { run("import torch"); }

  /// The value of an expression.
  Ref operator()(const char* expression) {
    Ref value = Ref::steal(PyRun_String(expression, Py_eval_input, names_.get(), names_.get()));
    if (!value) PyErr_Print();
    EXPECT_TRUE(value) << expression;
    return value;
  }
  void run(const char* statements) {
    Ref done = Ref::steal(PyRun_String(statements, Py_file_input, names_.get(), names_.get()));
    if (!done) PyErr_Print();
    EXPECT_TRUE(done) << statements;
  }

 private:
  Ref names_;
};

}  // namespace stator::testing
