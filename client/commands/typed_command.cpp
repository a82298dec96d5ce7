#include "client/commands/typed_command.hpp"

#include <string_view>
#include <utility>

#include "client/commands/command.hpp"

namespace millrace::client {
namespace {

std::string shell_word(std::string_view word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) {
    return std::string(word);
  }
  std::string out = "'";
  for (const char byte : word) {
    out += byte == '\'' ? "'\\''" : std::string(1, byte);
  }
  return out + "'";
}

}  // namespace

std::string typed_command(const Invocation& invocation, const std::string& option,
                          const std::string& value) {
  std::string out = "millrace";
  std::string added = value.empty() ? "" : " " + option + " " + shell_word(value);
  for (char** word = invocation.arguments + 1; *word != nullptr; ++word) {
    const std::string_view text = *word;
    if (text == option && word[1] != nullptr) {
      ++word;
      continue;
    }
    if (text.starts_with(option + "=")) {
      continue;
    }
    if (text == "--") {  // no options follow
      out += std::exchange(added, "");
    }
    out += " " + shell_word(text);
  }
  return out + added;
}

}  // namespace millrace::client
