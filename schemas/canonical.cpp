// The canonical form of a job map, version 1: what the producer gave, independent of the library
// that wrote it. Keys are sorted by their bytes; keys whose value is nil are left out; whole
// numbers are integers in their shortest form, others float64; everything else has its shortest
// form.
#include <algorithm>
#include <cmath>
#include <vector>

#include "schemas/base/hash.hpp"
#include "schemas/codec.hpp"
#include "schemas/pack.hpp"
#include "schemas/unpack.hpp"

namespace millrace {
namespace {

using wire::next;
using wire::Packer;
using wire::Reader;
using wire::Token;
using wire::Type;

void put_number(Packer& out, double value) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (std::trunc(value) == value && std::abs(value) <= exact) {
    out.value(static_cast<std::int64_t>(value));
  } else {
    out.value(value);
  }
}

// What is left out of the canonical form.
enum class Without : std::uint8_t { nothing, trace, trace_names };

bool is_trace_name(std::string_view key) {
  return key == "traceparent" || key == "tracestate";
}

// Whether a map, which is a job's metadata, has nothing but the trace.
bool is_trace_alone(std::string_view metadata) {
  Reader in(metadata);
  const Token token = next(in);
  for (std::uint32_t i = 0; i < token.count; ++i) {
    if (!is_trace_name(next(in).bytes)) return false;
    wire::slice(in);
  }
  return token.count > 0;
}

// Whether a pair is left out.
bool leaves_out(Without without, std::string_view key, std::string_view value) {
  if (without == Without::trace) return key == "metadata" && is_trace_alone(value);
  return without == Without::trace_names && is_trace_name(key);
}

void put_value(Packer& out, Reader& in, Without without = Without::nothing);

void put_map(Packer& out, Reader& in, std::uint32_t count, Without without) {
  struct Pair {
    std::string_view key;
    std::string_view value;
  };
  std::vector<Pair> pairs;
  pairs.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view key = next(in).bytes;
    if (wire::take_nil(in)) continue;
    const std::string_view value = wire::slice(in);
    if (!leaves_out(without, key, value)) pairs.push_back({key, value});
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.key < b.key; });
  out.map(pairs.size());
  for (const Pair& pair : pairs) {
    out.value(pair.key);
    Reader value(pair.value);
    const bool labels = without == Without::trace && pair.key == "metadata";
    put_value(out, value, labels ? Without::trace_names : Without::nothing);
  }
}

// Recurses as deep as the validating visitor of decode_job has allowed.
void put_value(Packer& out, Reader& in, Without without) {
  const Token token = next(in);
  switch (token.type) {
    case Type::nil:
      return out.nil();
    case Type::boolean:
      return out.value(token.number != 0);
    case Type::integer:
      return token.negative ? out.value(static_cast<std::int64_t>(token.number))
                            : out.value(token.number);
    case Type::floating:
      return put_number(out, token.real);
    case Type::string:
      return out.value(token.bytes);
    case Type::binary:
      return out.binary(token.bytes);
    case Type::array:
      out.array(token.count);
      for (std::uint32_t i = 0; i < token.count; ++i) put_value(out, in);
      return;
    case Type::map:
      return put_map(out, in, token.count, without);
    case Type::extension:  // decode_job has refused it
      return out.nil();
  }
}

}  // namespace

std::string canonical_hash(std::string_view job_body) {
  Packer out;
  Reader in(job_body);
  put_value(out, in);
  return hash128(std::move(out).take()).hex();
}

std::string derived_id(std::string_view job_body) {
  Packer out;
  Reader in(job_body);
  put_value(out, in, Without::trace);
  return hash128(std::move(out).take()).hex();
}

}  // namespace millrace
