#include "schemas/openai/check_json.hpp"

#include <gtest/gtest.h>

#include "schemas/base/limits.hpp"

namespace millrace::openai {
namespace {

Error refused(std::string_view text) {
  const Status status = check_json(text);
  EXPECT_FALSE(status.has_value()) << text;
  return status ? Error{} : status.error();
}

TEST(CheckJson, AcceptsValidJson) {
  EXPECT_TRUE(check_json(R"({"a":[1,-2,3.5e10,true,null,"\u00e9"],"b":{"a":1}})"));
}

TEST(CheckJson, BadJsonNamesTheColumn) {
  const Error error = refused(R"({"a": 1,, "b": 2})");
  EXPECT_EQ(error.code, Code::invalid_json);
  EXPECT_NE(error.message.find("column 9"), std::string::npos) << error.message;
}

TEST(CheckJson, ATornLineIsReportedAsIncomplete) {
  EXPECT_EQ(refused(R"({"a": [1, 2)").code, Code::invalid_json);
  EXPECT_NE(refused(R"({"a": [1, 2)").message.find("ends before"), std::string::npos);
}

TEST(CheckJson, RefusesNanAndInfinity) {
  for (const char* text : {R"({"temperature": NaN})", R"({"temperature": Infinity})",
                           R"({"temperature": -Infinity})"}) {
    const Error error = refused(text);
    EXPECT_EQ(error.code, Code::invalid_json);
    EXPECT_NE(error.hint.find("NaN"), std::string::npos) << error.text();
  }
}

TEST(CheckJson, NumberBeyondADouble) {
  EXPECT_EQ(refused(R"({"temperature": 1e999})").code, Code::invalid_value);
}

TEST(CheckJson, WholeNumberBeyond64Bits) {
  const Error error = refused(R"({"seed": 18446744073709551616})");
  EXPECT_EQ(error.code, Code::invalid_value);
  EXPECT_NE(error.message.find("18446744073709551616 does not fit 64 bits"), std::string::npos);
  EXPECT_TRUE(check_json(R"({"seed": 18446744073709551615, "x": 1e30})"));
}

TEST(CheckJson, ALoneSurrogateIsExplained) {
  EXPECT_NE(refused(R"({"a": "\ud800b"})").hint.find("pairs"), std::string::npos);
}

TEST(CheckJson, InvalidUtf8NamesTheByte) {
  const Error error = refused("{\"a\": \"\xff\"}");
  EXPECT_EQ(error.code, Code::invalid_utf8);
  EXPECT_NE(error.message.find("byte 8"), std::string::npos) << error.message;
}

TEST(CheckJson, AKeyTwiceInOneObject) {
  EXPECT_EQ(refused(R"({"a": 1, "b": {"a": 2}, "a": 3})").code, Code::invalid_json);
}

TEST(CheckJson, DepthIsBounded) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(check_json(nested(limits::message_depth)));
  EXPECT_EQ(refused(nested(limits::message_depth + 1)).code, Code::limit_exceeded);
  EXPECT_EQ(refused(std::string(1'000'000, '[')).code, Code::limit_exceeded);
}

}  // namespace
}  // namespace millrace::openai
