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
#define X(name, status, summary, advice)                          \
  EXPECT_EQ(code_name(Code::name), #name);                        \
  EXPECT_EQ(code_from_name(#name), Code::name);                   \
  EXPECT_EQ(code_http_status(Code::name), status);                \
  EXPECT_EQ(code_summary(Code::name), std::string_view(summary)); \
  EXPECT_EQ(code_advice(Code::name), std::string_view(advice));   \
  ++count;
  MILLRACE_ERROR_CODES(X)
#undef X
  EXPECT_GT(count, 40u);
  EXPECT_EQ(code_from_name("no_such_code"), std::nullopt);
}

TEST(Error, EachCodeHasAStatusAndSaysWhatToDo) {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(Code::internal); ++i) {
    const auto code = static_cast<Code>(i);
    EXPECT_GE(code_http_status(code), 400) << code_name(code);
    EXPECT_LT(code_http_status(code), 600) << code_name(code);
    EXPECT_GT(code_advice(code).size(), 10u) << code_name(code);
    EXPECT_FALSE(code_advice(code).ends_with('.')) << code_name(code);
  }
}

TEST(Error, WhatToDoIsTheHintOrTheCodesAdvice) {
  EXPECT_EQ((Error{Code::conflict, "m", "h"}).what_to_do(), "h");
  EXPECT_EQ((Error{Code::conflict, "m", ""}).what_to_do(), code_advice(Code::conflict));
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
