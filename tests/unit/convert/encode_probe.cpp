// Reads fp32 values on stdin and writes them as blocks of a type on stdout, for test_encode.py.
//   encode_probe TYPE_NUMBER < floats > blocks
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/core/convert/encode.hpp"

int main(int argc, char** argv) {
  using namespace millrace::engine;
  if (argc != 2) return 2;
  const auto number = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10));
  const auto* const traits = find_tensor_type(number);
  if (traits == nullptr || !can_encode(traits->type)) {
    std::fprintf(stderr, "%s has no encoder\n", tensor_type_name(number).c_str());
    return 3;
  }
  std::vector<float> values;
  for (float value; std::fread(&value, sizeof value, 1, stdin) == 1;) values.push_back(value);
  std::vector<std::byte> out(values.size() / traits->block_elements * traits->block_bytes);
  if (const auto status = encode(traits->type, values, out); !status) {
    std::fprintf(stderr, "%s\n", status.error().text().c_str());
    return 1;
  }
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
}
