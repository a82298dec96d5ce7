// Decodes messages and results. job_decode.cpp decodes jobs.
#include <algorithm>
#include <array>
#include <bitset>
#include <optional>
#include <utility>

#include "schemas/base/check_field.hpp"
#include "schemas/base/utf8.hpp"
#include "schemas/codec.hpp"
#include "schemas/describe.hpp"
#include "schemas/job_values.hpp"
#include "schemas/names.hpp"
#include "schemas/unpack.hpp"
#include "schemas/validate.hpp"

namespace millrace {
namespace {

using wire::next;
using wire::Path;
using wire::Reader;
using wire::Token;
using wire::Type;

template <class M>
Status read_map(Reader& in, const Path& path, M& message);

// Which fields of a table have been read, by their place in it. A place beyond the last ends the
// program.
using Seen = std::bitset<128>;

template <class T>
Status read_value(Reader& in, const Path& path, T& out) {
  if constexpr (std::is_same_v<T, Code>) {
    return fail(Code::internal, "a code can only be read as part of an error");
  } else if constexpr (std::is_enum_v<T>) {
    return read_word(in, path, out);
  } else if constexpr (requires { wire::read(in, path, out); }) {
    return wire::read(in, path, out);
  } else {
    return read_map(in, path, out);
  }
}

// Reads an error. An unknown code, of a later version, becomes `internal`; the message keeps its
// name.
Status read_value(Reader& in, const Path& path, Error& out) {
  Reader again = in;
  const Token map = next(again);
  if (map.type != Type::map) return wire::wrong_type(path, "a map", map);
  std::string code;
  for (std::uint32_t i = 0; i < map.count; ++i) {
    const std::string_view key = next(again).bytes;
    if (key == "code") {
      MILLRACE_TRY(wire::read(again, Path{&path, key}, code));
    } else if (key == "message" && wire::peek(again).type == Type::string) {
      out.message = next(again).bytes;
    } else if (key == "hint" && wire::peek(again).type == Type::string) {
      out.hint = next(again).bytes;
    } else if (key == "retry_ms" && wire::peek(again).type != Type::nil) {
      MILLRACE_TRY(wire::read(again, Path{&path, key}, out.retry_ms.emplace()));
    } else {
      wire::skip(again);
    }
  }
  in = again;
  if (code.empty()) return fail(Code::missing_field, path.text() + ".code is absent");
  const auto known = code_from_name(code);
  out.code = known.value_or(Code::internal);
  if (!known) out.message = code + ": " + out.message;
  return {};
}

template <class T>
Status read_value(Reader& in, const Path& path, std::optional<T>& out) {
  T value{};
  MILLRACE_TRY(read_value(in, path, value));
  out = std::move(value);
  return {};
}

Result<std::uint32_t> list_size(Reader& in, const Path& path) {
  const Token token = next(in);
  if (token.type != Type::array) return wire::wrong_type(path, "an array", token);
  if (token.count > limits::list_items) {
    return fail(Code::limit_exceeded, path.text() + " has " + std::to_string(token.count) +
                                          " items; the limit is " +
                                          std::to_string(limits::list_items));
  }
  return token.count;
}

Status read_value(Reader& in, const Path& path, std::vector<LogitBias>& out) {
  return read_biases(in, path, out);
}

template <class T>
requires(!std::is_same_v<T, TokenId> && !std::is_same_v<T, float>) Status
    read_value(Reader& in, const Path& path, std::vector<T>& out) {
  MILLRACE_ASSIGN(const std::uint32_t count, list_size(in, path));
  out.clear();
  out.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    MILLRACE_TRY(read_value(in, Path{&path, {}, i}, out[i]));
  }
  return {};
}

Status read_body(Reader& in, const Path& path, Body& out) {
  const Token token = wire::peek(in);
  if (token.type != Type::map) return wire::wrong_type(path, "a map", token);
  out = wire::slice(in);
  return {};
}

// Walks the table of a message to find the field that a key names, and reads its value.
class OneField {
 public:
  OneField(Reader& in, const Path& path, std::string_view key, Seen& seen)
      : in_(in), path_(path), key_(key), seen_(seen) {}

