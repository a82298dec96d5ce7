#include "engine/core/model/kv_program.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/kv/codebook.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

// Lookups by permutation read whole vectors, so short tables are repeated to this length.
constexpr std::size_t table_entries = 16;

struct Side {
  std::string name;    // part of the names of functions
  std::string prefix;  // of the names of defines
  const KvCodec& codec;
  std::uint64_t sign_seed;
};

std::uint32_t group_of(const KvCodec& codec, std::uint32_t head_dim) {
  return codec.kind == CodecKind::affine ? codec.group : head_dim;
}

// The number of halves that hold the parameters of one token and head.
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
  return joined(table, float_text);
}

// Byte lookups stay within 16 bytes, so each run of 16 levels is repeated in every quarter of a
// vector.
std::string quartered(std::vector<std::uint8_t> bytes) {
  for (std::size_t i = 0; bytes.size() < table_entries; ++i) bytes.push_back(bytes[i]);
  std::vector<std::uint8_t> out;
  for (auto run = bytes.begin(); run != bytes.end(); run += table_entries) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      out.insert(out.end(), run, run + table_entries);
    }
  }
  return joined(out, [](std::uint8_t byte) { return std::to_string(byte); });
}

SourcePart codec_source(const Side& side, std::uint32_t head_dim, bool integers) {
  const KvCodec& codec = side.codec;
  SourcePart part(
      "kv/codec.cl",
      {"SIDE=" + side.name, define("KIND", static_cast<std::uint64_t>(codec.kind)),
       define("BITS", codec.bits), define("CODE_GROUP", group_of(codec, head_dim)),
       define("PARAMETERS", parameters_of(codec, head_dim)), define("INTEGERS", integers ? 1 : 0)});
  if (codec.kind != CodecKind::rotated) return part;
  std::vector<double> thresholds = codebook_thresholds(codec.bits, head_dim);
  thresholds.push_back(1e30);  // no value is greater
  part.defines.push_back("CODEBOOK_LEVELS=" + repeated(codebook_levels(codec.bits, head_dim)));
  part.defines.push_back("THRESHOLDS=" + repeated(std::move(thresholds)));
  part.defines.push_back("SIGNS=" + joined(sign_words(side.sign_seed, head_dim),
                                           [](auto word) { return std::to_string(word) + "u"; }));
  if (integers) {
    part.defines.push_back("LEVEL_BYTES=" + quartered(level_bytes(codec, head_dim).bytes));
  }
  return part;
}

}  // namespace

// Bytes with one scale are too coarse for the 256 levels of a rotated codec of 8 bits.
bool in_integers(const KvCodec& codec, MathMode math) {
  return math == MathMode::fast && codec.packed() &&
         !(codec.kind == CodecKind::rotated && codec.bits == 8);
}

LevelBytes level_bytes(const KvCodec& codec, std::uint32_t head_dim) {
  const std::vector<double> levels = codebook_levels(codec.bits, head_dim);
  LevelBytes out;
  out.step = static_cast<float>(levels.back() / 127);
  for (const double level : levels) {
    out.bytes.push_back(static_cast<std::uint8_t>(128 + std::lround(level * 127 / levels.back())));
  }
  return out;
}

void add_kv_sources(ProgramSpec& program, const KvCodecs& codecs, std::uint32_t head_dim,
                    Family family, MathMode math) {
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
    const bool integers = in_integers(side.codec, math);
    layout.defines.push_back(define(side.prefix + "INTEGERS", integers ? 1 : 0));
    if (integers && side.codec.kind == CodecKind::rotated) {
      layout.defines.push_back(side.prefix +
                               "STEP=" + float_text(level_bytes(side.codec, head_dim).step));
    }
  }
  if (codecs.centered) layout.defines.emplace_back("KEY_CENTERED=1");
  if (family != Family::cpu) layout.defines.emplace_back("ATOMIC_VALUES=1");
  program.sources.push_back(std::move(layout));
  if (family == Family::cpu) program.sources.emplace_back("kv/vectors.cl");
  const auto packed = [](const Side& side) { return side.codec.packed(); };
  if (std::ranges::any_of(sides, packed)) program.sources.emplace_back("kv/planes.cl");
  const bool counts = family == Family::cpu && std::ranges::any_of(sides, [&](const Side& s) {
                        return in_integers(s.codec, math);
                      });
  if (counts) {
    for (const char* part : {"matmul/target.cl", "kv/dots.cl"}) program.sources.emplace_back(part);
  }
  for (const Side& side : sides) {
    if (!packed(side)) continue;
    const bool integers = in_integers(side.codec, math);
    program.sources.push_back(codec_source(side, head_dim, integers));
    if (counts && integers) program.sources.emplace_back("kv/quads.cl");
  }
}

}  // namespace millrace::engine
