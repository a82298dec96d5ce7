#pragma once
// Helpers that expect a job to be accepted, or to be refused with a code and a message.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "schemas/codec.hpp"
#include "tests/unit/schemas/build.hpp"

namespace millrace {

inline DecodedJob accepted(const std::string& body) {
  auto decoded = decode_job(body);
  if (!decoded) {
    ADD_FAILURE() << decoded.error().text();
    return {};
  }
  return *std::move(decoded);
}
inline Error refused(const std::string& body) {
  const auto decoded = decode_job(body);
  if (decoded) {
    ADD_FAILURE() << "was accepted";
    return {};
  }
  return decoded.error();
}
// A job with one more field.
inline std::string with(std::string_view key, const std::string& value) {
  return build::map({{"prompt", build::str("hi")}, {key, value}});
}
#define EXPECT_REFUSED(body, expected_code, word)                                     \
  do {                                                                                \
    const Error error = refused(body);                                                \
    EXPECT_EQ(code_name(error.code), code_name(Code::expected_code)) << error.text(); \
    EXPECT_NE(error.text().find(word), std::string::npos) << error.text();            \
  } while (false)

}  // namespace millrace
