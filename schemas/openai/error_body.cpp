#include "schemas/openai/error_body.hpp"

#include <algorithm>
#include <array>

#include "schemas/job_table.hpp"

namespace millrace::openai {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view path_characters = "abcdefghijklmnopqrstuvwxyz_0123456789.[]";

// The fields of requests about files and batches; a message about one has a colon after its name.
constexpr std::array<std::string_view, 11> other_fields = {
    "after", "completion_window", "endpoint", "expires_after",        "file",   "input_file_id",
    "limit", "metadata",          "order",    "output_expires_after", "purpose"};

// The path that a message begins with, if its first name is one of a job's fields.
std::string_view leading_path(std::string_view message) {
  const std::string_view name = message.substr(0, message.find_first_not_of(letters));
  if (message.substr(name.size()).starts_with(':') &&
      std::ranges::find(other_fields, name) != other_fields.end()) {
    return name;
  }
  if (name.empty() || find_job_field(name) == nullptr) return {};
  std::string_view path = message.substr(0, message.find_first_not_of(path_characters));
  while (path.ends_with('.')) path.remove_suffix(1);
  return path;
}

// The field that an error with this code is about where its message does not begin with one.
std::string_view usual_param(Code code) {
  switch (code) {
    case Code::unknown_model:
      return "model";
    case Code::no_chat_template:
    case Code::template_error:
    case Code::template_unsupported:
      return "messages";
    case Code::fingerprint_mismatch:
      return "require_fingerprint";
    default:
      return {};
  }
}

// Whether a text begins with what is typed as it stands: a command, an option, a field.
bool begins_with_name(std::string_view text) {
  const std::string_view word = text.substr(0, text.find_first_not_of(letters));
  const std::string_view rest = text.substr(word.size());
  return word.empty() || word.contains('_') || word == "millrace" ||
         find_job_field(word) != nullptr || (!rest.empty() && !" ,;:"sv.contains(rest.front()));
}

void write_body(JsonWriter& json, const Error& error, std::string_view message, int http_status) {
  json.begin_object().key("error").begin_object().field("message", message);
  json.field("type", error_type(http_status)).key("param");
  if (const std::string param = error_param(error); param.empty()) {
    json.null();
  } else {
    json.value(param);
  }
  json.field("code", code_name(error.code)).field("hint", error.what_to_do());
  json.end_object().end_object();
}

}  // namespace

std::string_view error_type(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string error_param(const Error& error) {
  if (code_http_status(error.code) >= 500) return {};
  constexpr std::string_view unknown = "unknown field ";  // as the job's decoder says it
  std::string_view message = error.message;
  if (error.code == Code::unknown_field && message.starts_with(unknown) &&
      message.size() > unknown.size()) {
    message.remove_prefix(unknown.size() + 1);  // it stands in quotes
    return std::string(message.substr(0, message.find('\'')));
  }
  const std::string_view path = leading_path(message);
  return std::string(path.empty() ? usual_param(error.code) : path);
}

std::string whole_message(const Error& error) {
  std::string text = error.message;
  std::string hint(error.what_to_do());
  if (text.empty() || hint.empty()) return text + hint;
  if (!begins_with_name(hint)) hint.front() = static_cast<char>(hint.front() - 'a' + 'A');
  if (!".!?"sv.contains(text.back())) text += '.';
  return text + ' ' + hint;
}

std::string error_body(const Error& error) {
  return error_body(error, code_http_status(error.code));
}

std::string error_body(const Error& error, int http_status) {
  std::string out;
  JsonWriter json(out);
  write_body(json, error, whole_message(error), http_status);
  return out;
}

void write_error_body(JsonWriter& json, const Error& error) {
  write_body(json, error, error.message, code_http_status(error.code));
}

}  // namespace millrace::openai
