#include "schemas/base/json_writer.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace millrace {
namespace {

TEST(JsonWriter, StructureAndEscapes) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("a", 1).key("b").begin_array().value(true).null().value("x\"\\\n\x01");
  json.end_array().key("c").begin_object().end_object().field("d", "\xff").end_object();
  EXPECT_EQ(out,
            "{\"a\":1,\"b\":[true,null,\"x\\\"\\\\\\n\\u0001\"],\"c\":{},\"d\":\"\xEF\xBF\xBD\"}");
}

TEST(JsonWriter, EscapesWhatReadersTakeForALineEnd) {
  const std::string text =
      "a\xc2\x85"
      "b\xe2\x80\xa8"
      "c\xe2\x80\xa9"
      "d\xc3\xa9\xe2\x80\xa6";
  std::string out;
  JsonWriter(out).value(text);
  EXPECT_EQ(out, "\"a\\u0085b\\u2028c\\u2029d\xc3\xa9\xe2\x80\xa6\"");
  EXPECT_EQ(nlohmann::json::parse(out).get<std::string>(), text);
}

TEST(JsonWriter, FloatsKeepTheirBits) {
  for (const float value : {0.1F, -1.5F, 3.4028235e38F, 1e-45F, -12.345678F, 0.0F}) {
    std::string out;
    JsonWriter(out).value(value);
    const auto read = static_cast<float>(nlohmann::json::parse(out).get<double>());
    EXPECT_EQ(std::bit_cast<std::uint32_t>(read), std::bit_cast<std::uint32_t>(value)) << out;
  }
  std::string out;
  JsonWriter(out).value(0.1F);
  EXPECT_EQ(out, "0.1");
}

TEST(JsonWriter, WhatJsonCannotSayIsNull) {
  std::string out;
  JsonWriter json(out);
  json.begin_array().value(std::nanf("")).value(-std::numeric_limits<float>::infinity());
  json.value(std::numeric_limits<double>::infinity()).end_array();
  EXPECT_EQ(out, "[null,null,null]");
}

}  // namespace
}  // namespace millrace
