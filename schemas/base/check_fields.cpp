#include "schemas/base/check_fields.hpp"

#include "schemas/base/utf8.hpp"

namespace millrace {

std::string item_name(std::string_view field, std::size_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

Status check_size(std::string_view field, std::uint64_t count, std::string_view unit,
                  std::uint64_t limit) {
  if (count <= limit) return {};
  std::string message(field);
  message.append(" has ").append(std::to_string(count)).append(" ").append(unit);
  message.append(", the limit is ").append(std::to_string(limit));
  return fail(Code::limit_exceeded, std::move(message), "give fewer");
}

Status check_text(const std::string& field, const std::string& text, std::uint64_t most_bytes,
                  const char* if_empty) {
  if (text.empty()) return fail(Code::invalid_value, field + " is empty", if_empty);
  MILLRACE_TRY(check_size(field, text.size(), "bytes", most_bytes));
  if (utf8_valid(text)) return {};
  return fail(Code::invalid_utf8, field + " is not valid UTF-8", "send text as UTF-8");
}

Status check_texts(std::string_view field, const std::vector<std::string>& texts,
                   std::uint64_t most, std::uint64_t most_bytes) {
  MILLRACE_TRY(check_size(field, texts.size(), "strings", most));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    MILLRACE_TRY(check_text(item_name(field, i), texts[i], most_bytes));
  }
  return {};
}

Status check_sequences(std::string_view field, const std::vector<Tokens>& sequences,
                       std::uint64_t most, std::uint64_t most_tokens) {
  MILLRACE_TRY(check_size(field, sequences.size(), "sequences", most));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::string name = item_name(field, i);
    if (sequences[i].empty()) return fail(Code::invalid_value, name + " is empty", "leave it out");
    MILLRACE_TRY(check_size(name, sequences[i].size(), "tokens", most_tokens));
  }
  return {};
}

}  // namespace millrace
