#include "schemas/unpack.hpp"

#include <cmath>
#include <cstring>

#include "schemas/base/number_text.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::wire {
namespace {

std::string integer_text(const Token& token) {
  return token.negative ? std::to_string(static_cast<std::int64_t>(token.number))
                        : std::to_string(token.number);
}

// Describes a value after the name of its type: ", 'yes'" or " of 3 items".
std::string value_text(const Token& token) {
  switch (token.type) {
    case Type::nil:
      return {};
    case Type::boolean:
      return token.number != 0 ? ", true" : ", false";
    case Type::integer:
      return ", " + integer_text(token);
    case Type::floating:
      return ", " + number_text(token.real);
    case Type::string:
      return ", " + shown(token.bytes);
    case Type::binary:
      return " of " + std::to_string(token.bytes.size()) + " bytes";
    case Type::array:
      return " of " + std::to_string(token.count) + (token.count == 1 ? " item" : " items");
    case Type::extension:
      return {};
    case Type::map:
      return " of " + std::to_string(token.count) + (token.count == 1 ? " key" : " keys");
  }
  return {};
}

Status read_unsigned(Reader& in, const Path& path, std::uint64_t most, std::uint64_t& out) {
  const Token token = whole(next(in));
  if (token.type != Type::integer) return wrong_type(path, "a whole number", token);
  if (token.negative) return wrong_value(path, integer_text(token) + " is negative");
  if (token.number > most) {
    return wrong_value(path, integer_text(token) + " is larger than " + std::to_string(most));
  }
  out = token.number;
  return {};
}

template <class Word>
Status read_words(Reader& in, const Path& path, std::vector<Word>& out) {
  const Token token = next(in);
  if (token.type != Type::binary) return wrong_type(path, "bin of 32-bit words", token);
  if (token.bytes.size() % 4 != 0) {
    return wrong_value(path,
                       std::to_string(token.bytes.size()) + " bytes are no whole 32-bit words");
  }
  out.resize(token.bytes.size() / 4);
  if constexpr (std::endian::native == std::endian::little) {
    if (!out.empty()) std::memcpy(out.data(), token.bytes.data(), token.bytes.size());
  } else {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::uint32_t bits = 0;
      for (std::size_t j = 4; j-- > 0;) {
        bits = (bits << 8) | static_cast<std::uint8_t>(token.bytes[4 * i + j]);
      }
      out[i] = std::bit_cast<Word>(bits);
    }
  }
  return {};
}

}  // namespace

std::string Path::text() const {
  std::string out = up == nullptr ? std::string() : up->text();
  if (!name.empty()) {
    if (!out.empty()) out.push_back('.');
    out += name;
  }
  if (index >= 0) out += "[" + std::to_string(index) + "]";
  return out;
}

std::string_view describe_type(Type type) {
  switch (type) {
    case Type::nil:
      return "nil";
    case Type::boolean:
      return "a boolean";
    case Type::integer:
      return "a whole number";
    case Type::floating:
      return "a floating-point number";
    case Type::string:
      return "a string";
    case Type::binary:
      return "bin";
    case Type::array:
      return "an array";
    case Type::map:
      return "a map";
    case Type::extension:
      return "an extension";
  }
  return "something else";
}

std::unexpected<Error> wrong_type(const Path& path, std::string_view wanted, const Token& got) {
  return fail(Code::invalid_value, path.text() + ": must be " + std::string(wanted) + ", not " +
                                       std::string(describe_type(got.type)) + value_text(got));
}
std::unexpected<Error> wrong_value(const Path& path, const std::string& what, std::string hint) {
  return fail(Code::invalid_value, path.text() + ": " + what, std::move(hint));
}

std::string shown(std::string_view s) {
  constexpr std::size_t most = 64;
  std::string out(1, '\'');
  const bool whole = s.size() <= most;
  out += whole ? s : s.substr(0, utf8_valid_prefix(s.substr(0, most)));
  out += whole ? "'" : "...'";
  return out;
}

