#pragma once
// The number of allocations that the calling thread has made with `new`. A test compares two
// values.
#include <cstddef>

std::size_t allocations();
