#include "engine/core/model/kv_program.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/kv/codebook.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

// Lookups by permutation read whole vectors: short tables are repeated.
constexpr std::size_t table_entries = 16;

struct Side {
  std::string name;    // in names of functions
  std::string prefix;  // of defines
  const KvCodec& codec;
  std::uint64_t sign_seed;
};

std::uint32_t group_of(const KvCodec& codec, std::uint32_t head_dim) {
  return codec.kind == CodecKind::affine ? codec.group : head_dim;
}

// Halves a token.
std::uint64_t parameters_of(const KvCodec& codec, std::uint32_t head_dim) {
  return parameter_bytes(codec, 1, head_dim) / 2;
}

std::string joined(const auto& values, const auto& print) {
  std::string out;
  for (const auto& value : values) out += (out.empty() ? "" : ",") + print(value);
  return out;
}

std::string repeated(std::vector<double> table) {
  for (std::size_t i = 0; table.size() < table_entries; ++i) table.push_back(table[i]);
  return joined(table, [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9ef", value);  // NOLINT(cppcoreguidelines-pro-type-vararg)
    return std::string(text);
  });
}

SourcePart codec_source(const Side& side, std::uint32_t head_dim) {
  const KvCodec& codec = side.codec;
  SourcePart part("kv/codec.cl",
                  {"SIDE=" + side.name, define("KIND", static_cast<std::uint64_t>(codec.kind)),
                   define("BITS", codec.bits), define("CODE_GROUP", group_of(codec, head_dim)),
                   define("PARAMETERS", parameters_of(codec, head_dim))});
  if (codec.kind != CodecKind::rotated) return part;
  std::vector<double> thresholds = codebook_thresholds(codec.bits, head_dim);
  thresholds.push_back(1e30);  // nothing lies above
  part.defines.push_back("LEVELS=" + repeated(codebook_levels(codec.bits, head_dim)));
  part.defines.push_back("THRESHOLDS=" + repeated(std::move(thresholds)));
  part.defines.push_back("SIGNS=" + joined(sign_words(side.sign_seed, head_dim),
                                           [](auto word) { return std::to_string(word) + "u"; }));
  return part;
}

}  // namespace

void add_kv_sources(ProgramSpec& program, const KvCodecs& codecs, std::uint32_t head_dim,
                    Family family) {
  const Side sides[] = {{"key", "KEY_", codecs.key, key_sign_seed},
                        {"value", "VALUE_", codecs.value, value_sign_seed}};
  SourcePart layout("kv/layout.cl", {});
  for (const Side& side : sides) {
    layout.defines.push_back(
        define(side.prefix + "KIND", static_cast<std::uint64_t>(side.codec.kind)));
    layout.defines.push_back(define(side.prefix + "BITS", side.codec.bits));
    layout.defines.push_back(define(side.prefix + "GROUP", group_of(side.codec, head_dim)));
    layout.defines.push_back(
        define(side.prefix + "PARAMETERS", parameters_of(side.codec, head_dim)));
  }
  if (codecs.centered) layout.defines.emplace_back("KEY_CENTERED=1");
  if (family != Family::cpu) layout.defines.emplace_back("ATOMIC_VALUES=1");
  program.sources.push_back(std::move(layout));
  if (family == Family::cpu) program.sources.emplace_back("kv/vectors.cl");
  const auto packed = [](const Side& side) { return side.codec.kind != CodecKind::f16; };
  if (std::ranges::any_of(sides, packed)) program.sources.emplace_back("kv/planes.cl");
  for (const Side& side : sides) {
    if (packed(side)) program.sources.push_back(codec_source(side, head_dim));
  }
}

}  // namespace millrace::engine
