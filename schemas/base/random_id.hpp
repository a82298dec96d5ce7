#pragma once
// Random ids from the kernel's generator: epochs, broker ids, routing ids, job ids.
// Thread safety: any thread.
#include <cstdint>
#include <string>

namespace millrace {

std::string random_id();      // 128 bits as 32 hex digits
std::uint64_t random_bits();  // 64 bits, e.g. a seed for back-off jitter

}  // namespace millrace
