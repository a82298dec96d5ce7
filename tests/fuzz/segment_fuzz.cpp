// Reads any bytes as a file of KV pages. Items are served only where they match their checksums.
#include <algorithm>
#include <vector>

#include "engine/core/prefix/segment.hpp"
#include "tests/fuzz/fuzz_file.hpp"

namespace {

constexpr std::uint64_t most_bytes = 1 << 20;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  static FuzzFile file;
  static const auto env = posix_env();
  const std::string& path = file.with(input_of(data, size));
  const auto header = engine::read_segment_header(*env, path);
  if (!header) return 0;
  require(header->bytes == size);
  const engine::Segment& segment = header->segment;
  const std::uint64_t item = segment.item_bytes();
  if (item == 0 || item > most_bytes) return 0;
  const std::uint32_t items =
      std::min<std::uint32_t>(segment.items(), static_cast<std::uint32_t>(most_bytes / item));
  std::vector<char> into(items * item);
  (void)engine::read_segment_items(*env, path, segment, 0, into);
  engine::Segment other = segment;
  other.path.push_back(1);
  require(!engine::read_segment_items(*env, path, other, 0, into).has_value());
  return 0;
}
