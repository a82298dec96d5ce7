#include "schemas/base/command_units.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "schemas/base/amounts.hpp"
#include "schemas/base/limits.hpp"

namespace millrace {
namespace {

// Has `parse` read the option's text. What is wrong with it becomes the message of the option.
void takes(CLI::Option& option, Result<std::uint64_t> (*parse)(std::string_view)) {
  option.transform(CLI::Validator(
      [parse](std::string& text) -> std::string {
        const auto amount = parse(text);
        if (!amount) return amount.error().message + "; " + amount.error().hint;
        text = std::to_string(*amount);
        return {};
      },
      ""));
}

}  // namespace

void takes_duration(CLI::Option& option) {
  option.type_name("TIME");
  takes(option, parse_duration);
  option.check(CLI::Range(std::uint64_t{0}, limits::keep_s, "TIME"));
}

void takes_size(CLI::Option& option) {
  option.type_name("SIZE");
  takes(option, parse_size);
}

}  // namespace millrace
