#pragma once
// Counts what the calling thread allocates with `new`; a test looks at the difference.
#include <cstddef>

std::size_t allocations();
