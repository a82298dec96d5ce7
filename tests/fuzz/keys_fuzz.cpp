// Reads any bytes as a list of allowed keys, and as a key file. No error may show what could be a
// secret.
#include "schemas/keys/grants.hpp"
#include "schemas/keys/key_file.hpp"
#include "tests/fuzz/fuzz_file.hpp"

namespace {

void grants(std::string_view text) {
  const auto read = millrace::parse_grants(text);
  if (!read) return;
  for (const auto& grant : *read) require(millrace::check_grant(grant).has_value());
  const auto again = millrace::parse_grants(millrace::format_grants(*read));
  require(again && *again == *read);
}

void key_file(std::string_view text) {
  static FuzzFile file;
  const auto key = millrace::read_key_file(file.with(text));
  if (key) return require(millrace::check_public_key(key->public_key).has_value());
  const std::size_t at = text.find("secret ");
  if (at == text.npos) return;
  const std::string_view secret = text.substr(at + 7, millrace::public_key_bytes);
  const bool shown = key.error().text().find(secret) != std::string::npos;
  require(secret.size() < millrace::public_key_bytes || !shown);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  grants(input_of(data, size));
  key_file(input_of(data, size));
  return 0;
}
