#include <gtest/gtest.h>

/// Runs the tests of this module; `arguments` are those of GoogleTest. The GIL is held.
extern "C" __attribute__((visibility("default"))) int stator_run_tests(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
