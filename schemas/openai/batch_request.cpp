#include <charconv>

#include "schemas/openai/batch_object.hpp"
#include "schemas/openai/check_json.hpp"
#include "schemas/openai/file_object.hpp"
#include "schemas/openai/request_json.hpp"

namespace millrace::openai {
namespace {

constexpr std::uint64_t most_window_s = 30ull * 86'400;
constexpr std::size_t metadata_pairs = 16, metadata_name_letters = 64, metadata_letters = 512;

// A required text of the body.
Result<std::string> text_field(const json& body, const char* name, const char* what) {
  const auto found = body.find(name);
  if (found == body.end()) {
    return fail(Code::missing_field, std::string(name) + ": the request has none", what);
  }
  if (!found->is_string()) {
    return fail(Code::invalid_value, std::string(name) + ": " + type_of(*found) + ", not a string",
                what);
  }
  return found->get<std::string>();
}

// "24h", "90m", "7d", "30s"
Result<std::uint64_t> seconds_of_window(const std::string& window) {
  constexpr const char* hint = "use 24h, or another number of s, m, h or d up to 30d";
  std::uint64_t count = 0, unit_s = 0;
  const char* const end = window.data() + window.size();
  const auto [rest, error] = std::from_chars(window.data(), end, count);
  if (error == std::errc() && rest + 1 == end) {
    unit_s = *rest == 's'   ? 1
             : *rest == 'm' ? 60
             : *rest == 'h' ? 3'600
             : *rest == 'd' ? 86'400
                            : 0;
  }
  if (unit_s == 0 || count == 0) {
    return fail(Code::invalid_value, "completion_window: it is no time such as \"24h\"", hint);
  }
  if (count > most_window_s / unit_s) {
    return fail(Code::invalid_value, "completion_window: it is longer than 30d", hint);
  }
  return count * unit_s;
}

std::size_t letters_of(const std::string& text) {
  std::size_t letters = 0;
  for (const char byte : text) letters += (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  return letters;
}

Status take_metadata(const json& body, BatchRequest& request) {
  const auto found = body.find("metadata");
  if (found == body.end()) return {};
  if (!found->is_object()) {
    return fail(Code::invalid_value, "metadata: " + type_of(*found) + ", not an object");
  }
  if (found->size() > metadata_pairs) {
    return fail(Code::invalid_value,
                "metadata: " + std::to_string(found->size()) + " pairs, and at most 16 are taken");
  }
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) {
      return fail(Code::invalid_value, "metadata: the value of \"" + name + "\" is " +
                                           type_of(value) + ", not a string");
    }
    const auto& text = value.get_ref<const std::string&>();
    if (letters_of(name) > metadata_name_letters || letters_of(text) > metadata_letters) {
      return fail(Code::invalid_value,
                  "metadata: a name has at most 64 characters, and a value 512");
    }
    request.metadata[name] = text;
  }
  return {};
}

Status take_expiry(const json& body, BatchRequest& request) {
  const auto found = body.find("output_expires_after");
  if (found == body.end()) return {};
  if (!found->is_object()) {
    return fail(Code::invalid_value,
                "output_expires_after: " + type_of(*found) + ", not an object");
  }
  const auto anchor = found->find("anchor");
  const auto seconds = found->find("seconds");
  std::optional<std::int64_t> given;
  if (seconds != found->end() && seconds->is_number_integer()) given = seconds->get<std::int64_t>();
  MILLRACE_ASSIGN(
      request.output_expires_s,
      check_expiry("output_expires_after",
                   anchor != found->end() && anchor->is_string() ? anchor->get<std::string>() : "",
                   given));
  return {};
}

}  // namespace

Result<BatchRequest> parse_batch_request(std::string_view text) {
  MILLRACE_TRY(check_json(text));
  json body = json::parse(text, nullptr, false);
  if (!body.is_object()) {
    return fail(Code::invalid_json, "the request is " + type_of(body) + ", not an object");
  }
  drop_nulls(body);
  BatchRequest request;
  MILLRACE_ASSIGN(request.input_file,
                  text_field(body, "input_file_id", "upload a file with POST /v1/files"));
  MILLRACE_ASSIGN(const std::string path,
                  text_field(body, "endpoint", "use /v1/chat/completions or /v1/completions"));
  const auto endpoint = endpoint_of(path);
  if (!endpoint) {
    return fail(Code::invalid_value, "endpoint: this server has no batches for " + path,
                "use /v1/chat/completions or /v1/completions");
  }
  request.endpoint = *endpoint;
  MILLRACE_ASSIGN(request.window, text_field(body, "completion_window", "use 24h"));
  MILLRACE_ASSIGN(request.window_s, seconds_of_window(request.window));
  MILLRACE_TRY(take_metadata(body, request));
  MILLRACE_TRY(take_expiry(body, request));
  return request;
}

}  // namespace millrace::openai
