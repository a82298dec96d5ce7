#include "schemas/job_edits.hpp"

#include <charconv>

#include "schemas/job_values.hpp"
#include "schemas/names.hpp"

namespace millrace {
namespace {

using wire::next;
using wire::Path;
using wire::peek;
using wire::Reader;
using wire::Token;
using wire::Type;
using wire::wrong_type;
using wire::wrong_value;

Status check_count(const Path& path, std::uint32_t count, const char* unit, std::uint32_t most) {
  if (count <= most) return {};
  return fail(Code::limit_exceeded, path.text() + ": " + std::to_string(count) + unit +
                                        "; the limit is " + std::to_string(most));
}

Status read_bias_map(Reader& in, const Path& path, std::vector<LogitBias>& out) {
  const Token map = next(in);
  for (std::uint32_t i = 0; i < map.count; ++i) {
    const std::string_view key = next(in).bytes;
    LogitBias& entry = out.emplace_back();
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), entry.token);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size()) {
      return wrong_value(path, wire::shown(key) + " is not a token id",
                         "use ids as keys: {\"50256\": -100}");
    }
    MILLRACE_TRY(wire::read(in, Path{&path, key}, entry.bias));
  }
  return {};
}

}  // namespace

Status read_id_lists(Reader& in, const Path& path, std::uint32_t most, std::vector<Tokens>& out) {
  const Token token = next(in);
  if (token.type != Type::array) return wrong_type(path, "an array of lists of token ids", token);
  MILLRACE_TRY(check_count(path, token.count, " sequences", most));
  for (std::uint32_t i = 0; i < token.count; ++i) {
    MILLRACE_TRY(read_token_ids(in, Path{&path, {}, i}, out.emplace_back()));
  }
  return {};
}

Status read_strings(Reader& in, const Path& path, std::uint32_t most,
                    std::vector<std::string>& out) {
  const Token token = next(in);
  if (token.type != Type::array) return wrong_type(path, "an array of strings", token);
  MILLRACE_TRY(check_count(path, token.count, " strings", most));
  out.clear();
  for (std::uint32_t i = 0; i < token.count; ++i) {
    MILLRACE_TRY(wire::read(in, Path{&path, {}, i}, out.emplace_back()));
  }
  return {};
}

Status read_logit_bias(Reader& in, const Path& path, std::vector<LogitBias>& out) {
  const Token token = peek(in);
  if (token.type == Type::map) return read_bias_map(in, path, out);
  if (token.type != Type::array) {
    return wrong_type(path, "a map from token ids to numbers, or an array of pairs", token);
  }
  next(in);
  MILLRACE_TRY(check_count(path, token.count, " tokens", limits::logit_bias));
  for (std::uint32_t i = 0; i < token.count; ++i) {
    const Path here{&path, {}, i};
    const Token pair = next(in);
    if (pair.type != Type::array) return wrong_type(here, "a pair [id, bias]", pair);
    if (pair.count != 2) return wrong_value(here, "is no pair [id, bias]");
    LogitBias& entry = out.emplace_back();
    MILLRACE_TRY(wire::read(in, here, entry.token));
    MILLRACE_TRY(wire::read(in, here, entry.bias));
  }
  return {};
}

Status read_scope(Reader& in, const Path& path, PenaltyScope& out) {
  std::string word;
  MILLRACE_TRY(wire::read(in, path, word));
  const auto scope = wire::from_name<PenaltyScope>(word);
  if (!scope) {
    return wrong_value(path, "unknown value " + wire::shown(word), "use prompt+output or output");
  }
  out = *scope;
  return {};
}

}  // namespace millrace
