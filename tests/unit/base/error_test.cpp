#include "schemas/base/error.hpp"

#include <gtest/gtest.h>

namespace millrace {
namespace {

Status refuse_odd(int value) {
  if (value % 2 != 0) return fail(Code::invalid_value, "odd", "give an even one");
  return {};
}
Result<int> half(int value) {
  MILLRACE_TRY(refuse_odd(value));
  return value / 2;
}
Result<int> quarter(int value) {
  MILLRACE_ASSIGN(const int once, half(value));
  MILLRACE_ASSIGN(const int twice, half(once));
  return twice;
}

TEST(Error, NamesRoundTrip) {
  std::size_t count = 0;
#define X(name, status, text)                                  \
  EXPECT_EQ(code_name(Code::name), #name);                     \
  EXPECT_EQ(code_from_name(#name), Code::name);                \
  EXPECT_EQ(code_http_status(Code::name), status);             \
  EXPECT_EQ(code_summary(Code::name), std::string_view(text)); \
  ++count;
  MILLRACE_ERROR_CODES(X)
#undef X
  EXPECT_GT(count, 40u);
  EXPECT_EQ(code_from_name("no_such_code"), std::nullopt);
}

TEST(Error, TextIsOneLineWithTheHint) {
  EXPECT_EQ((Error{Code::io_error, "m", "h"}).text(), "io_error: m (h)");
  EXPECT_EQ((Error{Code::io_error, "m", ""}).text(), "io_error: m");
}

TEST(Error, MacrosPassErrorsOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(7).error().code, Code::invalid_value);
  EXPECT_EQ(quarter(6).error().hint, "give an even one");
}

}  // namespace
}  // namespace millrace