  template <class T>
  void field(std::string_view name, T& value, const auto&...) {
    if (here(name)) status_ = read_value(in_, Path{&path_, name}, value);
  }
  template <class T>
  void required(std::string_view name, T& value, const auto&...) {
    field(name, value);
  }
  void sparse(auto& part) { fields(*this, part); }
  void alias(const auto&...) {}
  void body(std::string_view name, Body& value, const auto&...) {
    if (here(name)) status_ = read_body(in_, Path{&path_, name}, value);
  }
  void optional_body(std::string_view name, Body& value, const auto&...) { body(name, value); }
  void bodies(std::string_view name, std::vector<Body>& list, const auto&...) {
    if (here(name)) status_ = read_bodies(Path{&path_, name}, list);
  }
  bool found() const { return found_; }
  Status take_status() { return std::move(status_); }

 private:
  bool here(std::string_view name) {
    const unsigned index = index_++;
    if (found_ || name != key_) return false;
    found_ = true;
    if (wire::take_nil(in_)) return false;  // nil means absent
    seen_.set(index);
    return true;
  }
  Status read_bodies(const Path& path, std::vector<Body>& list) {
    MILLRACE_ASSIGN(const std::uint32_t count, list_size(in_, path));
    list.clear();
    list.resize(count);
    // Whoever decodes an item refuses what is no map, and that item alone.
    for (std::uint32_t i = 0; i < count; ++i) list[i] = wire::slice(in_);
    return {};
  }

  Reader& in_;
  const Path& path_;
  std::string_view key_;
  Seen& seen_;
  unsigned index_ = 0;
  bool found_ = false;
  Status status_;
};

class MissingField {
 public:
  explicit MissingField(const Seen& seen) : seen_(seen) {}
  void field(const auto&...) { ++index_; }
  void required(std::string_view name, const auto&...) { need(name); }
  void sparse(const auto& part) { fields(*this, part); }
  void alias(const auto&...) {}
  void body(std::string_view name, const auto&...) { need(name); }
  void optional_body(const auto&...) { ++index_; }
  void bodies(std::string_view name, const auto&...) { need(name); }
  std::string_view first;

 private:
  void need(std::string_view name) {
    if (!seen_.test(index_++) && first.empty()) first = name;
  }
  const Seen& seen_;
  unsigned index_ = 0;
};

template <class M>
Status read_map(Reader& in, const Path& path, M& message) {
  const Token map = next(in);
  if (map.type != Type::map) return wire::wrong_type(path, "a map", map);
  Seen seen;
  for (std::uint32_t i = 0; i < map.count; ++i) {
    const std::string_view key = next(in).bytes;
    OneField visitor(in, path, key, seen);
    fields(visitor, message);
    MILLRACE_TRY(visitor.take_status());
    if (!visitor.found()) wire::skip(in);  // an unknown field, of a later minor version
  }
  MissingField missing(seen);
  fields(missing, std::as_const(message));
  if (!missing.first.empty()) {
    return fail(Code::missing_field, Path{&path, missing.first}.text() + " is absent");
  }
  return {};
}

template <std::size_t index>
Result<Message> read_alternative(Reader& in, const Path& path) {
  std::variant_alternative_t<index, Message> message;
  MILLRACE_TRY(read_map(in, path, message));
  FieldChecker checker(path.text() + ".");
  fields(checker, std::as_const(message));
  MILLRACE_TRY(std::move(checker).take());
  return Message(std::move(message));
}

Result<Message> read_message(std::size_t kind, Reader& in, const Path& path) {
  using Function = Result<Message> (*)(Reader&, const Path&);
  static constexpr auto table = []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<Function, sizeof...(i)>{&read_alternative<i>...};
  }
  (std::make_index_sequence<std::variant_size_v<Message>>());
  return table[kind](in, path);
}

// The places of the four values of an envelope. They are read one by one, the version first,
// because the others may have other types in another version.
struct Head {
  std::optional<Reader> version, kind, id, body;
};

Result<Head> find_head(std::string_view frame) {
  Reader in(frame);
  const Token map = next(in);
  if (map.type != Type::map) return wire::wrong_type(Path{nullptr, "envelope"}, "a map", map);
  Head head;
  for (std::uint32_t i = 0; i < map.count; ++i) {
    const std::string_view key = next(in).bytes;
    const Reader value = in;
    wire::skip(in);
    if (wire::peek(value).type == Type::nil) continue;
    if (key == "v") head.version = value;
    if (key == "kind") head.kind = value;
    if (key == "id") head.id = value;
    if (key == "body") head.body = value;
  }
  return head;
}