Token next(Reader& in) {
  Token token;
  // The visitor has accepted these bytes, so every header can be read; otherwise this returns nil.
  if (in.next(token) != Fault::none) return {};
  return token;
}
Token whole(Token token) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (token.type != Type::floating || std::trunc(token.real) != token.real ||
      std::abs(token.real) > exact) {
    return token;
  }
  const auto number = static_cast<std::int64_t>(token.real);
  token.type = Type::integer;
  token.negative = number < 0;
  token.number = static_cast<std::uint64_t>(number);
  return token;
}
Token peek(const Reader& in) {
  Reader copy = in;
  return next(copy);
}
void skip(Reader& in) {
  for (std::uint64_t pending = 1; pending > 0 && in.left() > 0; --pending) {
    const Token token = next(in);
    if (token.type == Type::array) pending += token.count;
    if (token.type == Type::map) pending += 2 * std::uint64_t{token.count};
  }
}
std::string_view slice(Reader& in) {
  const std::size_t start = in.offset();
  skip(in);
  return in.bytes().substr(start, in.offset() - start);
}
bool take_nil(Reader& in) {
  if (peek(in).type != Type::nil) return false;
  next(in);
  return true;
}

Status read(Reader& in, const Path& path, bool& out) {
  const Token token = next(in);
  if (token.type != Type::boolean) return wrong_type(path, "true or false", token);
  out = token.number != 0;
  return {};
}
Status read(Reader& in, const Path& path, std::uint32_t& out) {
  std::uint64_t value = 0;
  MILLRACE_TRY(read_unsigned(in, path, std::numeric_limits<std::uint32_t>::max(), value));
  out = static_cast<std::uint32_t>(value);
  return {};
}
Status read(Reader& in, const Path& path, std::uint64_t& out) {
  return read_unsigned(in, path, std::numeric_limits<std::uint64_t>::max(), out);
}
Status read(Reader& in, const Path& path, std::int64_t& out) {
  const Token token = whole(next(in));
  if (token.type != Type::integer) return wrong_type(path, "a whole number", token);
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!token.negative && token.number > most) {
    return wrong_value(path, integer_text(token) + " does not fit 64 signed bits");
  }
  out = static_cast<std::int64_t>(token.number);
  return {};
}
Status read(Reader& in, const Path& path, double& out) {
  const Token token = next(in);
  if (token.type == Type::integer) {
    out = token.negative ? static_cast<double>(static_cast<std::int64_t>(token.number))
                         : static_cast<double>(token.number);
    return {};
  }
  if (token.type != Type::floating) return wrong_type(path, "a number", token);
  if (!std::isfinite(token.real)) {
    return wrong_value(path, number_text(token.real) + " is not a finite number");
  }
  out = token.real;
  return {};
}
Status read(Reader& in, const Path& path, float& out) {
  double value = 0;
  MILLRACE_TRY(read(in, path, value));
  if (std::abs(value) > std::numeric_limits<float>::max()) {
    return wrong_value(path, number_text(value) + " is too large for a 32-bit float");
  }
  const auto narrow = static_cast<float>(value);
  // A value that became 0 would change its meaning: temperature 0 is greedy.
  if (narrow == 0 && value != 0) {
    return wrong_value(path, number_text(value) + " is too small for a 32-bit float");
  }
  out = narrow;
  return {};
}
Status read(Reader& in, const Path& path, std::string& out) {
  const Token token = next(in);
  if (token.type != Type::string) return wrong_type(path, "a string", token);
  out = token.bytes;
  return {};
}
Status read(Reader& in, const Path& path, Tokens& out) {
  return read_words(in, path, out);
}
Status read(Reader& in, const Path& path, std::vector<float>& out) {
  return read_words(in, path, out);
}
Status read(Reader& in, const Path& path, std::map<std::string, std::string>& out) {
  const Token token = next(in);
  if (token.type != Type::map) return wrong_type(path, "a map of strings", token);
  out.clear();
  for (std::uint32_t i = 0; i < token.count; ++i) {
    const std::string_view key = next(in).bytes;
    MILLRACE_TRY(read(in, Path{&path, key}, out[std::string(key)]));
  }
  return {};
}

}  // namespace millrace::wire
