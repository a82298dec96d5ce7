// Reads packed blocks of a type on stdin and writes fp32 on stdout, for test_dequantize.py.
//   dequantize_probe TYPE_NUMBER < blocks > floats
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/core/gguf/dequantize.hpp"

int main(int argc, char** argv) {
  using namespace millrace::engine;
  if (argc != 2) return 2;
  const auto number = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10));
  const auto* const traits = find_tensor_type(number);
  if (traits == nullptr) {
    std::fprintf(stderr, "%s is not supported\n", tensor_type_name(number).c_str());
    return 3;
  }
  std::vector<std::byte> packed;
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    packed.push_back(static_cast<std::byte>(c));
  }
  std::vector<float> out(packed.size() / traits->block_bytes * traits->block_elements);
  if (const auto status = dequantize(traits->type, packed, out); !status) {
    std::fprintf(stderr, "%s\n", status.error().text().c_str());
    return 1;
  }
  return std::fwrite(out.data(), sizeof(float), out.size(), stdout) == out.size() ? 0 : 1;
}
