#include "schemas/job_values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "schemas/base/limits.hpp"

namespace millrace {

using wire::next;
using wire::Path;
using wire::peek;
using wire::Reader;
using wire::Token;
using wire::Type;

std::unexpected<Error> unsupported(const std::string& where, std::string_view accepted) {
  return fail(Code::unsupported_field, where + " is not supported",
              "leave it out; the only accepted value is " + std::string(accepted));
}

bool neutral(Reader& in, std::uint32_t allowed) {
  const Token token = peek(in);
  Reader inside = in;
  next(inside);
  wire::skip(in);
  if ((allowed & neutral_any) != 0) return true;
  const auto allows = [&](Neutral what) { return (allowed & what) != 0; };
  switch (token.type) {
    case Type::nil:
      return true;
    case Type::boolean:
      return allows(token.number != 0 ? neutral_true : neutral_false);
    case Type::integer:
      return (token.number == 0 && allows(neutral_zero)) ||
             (token.number == 1 && allows(neutral_one));
    case Type::floating:
      return (token.real == 0 && allows(neutral_zero)) || (token.real == 1 && allows(neutral_one));
    case Type::string:
      return (token.bytes.empty() && allows(neutral_empty)) ||
             (token.bytes == "text" && allows(neutral_text)) ||
             ((token.bytes == "none" || token.bytes == "auto") && allows(neutral_none_or_auto));
    case Type::binary:
      return token.bytes.empty() && allows(neutral_empty);
    case Type::array:
      if (token.count == 0) return allows(neutral_empty);
      return token.count == 1 && allows(neutral_text) && next(inside).bytes == "text";
    case Type::map:
      if (token.count == 0) return allows(neutral_empty);
      return token.count == 1 && allows(neutral_text) && next(inside).bytes == "type" &&
             next(inside).bytes == "text";
    case Type::extension:
      return false;
  }
  return false;
}

Status read_token_ids(Reader& in, const Path& path, Tokens& out) {
  const Token token = peek(in);
  if (token.type == Type::binary) return wire::read(in, path, out);
  if (token.type != Type::array)
    return wire::wrong_type(path, "bin or an array of token ids", token);
  next(in);
  out.clear();
  out.reserve(token.count);
  for (std::uint32_t i = 0; i < token.count; ++i) {
    MILLRACE_TRY(wire::read(in, Path{&path, {}, i}, out.emplace_back()));
  }
  return {};
}

namespace {

// Reads a part of a content, which must be a text.
Status read_part(Reader& in, const Path& part, std::string& out) {
  const Token map = next(in);
  if (map.type != Type::map) return wire::wrong_type(part, "a map", map);
  std::string type;
  bool text = false;
  for (std::uint32_t k = 0; k < map.count; ++k) {
    const std::string_view key = next(in).bytes;
    const Path here{&part, key};
    if (key == "type") {
      MILLRACE_TRY(wire::read(in, here, type));
    } else if (key == "text") {
      MILLRACE_TRY(wire::read(in, here, out));
      text = true;
    } else {
      wire::skip(in);  // a field of another type of part, which is refused below
    }
  }
  if (type != "text") return unsupported(Path{&part, "type"}.text(), "text");
  if (text) return {};
  return fail(Code::missing_field, part.text() + ".text is absent",
              R"(a part is {"type": "text", "text": ...})");
}

// Reads a message's content: a string, or OpenAI's list of parts, which may be texts only.
Status read_content(Reader& in, const Path& path, ChatMessage& out) {
  const Token token = peek(in);
  if (token.type == Type::string) return wire::read(in, path, out.content.emplace());
  if (token.type != Type::array) {
    return wire::wrong_type(path, "a string or an array of text parts", token);
  }
  next(in);
  out.content.emplace();
  for (std::uint32_t i = 0; i < token.count; ++i) {
    MILLRACE_TRY(read_part(in, Path{&path, {}, i}, out.parts.emplace_back()));
    *out.content += out.parts.back();
  }
  return {};
}

// OpenAI's completions accept one prompt as text or ids, or an array of such prompts. A job has one
// prompt, so an array may have one element only.
Status read_prompt_array(Reader& in, const Path& path, Prompt& out) {
  const Token array = peek(in);
  Reader inside = in;
  next(inside);
  const Type first = array.count == 0 ? Type::integer : peek(inside).type;
  if (first == Type::integer) {
    return read_token_ids(in, path, out.emplace<Tokens>());
  }
  if (first != Type::string && first != Type::array) {
    return wire::wrong_type(Path{&path, {}, 0}, "a token id", peek(inside));
  }
  if (array.count > 1) {
    return fail(Code::unsupported_field,
                path.text() + ": " + std::to_string(array.count) + " prompts in one job",
                "give each prompt a job of its own");
  }
  next(in);
  const Path only{&path, {}, 0};
  if (first == Type::string) {
    return wire::read(in, only, out.emplace<std::string>());
  }
  return read_token_ids(in, only, out.emplace<Tokens>());
}

Status read_message(Reader& in, const Path& path, ChatMessage& out) {
  const Token map = next(in);
  if (map.type != Type::map) return wire::wrong_type(path, "a map", map);
  bool role = false;
  for (std::uint32_t i = 0; i < map.count; ++i) {
    const std::string_view key = next(in).bytes;
    const Path here{&path, key};
    if (key == "role") {
      MILLRACE_TRY(wire::read(in, here, out.role));
      role = true;
    } else if (wire::take_nil(in)) {
      continue;  // null means absent
    } else if (key == "content") {
      MILLRACE_TRY(read_content(in, here, out));
    } else {
      auto& [name, value] = out.more.emplace_back();
      name = key;
      MILLRACE_TRY(read_json(in, here, value));
    }
  }
  if (!role)
    return fail(Code::missing_field, path.text() + ".role is absent",
                "a message is {role, content}");
  if (out.content || !out.more.empty()) return {};
  return fail(Code::missing_field, path.text() + ".content is absent",
              "a message has a content, or other fields such as tool_calls");
}

}  // namespace

// Recurses as deep as the validating visitor allows.
Status read_json(Reader& in, const Path& path, Json& out) {
  const Token token = next(in);
  switch (token.type) {
    case Type::nil:
      out.value = std::monostate();
      return {};
    case Type::boolean:
      out.value = token.number != 0;
      return {};
    case Type::integer:
      if (!token.negative && token.number > INT64_MAX)
        return wire::wrong_value(path, "does not fit a signed integer of 64 bits");
      out.value = static_cast<std::int64_t>(token.number);
      return {};
    case Type::floating:
      out.value = token.real;
      return {};
    case Type::string:
      out.value = std::string(token.bytes);
      return {};
    case Type::binary:
    case Type::extension:
      return wire::wrong_type(path, "a JSON value", token);
    case Type::array: {
      auto& list = out.value.emplace<JsonList>();
      for (std::uint32_t i = 0; i < token.count; ++i)
        MILLRACE_TRY(read_json(in, Path{&path, {}, i}, list.emplace_back()));
      return {};
    }
    case Type::map: {
      auto& object = out.value.emplace<JsonObject>();
      for (std::uint32_t i = 0; i < token.count; ++i) {
        const std::string_view key = next(in).bytes;
        auto& [name, value] = object.emplace_back();
        name = key;
        MILLRACE_TRY(read_json(in, Path{&path, key}, value));
      }
      return {};
    }
  }
  return {};
}

Status read_prompt(Reader& in, const Path& path, Prompt& out) {
  const Token token = peek(in);
  if (token.type == Type::array) return read_prompt_array(in, path, out);
  if (token.type != Type::string) {
    return wire::wrong_type(path, "a string or an array of token ids", token);
  }
  return wire::read(in, path, out.emplace<std::string>());
}

Status read_messages(Reader& in, const Path& path, Chat& out) {
  const Token token = next(in);
  if (token.type != Type::array) return wire::wrong_type(path, "an array", token);
  out.resize(token.count);
  for (std::uint32_t i = 0; i < token.count; ++i) {
    MILLRACE_TRY(read_message(in, Path{&path, {}, i}, out[i]));
  }
  return {};
}

namespace {

Status read_bias_map(Reader& in, const Path& path, std::vector<LogitBias>& out) {
  const Token map = next(in);
  for (std::uint32_t i = 0; i < map.count; ++i) {
    const std::string_view key = next(in).bytes;
    LogitBias& entry = out.emplace_back();
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), entry.token);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size()) {
      return wire::wrong_value(path, wire::shown(key) + " is not a token id",
                               "use ids as keys: {\"50256\": -100}");
    }
    MILLRACE_TRY(wire::read(in, Path{&path, key}, entry.bias));
  }
  return {};
}

}  // namespace

