#include "schemas/base/command_units.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "schemas/base/limits.hpp"

namespace millrace {

void takes_duration(CLI::Option& option) {
  const std::map<std::string, std::uint64_t> units{
      {"s", 1}, {"m", 60}, {"h", 3'600}, {"d", 86'400}};
  option.type_name("TIME");
  option.transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"));
  option.check(CLI::Range(std::uint64_t{0}, limits::keep_s, "TIME"));
}

void takes_size(CLI::Option& option) {
  option.type_name("SIZE");
  option.transform(CLI::AsSizeValue(false));
}

}  // namespace millrace
