#include "schemas/base/check_field.hpp"

#include <algorithm>
#include <cmath>

#include "schemas/base/limits.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace {
namespace {

Status check_twice(const FieldName& field, Tokens ids) {
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice == ids.end()) return {};
  return fail(Code::invalid_value,
              field.text() + " names token " + std::to_string(*twice) + " twice",
              "name each token once");
}

}  // namespace

Status check_size(const FieldName& field, std::uint64_t count, const char* unit,
                  std::uint64_t limit) {
  if (count <= limit) return {};
  return fail(Code::limit_exceeded,
              field.text() + " has " + std::to_string(count) + " " + unit + ", the limit is " +
                  std::to_string(limit),
              "give fewer");
}

std::string item_name(const FieldName& field, std::size_t index) {
  return field.text() + "[" + std::to_string(index) + "]";
}

Status check_value(const FieldName& field, double value, const Range& form) {
  const bool high_enough = form.above_least ? value > form.least : value >= form.least;
  if (std::isfinite(value) && high_enough && value <= form.most) return {};
  return fail(Code::invalid_value, field.text() + " is " + number_text(static_cast<float>(value)),
              "give a number " + std::string(form.above_least ? "" : "from ") + limits_text(form));
}

Status check_value(const FieldName& field, std::uint64_t value, const Count& form) {
  if (value >= form.least && value <= form.most) return {};
  const bool over = value > form.most;
  return fail(over ? Code::limit_exceeded : Code::invalid_value,
              field.text() + " is " + std::to_string(value) +
                  (over ? ", the limit is " + std::to_string(form.most) : ""),
              "give a number from " + limits_text(form));
}

Status check_value(const FieldName& field, std::int64_t time_us, UnixTime) {
  if (time_us > 0) return {};
  return fail(Code::invalid_value,
              field.text() + " is " + std::to_string(time_us) + ", no Unix time in microseconds",
              "give a time after 1970");
}

Status check_value(const FieldName& field, const std::map<std::string, std::string>& strings,
                   const Dictionary& form) {
  MILLRACE_TRY(check_size(field, strings.size(), "entries", form.most));
  std::size_t bytes = 0;
  for (const auto& [key, value] : strings) bytes += key.size() + value.size();
  return check_size(field, bytes, "bytes", form.most_bytes);
}

Status check_value(const FieldName& field, const std::string& text, const Label& form) {
  if (form.required && text.empty()) {
    return fail(Code::invalid_value, field.text() + " is empty", "give a text, or leave it out");
  }
  MILLRACE_TRY(check_size(field, text.size(), "bytes", form.most_bytes));
  // Those from U+0080 to U+009F, which terminals obey too, begin with C2 in UTF-8.
  bool control = false;
  unsigned char before = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    control |= byte < 0x20 || byte == 0x7F || (before == 0xC2 && byte < 0xA0);
    before = byte;
  }
  if (!control) return {};
  return fail(Code::invalid_value, field.text() + " holds a control character", "take it out");
}

Status check_value(const FieldName& field, const std::string& text, const Text& form) {
  if (form.required && text.empty()) {
    return fail(Code::invalid_value, field.text() + " is empty", "give a text");
  }
  MILLRACE_TRY(check_size(field, text.size(), "bytes", form.most_bytes));
  if (utf8_valid(text)) return {};
  return fail(Code::invalid_utf8, field.text() + " is not valid UTF-8", "send text as UTF-8");
}

Status check_value(const FieldName& field, const std::vector<std::string>& texts,
                   const Texts& form) {
  MILLRACE_TRY(check_size(field, texts.size(), "texts", form.most));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    MILLRACE_TRY(check_value(item_name(field, i), texts[i], Text{form.most_bytes, true}));
  }
  return {};
}

Status check_value(const FieldName& field, const std::vector<std::string>& labels,
                   const Labels& form) {
  MILLRACE_TRY(check_size(field, labels.size(), "labels", form.most));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    MILLRACE_TRY(check_value(item_name(field, i), labels[i], Label{form.most_bytes, true}));
  }
  return {};
}

Status check_value(const FieldName& field, const Tokens& ids, const Ids& form) {
  MILLRACE_TRY(check_size(field, ids.size(), "ids", form.most));
  return form.each_once ? check_twice(field, ids) : Status();
}

Status check_value(const FieldName& field, const std::vector<Tokens>& lists, const IdLists& form) {
  MILLRACE_TRY(check_size(field, lists.size(), "sequences", form.most));
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const std::string name = item_name(field, i);
    if (lists[i].empty()) return fail(Code::invalid_value, name + " is empty", "leave it out");
    MILLRACE_TRY(check_size(name, lists[i].size(), "ids", form.most_ids));
  }
  return {};
}

Status check_value(const FieldName& field, const std::vector<LogitBias>& biases,
                   const Biases& form) {
  MILLRACE_TRY(check_size(field, biases.size(), "ids", form.most));
  Tokens ids;
  for (const LogitBias& bias : biases) {
    MILLRACE_TRY(check_value(field.text() + " of token " + std::to_string(bias.token), bias.bias,
                             Range{-form.value, form.value}));
    ids.push_back(bias.token);
  }
  return check_twice(field, std::move(ids));
}

Status check_value(const FieldName& field, const JsonList& list, const Objects& form) {
  MILLRACE_TRY(check_size(field, list.size(), "objects", form.most));
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (std::holds_alternative<JsonObject>(list[i].value)) continue;
    return fail(Code::invalid_value, item_name(field, i) + " is not an object",
                "give objects, such as {\"type\": \"function\", \"function\": {...}}");
  }
  return {};
}

Status check_value(const FieldName& field, const JsonObject& object, const Variables& form) {
  MILLRACE_TRY(check_size(field, object.size(), "entries", form.most));
  for (const auto& [name, value] : object) {
    for (const std::string_view own :
         {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
      if (name == own)
        return fail(Code::invalid_value, field.text() + "." + name + " is set by the engine",
                    "leave it out");
    }
  }
  return {};
}

Status check_value(const FieldName&, const Prompt& prompt, const Alternative<Tokens>&) {
  const auto* tokens = std::get_if<Tokens>(&prompt);
  if (tokens == nullptr || !tokens->empty()) return {};
  return fail(Code::empty_prompt, "the prompt holds no token", "give at least one token");
}

Status check_value(const FieldName& field, const Prompt& prompt, const Alternative<Chat>& form) {
  const auto* chat = std::get_if<Chat>(&prompt);
  if (chat == nullptr) return {};
  if (chat->empty()) {
    return fail(Code::empty_prompt, field.text() + ": the chat holds no message",
                "give at least one message");
  }
  MILLRACE_TRY(check_size(field, chat->size(), "messages", form.most));
  for (std::size_t i = 0; i < chat->size(); ++i) {
    MILLRACE_TRY(
        check_value(item_name(field, i) + ".role", (*chat)[i].role, Label{limits::id_bytes, true}));
  }
  return {};
}

}  // namespace millrace