Status check_version(Head& head) {
  std::uint64_t version = 0;
  if (!head.version) return fail(Code::missing_field, "envelope.v is absent");
  MILLRACE_TRY(wire::read(*head.version, Path{nullptr, "envelope.v"}, version));
  if (version == protocol_version) return {};
  return fail(Code::unsupported_version,
              "protocol version " + std::to_string(version) + " is not supported",
              "use version " + std::to_string(protocol_version));
}

Result<std::size_t> read_kind(Head& head) {
  std::string kind;
  if (!head.kind) return fail(Code::missing_field, "envelope.kind is absent");
  MILLRACE_TRY(wire::read(*head.kind, Path{nullptr, "envelope.kind"}, kind));
  const auto at = std::ranges::find(message_kinds, kind, &MessageKind::name);
  if (at == message_kinds.end()) {
    return fail(Code::unknown_kind, "no message kind " + wire::shown(kind),
                "the kinds of version " + std::to_string(protocol_version) +
                    " are in schemas/docs/messages.md");
  }
  return static_cast<std::size_t>(at - message_kinds.begin());
}

}  // namespace

Result<Envelope> decode_envelope(std::string_view frame) {
  MILLRACE_TRY(validate(frame, frame_bounds));
  MILLRACE_ASSIGN(Head head, find_head(frame));
  MILLRACE_TRY(check_version(head));
  MILLRACE_ASSIGN(const std::size_t kind, read_kind(head));
  Envelope envelope;
  if (head.id) MILLRACE_TRY(wire::read(*head.id, Path{nullptr, "envelope.id"}, envelope.id));
  constexpr std::string_view empty_map = "\x80";
  Reader body = head.body.value_or(Reader(empty_map));
  MILLRACE_ASSIGN(envelope.message,
                  read_message(kind, body, Path{nullptr, message_kinds[kind].name}));
  return envelope;
}

namespace {

// Finds the value of a key in a map that may be damaged: nothing where the damage comes first.
std::optional<Token> peek_value(std::string_view map_bytes, std::string_view key) {
  Reader in(map_bytes);
  Token token;
  if (in.next(token) != wire::Fault::none || token.type != Type::map) return {};
  for (std::uint32_t left = token.count; left > 0; --left) {
    if (in.next(token) != wire::Fault::none || token.type != Type::string) return {};
    const bool found = token.bytes == key;
    for (std::uint64_t pending = 1; pending > 0; --pending) {  // the value, with all that is in it
      if (in.next(token) != wire::Fault::none) return {};
      if (found) return token;
      if (token.type == Type::array) pending += token.count;
      if (token.type == Type::map) pending += 2 * std::uint64_t{token.count};
    }
  }
  return {};
}

std::string peek_label(std::string_view job_body, std::string_view key) {
  const auto token = peek_value(job_body, key);
  if (!token || token->type != Type::string || !utf8_valid(token->bytes)) return {};
  std::string label(token->bytes);
  return check_value(std::string(key), label, short_label) ? label : std::string();
}

}  // namespace

std::uint64_t peek_id(std::string_view frame) {
  const auto id = peek_value(frame, "id");
  return id && id->type == Type::integer && !id->negative ? id->number : 0;
}

std::optional<std::string> peek_batch(std::string_view result_body) {
  const auto token = peek_value(result_body, "batch");
  if (!token || token->type != Type::string) return {};
  return std::string(token->bytes);
}

JobNames peek_names(std::string_view job_body) {
  return {peek_label(job_body, "id"), peek_label(job_body, "custom_id")};
}

Result<JobLabels> decode_labels(std::string_view bytes) {
  JobLabels labels;
  if (bytes.empty()) return labels;
  MILLRACE_TRY(validate(bytes, job_bounds));
  Reader in(bytes);
  MILLRACE_TRY(read_map(in, Path{nullptr, "labels"}, labels));
  return labels;
}

Result<JobResult> decode_result(std::string_view body) {
  MILLRACE_TRY(validate(body, published_bounds));
  Reader in(body);
  JobResult result;
  MILLRACE_TRY(read_map(in, Path{nullptr, "result"}, result));
  return result;
}

}  // namespace millrace
