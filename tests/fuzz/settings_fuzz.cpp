// Reads any bytes as the broker's configuration file. What is read can be printed and read again.
#include "broker/server/settings.hpp"
#include "tests/fuzz/fuzz_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static FuzzFile file;
  millrace::broker::Settings settings, again;
  const auto read = millrace::broker::read_settings(file.with(input_of(data, size)), settings);
  if (!read) {
    require(!read.error().message.empty());
    return 0;
  }
  (void)millrace::broker::check_settings(settings);
  const std::string printed = millrace::broker::print_settings(settings);
  require(millrace::broker::read_settings(file.with(printed), again).has_value());
  require(millrace::broker::print_settings(again) == printed);
  return 0;
}
