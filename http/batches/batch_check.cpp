#include "http/batches/batch_check.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "schemas/base/utf8.hpp"
#include "schemas/openai/error_body.hpp"

namespace millrace::http {
namespace {

constexpr int lines_at_once = 256;
constexpr std::size_t told_bytes = 500;  // of a message, which may quote the line

// OpenAI's names, where it has one for what is wrong.
std::string code_of(Code code) {
  if (code == Code::invalid_json || code == Code::invalid_utf8) return "invalid_json_line";
  if (code == Code::missing_field) return "missing_required_parameter";
  return std::string(code_name(code));
}

// The field of a line that a message about it names.
std::string param_of(std::string_view message) {
  constexpr std::array<std::string_view, 4> names = {"custom_id", "method", "url", "body"};
  for (const std::string_view name : names) {
    if (message.starts_with(name) || message.ends_with(" no " + std::string(name))) {
      return std::string(name);
    }
  }
  return {};
}

std::string cut(std::string text) {
  if (text.size() <= told_bytes) return text;
  text.resize(told_bytes);
  text.resize(utf8_complete_prefix(text));
  return text + "...";
}

}  // namespace

Result<bool> BatchCheck::step() {
  for (int i = 0; i < lines_at_once; ++i) {
    client::InputLine line;
    MILLRACE_ASSIGN(const bool more, reader_.next(line));
    if (!more && lines_ == 0) {
      errors_.push_back({.code = "empty_file", .message = "the file has no line with a request"});
    }
    if (!more) return false;
    if (lines_ == lines_at_most_) {
      errors_.push_back({.code = "limit_exceeded",
                         .message = "the file has more than the " + std::to_string(lines_at_most_) +
                                    " requests of a batch",
                         .line = line.number});
      return false;
    }
    ++lines_;
    last_line_ = line.number;
    check(line);
    if (errors_.size() >= most_errors) return false;
  }
  return true;
}

void BatchCheck::check(const client::InputLine& line) {
  const client::ParsedLine parsed = client::parse_line(line, {.own_queue = true, .echo = true});
  const auto wrong = [&](std::string code, std::string message, std::string param) {
    errors_.push_back(
        {std::move(code), cut(std::move(message)), cut(std::move(param)), line.number});
  };
  if (parsed.error && !parsed.error_in_body) {
    const Error& error = *parsed.error;
    return wrong(code_of(error.code), openai::whole_message(error), param_of(error.message));
  }
  if (!parsed.endpoint) {
    return wrong("missing_required_parameter",
                 "the line has no url, method and body, as a request of the Batch API has; "
                 "millrace submit takes lines that are jobs alone",
                 "url");
  }
  if (*parsed.endpoint != endpoint_) {
    return wrong("invalid_url",
                 "url is " + std::string(openai::path_of(*parsed.endpoint)) +
                     ", and the batch is for " + std::string(openai::path_of(endpoint_)),
                 "url");
  }
  if (!parsed.custom_id || parsed.custom_id->empty()) {
    return wrong("missing_required_parameter", "the line has no custom_id", "custom_id");
  }
  if (const auto first = custom_ids_.add(*parsed.custom_id, line.number)) {
    wrong("duplicate_custom_id",
          "custom_id \"" + *parsed.custom_id + "\" is that of line " + std::to_string(*first),
          "custom_id");
  }
}

}  // namespace millrace::http
