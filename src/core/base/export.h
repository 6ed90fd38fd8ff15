#pragma once

/// Marks what libstator_core exports; everything else is hidden.
#define STATOR_API __attribute__((visibility("default")))
