#include "http/header_parameters.hpp"

#include <gtest/gtest.h>

namespace millrace::http {
namespace {

// The value and the parameters, each in parentheses.
std::string parsed(std::string_view text) {
  const auto header = parse_header_value(text);
  if (!header) return "error: " + header.error().message;
  std::string all = header->value;
  for (const auto& [name, value] : header->parameters) all += " " + name + "(" + value + ")";
  return all;
}

TEST(HeaderParameters, TokensAndQuotesInAnyOrderAndCase) {
  EXPECT_EQ(parsed("text/plain"), "text/plain");
  EXPECT_EQ(parsed("Multipart/Form-Data; Charset=utf-8; BOUNDARY=aB"),
            "multipart/form-data charset(utf-8) boundary(aB)");
  EXPECT_EQ(parsed("form-data;name=file;filename=a.jsonl"),
            "form-data name(file) filename(a.jsonl)");
  EXPECT_EQ(parsed(" form-data ;\tname = \"a b\" ; ; x=\"\";"), "form-data name(a b) x()");
  EXPECT_EQ(parsed("a; b=----=_Part/1:2?(3)"), "a b(----=_Part/1:2?(3))");
  EXPECT_EQ(parsed("a; filename=\u00e9.jsonl"), "a filename(\u00e9.jsonl)");
}

TEST(HeaderParameters, WhatIsInQuotesIsNoParameter) {
  EXPECT_EQ(parsed(R"(form-data; filename="x name=zzz; name=\"y\""; name="file")"),
            R"(form-data filename(x name=zzz; name="y") name(file))");
}

TEST(HeaderParameters, BackslashesEscapeQuotesAndThemselvesAlone) {
  EXPECT_EQ(parsed(R"(a; n="a\"b.jsonl")"), R"(a n(a"b.jsonl))");
  EXPECT_EQ(parsed(R"(a; n="C:\new\\x\")"),
            "error: the value of the parameter n has no closing quote");
  EXPECT_EQ(parsed(R"(a; n="C:\new\\x\\")"), R"(a n(C:\new\x\))");
  EXPECT_EQ(parsed(R"(a; n="%22 %0D%0A %41")"), "a n(%22 %0D%0A %41)");
}

TEST(HeaderParameters, WhatIsMalformed) {
  for (const std::string_view bad :
       {"a b=c", "a; b", "a; b; c=d", "a; =b", "a; b=", "a; b= ; c=d", "a; b=c d", "a; b=\"c\"d",
        "a; b=\"c", "a; b=\"", "a; b=c\"d\"", "a; b=c; B=d", "a; b\xc3\xa9=c", "a; b=\x01"}) {
    const auto header = parse_header_value(bad);
    ASSERT_FALSE(header) << bad;
    EXPECT_EQ(header.error().code, Code::invalid_value);
    EXPECT_FALSE(header.error().message.empty() || header.error().hint.empty()) << bad;
  }
}

TEST(ExtendedValues, AreUtf8InTheEnd) {
  EXPECT_EQ(decode_extended_value("UTF-8''a%20b.jsonl"), "a b.jsonl");
  EXPECT_EQ(decode_extended_value("utf-8'en'%c3%A9'"), "\u00e9'");
  EXPECT_EQ(decode_extended_value("ISO-8859-1''%E9%ffa"), "\u00e9\u00ffa");
  EXPECT_EQ(decode_extended_value("utf-8''"), "");
  for (const std::string_view bad :
       {"", "a.jsonl", "utf-8'a", "''a", "utf-16''a", "utf-8''%", "utf-8''%4", "utf-8''%4x",
        "utf-8''%+1", "utf-8''%ff", "utf-8''\xc3\xa9", "iso-8859-1''\xe9"}) {
    EXPECT_FALSE(decode_extended_value(bad)) << bad;
  }
}

}  // namespace
}  // namespace millrace::http