Status read_biases(Reader& in, const Path& path, std::vector<LogitBias>& out) {
  const Token token = peek(in);
  out.clear();
  if (token.type == Type::map) return read_bias_map(in, path, out);
  if (token.type != Type::array) {
    return wire::wrong_type(path, "a map from token ids to numbers, or an array of pairs", token);
  }
  next(in);
  for (std::uint32_t i = 0; i < token.count; ++i) {
    const Path here{&path, {}, i};
    const Token pair = next(in);
    if (pair.type != Type::array) return wire::wrong_type(here, "a pair [id, bias]", pair);
    if (pair.count != 2) return wire::wrong_value(here, "is not a pair [id, bias]");
    LogitBias& entry = out.emplace_back();
    MILLRACE_TRY(wire::read(in, here, entry.token));
    MILLRACE_TRY(wire::read(in, here, entry.bias));
  }
  return {};
}

Status read_texts(Reader& in, const Path& path, bool or_one, std::vector<std::string>& out) {
  const Token token = peek(in);
  out.clear();
  if (or_one && token.type == Type::string) return wire::read(in, path, out.emplace_back());
  if (token.type != Type::array) {
    return wire::wrong_type(
        path, or_one ? "a string or an array of strings" : "an array of strings", token);
  }
  next(in);
  for (std::uint32_t i = 0; i < token.count; ++i) {
    MILLRACE_TRY(wire::read(in, Path{&path, {}, i}, out.emplace_back()));
  }
  return {};
}

Status read_id_lists(Reader& in, const Path& path, std::vector<Tokens>& out) {
  const Token token = next(in);
  if (token.type != Type::array) {
    return wire::wrong_type(path, "an array of lists of token ids", token);
  }
  out.clear();
  for (std::uint32_t i = 0; i < token.count; ++i) {
    MILLRACE_TRY(read_token_ids(in, Path{&path, {}, i}, out.emplace_back()));
  }
  return {};
}

Status read_stream(Reader& in, const Path& path, std::string& out) {
  if (peek(in).type != Type::boolean) return wire::read(in, path, out);
  // OpenAI's `stream` asks for delivery token by token; a job's names the result stream.
  if (next(in).number == 0) return {};
  return unsupported(path.text(), "false, or the name of a result stream");
}

}  // namespace millrace
