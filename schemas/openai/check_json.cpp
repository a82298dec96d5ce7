#include "schemas/openai/check_json.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "schemas/base/limits.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::openai {
namespace {

using nlohmann::json;

// nlohmann declares these parameters by value, so the unused ones cannot be references.
class Checker final : public nlohmann::json_sax<json> {
 public:
  explicit Checker(std::string_view text) : text_(text) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t& digits) override {
    if (digits.find_first_of(".eE") != string_t::npos) {
      return true;
    }
    error_ = Error{Code::invalid_value, "the number " + digits + " does not fit 64 bits",
                   "give a smaller number"};
    return false;
  }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return enter();
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) {
      return true;
    }
    error_ = Error{Code::invalid_json, "the key \"" + name + "\" occurs twice in one object",
                   "keep one of them"};
    return false;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const json::exception& reason) override {
    if (reason.id == 406) {
      error_ = Error{Code::invalid_value, "the number " + token + " is out of range",
                     "give one that a 64-bit float can hold"};
      return false;
    }
    const std::size_t column = position == 0 ? 1 : position;
    if (column > text_.size() && token.find('"') == std::string::npos) {
      error_ = Error{Code::invalid_json, "the JSON value ends before it is complete",
                     "write one whole JSON object on each line, or as the body of a request"};
      return false;
    }
    const std::string near(text_.substr(column - 1 < 12 ? 0 : column - 13, 24));
    error_ = Error{Code::invalid_json,
                   "not valid JSON at column " + std::to_string(column) + ", near '" +
                       utf8_replace_invalid(near) + "'",
                   advice(near, reason.what())};
    return false;
  }

  Error error() const { return error_; }

 private:
  static std::string advice(std::string_view near, std::string_view reason) {
    if (near.find("NaN") != near.npos || near.find("Infinity") != near.npos) {
      return "JSON has no NaN or Infinity: leave the field out";
    }
    if (reason.find("surrogate") != reason.npos) {
      return "write \\ud800 to \\udfff in pairs only: a high one, then a low one";
    }
    return "write one JSON object on each line, or as the body of a request";
  }
  bool enter() {
    if (++depth_ <= limits::message_depth) {
      return true;
    }
    error_ = Error{Code::limit_exceeded,
                   "JSON nested deeper than " + std::to_string(limits::message_depth) + " levels",
                   "give a flatter value"};
    return false;
  }

  std::string_view text_;
  std::vector<std::set<std::string, std::less<>>> keys_;
  std::size_t depth_ = 0;
  Error error_;
};

}  // namespace

Status check_json(std::string_view text) {
  if (!utf8_valid(text)) {
    return fail(Code::invalid_utf8,
                "invalid UTF-8 at byte " + std::to_string(utf8_valid_prefix(text) + 1),
                "save the file as UTF-8");
  }
  Checker checker(text);
  if (!json::sax_parse(text, &checker)) {
    return fail(checker.error());
  }
  return {};
}

}  // namespace millrace::openai
