// Reads any bytes as a frame, which the codec must decode or refuse.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "schemas/codec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view frame(reinterpret_cast<const char*>(data), size);
  (void)millrace::peek_id(frame);
  const auto decoded = millrace::decode_envelope(frame);
  if (!decoded) return 0;
  // A decoded envelope must survive encoding and decoding.
  const std::string again = millrace::encode(*decoded);
  const auto second = millrace::decode_envelope(again);
  if (!second || millrace::encode(*second) != again) std::abort();
  return 0;
}
