#include "broker/core/prefix_key.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "broker/core/overloaded.hpp"
#include "schemas/base/hash.hpp"

namespace millrace::broker {
namespace {

// A byte that no text in UTF-8 contains ends each role and each content.
constexpr char end_of_text = '\xff';

std::uint64_t key_of(std::string_view beginning) {
  if (beginning.size() < prefix_bytes) return 0;
  return std::max<std::uint64_t>(hash64(beginning.substr(0, prefix_bytes)) >> 11, 1);
}

std::uint64_t key_of(const Tokens& tokens) {
  constexpr std::size_t wanted = prefix_bytes / 4;
  if (tokens.size() < wanted) return 0;
  std::string bytes;
  bytes.reserve(prefix_bytes);
  for (std::size_t i = 0; i < wanted; ++i) {
    const auto id = static_cast<std::uint32_t>(tokens[i]);
    for (const int shift : {0, 8, 16, 24}) bytes += static_cast<char>(id >> shift & 0xff);
  }
  return key_of(bytes);
}

std::uint64_t key_of(const Chat& chat) {
  std::string bytes;
  bytes.reserve(2 * prefix_bytes);
  for (const ChatMessage& message : chat) {
    if (bytes.size() >= prefix_bytes) break;
    bytes.append(message.role) += end_of_text;
    if (message.content) bytes.append(std::string_view(*message.content).substr(0, prefix_bytes));
    bytes += end_of_text;
  }
  return key_of(bytes);
}

}  // namespace

std::uint64_t prefix_key(const Prompt& prompt) {
  return std::visit(Overloaded{
                        [](const std::string& text) { return key_of(std::string_view(text)); },
                        [](const Tokens& tokens) { return key_of(tokens); },
                        [](const Chat& chat) { return key_of(chat); },
                    },
                    prompt);
}

}  // namespace millrace::broker
