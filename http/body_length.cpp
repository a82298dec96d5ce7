#include "http/body_length.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace millrace::http {
namespace {

bool is_token(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(letter) != std::string_view::npos;
}

Result<std::uint64_t> number_of(std::string_view value) {
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
  if (!value.empty() && error == std::errc{} && end == value.data() + value.size()) return length;
  return fail(Code::invalid_value, "the header Content-Length is not one number");
}

}  // namespace

Result<std::optional<std::uint64_t>> body_length(const Headers& headers) {
  std::optional<std::uint64_t> bytes;
  bool chunked = false, host = false;
  for (const auto& [name, value] : headers) {
    if (name.empty() || !std::ranges::all_of(name, is_token)) {
      return fail(Code::invalid_value, "a header's name has a character that no name may have",
                  "write the colon at once after the name");
    }
    if (same_name(name, "Host") && std::exchange(host, true)) {
      return fail(Code::invalid_value, "the request has several headers Host");
    }
    if (same_name(name, "Transfer-Encoding")) {
      if (std::exchange(chunked, true) || !same_name(value, "chunked")) {
        return fail(Code::invalid_value, "the header Transfer-Encoding is not one \"chunked\"",
                    "send the body as it is, without compressing it");
      }
    }
    if (same_name(name, "Content-Length")) {
      if (bytes) return fail(Code::invalid_value, "the header Content-Length is not one number");
      MILLRACE_ASSIGN(bytes, number_of(value));
    }
  }
  if (chunked && bytes) {
    return fail(Code::invalid_value, "the request has Content-Length and Transfer-Encoding");
  }
  if (chunked) return std::nullopt;
  return bytes.value_or(0);
}

}  // namespace millrace::http
