#pragma once

/// Marks a declaration that the shared library exports. All others are hidden.
#define TAPESTRY_API __attribute__((visibility("default")))
