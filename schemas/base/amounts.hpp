#pragma once
// Sizes and times as people write them on command lines and in settings. Thread safety: pure
// functions.
#include <cstdint>
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace {

// Bytes: "2GiB", "512 MiB", "1.5GB", "64M" or "1000000", in capitals or not. K, M, G and T alone
// are powers of 1024, as KiB, MiB, GiB and TiB; KB, MB, GB and TB are powers of 1000. Errors:
// usage, naming the text and how to write it.
Result<std::uint64_t> parse_size(std::string_view text);

// Seconds: "90", "90s", "15m", "12h", "30d" or "1.5h". Errors: usage, as above.
Result<std::uint64_t> parse_duration(std::string_view text);

}  // namespace millrace
