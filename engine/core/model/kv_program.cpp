#include "engine/core/model/kv_program.hpp"

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

// The tables of a rotated codec.
void add_tables(std::vector<std::string>& defines, const Side& side, std::uint32_t head_dim,
                bool integers) {
  const KvCodec& codec = side.codec;
  std::vector<double> thresholds = codebook_thresholds(codec.bits, head_dim);
  thresholds.push_back(1e30);  // no value is greater
  const auto add = [&](const char* name, const std::string& value) {
    defines.push_back(side.prefix + name + "=" + value);
  };
  add("LEVELS", repeated(codebook_levels(codec.bits, head_dim)));
  add("THRESHOLDS", repeated(std::move(thresholds)));
  add("SIGNS", joined(sign_words(side.sign_seed, head_dim),
                      [](auto word) { return std::to_string(word) + "u"; }));
  if (!integers) return;
  const LevelBytes levels = level_bytes(codec, head_dim);
  add("STEP", float_text(levels.step));
  add("LEVEL_BYTES", quartered(levels.bytes));
}

}  // namespace

// Bytes with one scale are too coarse for the 256 levels of a rotated codec of 8 bits.
bool in_integers(const KvCodec& codec, MathMode math) {
  return rounds(math) && codec.packed() && !(codec.kind == CodecKind::rotated && codec.bits == 8);
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

void add_kv_defines(ProgramSpec& program, const KvCodecs& codecs, std::uint32_t head_dim,
                    MathMode math) {
  const Side sides[] = {{"KEY_", codecs.key, key_sign_seed},
                        {"VALUE_", codecs.value, value_sign_seed}};
  std::vector<std::string>& defines = program.defines;
  for (const Side& side : sides) {
    const auto add = [&](const char* name, std::uint64_t value) {
      defines.push_back(define(side.prefix + name, value));
    };
    const bool integers = in_integers(side.codec, math);
    add("KIND", static_cast<std::uint64_t>(side.codec.kind));
    add("BITS", side.codec.bits);
    add("GROUP", group_of(side.codec, head_dim));
    add("PARAMETERS", parameters_of(side.codec, head_dim));
    add("INTEGERS", integers ? 1 : 0);
    if (side.codec.kind == CodecKind::rotated) add_tables(defines, side, head_dim, integers);
  }
  if (codecs.in_key) defines.emplace_back("VALUES_IN_KEYS=1");
  if (codecs.centered) defines.emplace_back("KEY_CENTERED=1");
}

}  // namespace millrace::engine
