#pragma once
// The order in which people look for names. Thread safety: any thread.
#include <string_view>

namespace millrace::broker {

// Whether `one` stands before `other`: byte for byte, but runs of digits by their value, so that
// gpu-2 stands before gpu-10. Of names that differ in leading zeros alone, such as 01 and 1, the
// order is that of their bytes.
bool stands_before(std::string_view one, std::string_view other);

}  // namespace millrace::broker
