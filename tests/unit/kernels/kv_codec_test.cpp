// Compares the encoding of keys and values on the device with the host's definition in float64, and
// that definition with figures of the numeric reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/core/gguf/half.hpp"
#include "engine/core/kv/codebook.hpp"
#include "engine/core/model/kv_program.hpp"
#include "tests/support/device.hpp"
#include "tests/support/kv_page.hpp"
#include "tests/unit/kernels/every_codec.hpp"

namespace millrace::engine {
namespace {

using testing::KvCode;
using testing::KvPage;
using testing::must;
using testing::Random;
using testing::upload;

std::uint64_t fnv(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

// Figures of the reference's kv_codecs.codec(name, seed).encode(x), with seed 0 for keys and 1 for
// values, for x[i] = ((7 i i + 13 i) mod 101 - 50) / 16, and x[5] eight times that: FNV-1a of the
// codes as bytes and of the parameters as little-endian halves (a group's scale, then its bias),
// and the squared error of the decoded vector.
struct Golden {
  const char* codec;
  std::uint32_t head_dim;
  std::uint64_t codes, parameters;
  double error;
  bool is_key = false;
};
constexpr Golden golden[] = {
    {"q8g32", 64, 0x6d0b48ab57520ac6, 0xdb36173f19238985, 0.00387673452497},
    {"q8g64", 64, 0xfd4b0a986c71d728, 0x5ab35c8093e11e0a, 0.00692988466471},
    {"q6g64", 64, 0x72fcaa8b11241d07, 0xea54413fdcf36e71, 0.109419226646},
    {"q5g32", 64, 0xf2d884baadce3d66, 0x695cab0059cc9e7f, 0.272951021791},
    {"q3g64", 64, 0x44bc638047fc6101, 0x3e4c264c53503819, 8.73215293884},
    {"q2g64", 64, 0x7fec91cd1184d617, 0x11747e7e59ffaeb9, 47.48046875},
    {"r2", 64, 0x6f5398332e9f5de7, 0x0ada7d07b72d5d34, 26.2499016692},
    {"r3", 64, 0x17f2868d8830ea64, 0x08c47507b5673dc1, 7.11369602682},
    {"r4", 64, 0x0e1593167d6930ee, 0x09ec1d07b6626d4a, 2.14815628122},
    {"r5", 64, 0xfc3d37bfd214c5c9, 0x08c47507b5673dc1, 0.541360422792},
    {"r6", 64, 0x03e68e050d3cd44c, 0x08ea5507b587d69e, 0.105506650887},
    {"r8", 64, 0x023467bd13c7e0c0, 0x08e01507b57f1559, 0.00805018186454},
    {"r5", 64, 0x204d5bf5ee1ea7ac, 0x09d45507b64e3a91, 0.37536482898, true},
    {"q8g32", 96, 0x42f5b53064873374, 0x3a43c6cd7a837667, 0.0055091008544},
    {"q5g32", 96, 0x5ada48f4df19d0fc, 0xf932682a8bddb67b, 0.349792823195},
    {"q8g32", 128, 0xf3f4c090f3a6d8c3, 0xfa67f6eea28d69dc, 0.00695319008082},
    {"q8g64", 128, 0x3c6b97ff3d432141, 0x1ecdb88bafadbf90, 0.00988732464612},
    {"q6g64", 128, 0xe4cad07d801f8d90, 0x74cfdb2183ae88ec, 0.155369598418},
    {"q5g32", 128, 0x65b1f79b8ba2a29b, 0xb869f5c8ae181eda, 0.479947000742},
    {"q4g128", 128, 0x470279ef9a456491, 0x44045ed835fe5172, 3.14088439941},
    {"q3g64", 128, 0xdb3c6e2d8e557c15, 0x96bf66a4fa9e3d26, 12.3376216888},
    {"q2g64", 128, 0x9103647d5a8ef3d2, 0xe85cfda474fa8792, 71.2210502625},
    {"r2", 128, 0x02323eb080420990, 0x09751707b5fd3cb3, 45.4896527273},
    {"r3", 128, 0xdc9d6e1a68b624b2, 0x0a821807b6e23bbf, 11.1952634678},
    {"r4", 128, 0x180824a43420da75, 0x08583707b50bb587, 3.33064177196},
    {"r5", 128, 0xe23705ca1adb598b, 0x086f7707b51f0128, 0.86026569782},
    {"r6", 128, 0x2f958b6ab5e3b2d6, 0x08583707b50bb587, 0.234647001514},
    {"r8", 128, 0xb451cb6521ab9aee, 0x08473707b4fd4254, 0.0155106878356},
    {"r4", 128, 0x3f425ba047c08a1b, 0x08253b07b4e062ba, 3.49850854989, true},
    {"q8g64", 256, 0x56df4d5780632650, 0x65b6da7fe40f0cb8, 0.0161164840683},
    {"r2", 256, 0x0d99aa51b0549eb2, 0x08806207b52d50ac, 99.9272292323},
    {"r3", 256, 0x53a01967bc6dca34, 0x09021907b59c028b, 27.1702299731},
    {"r4", 256, 0xa9fa884eac98c224, 0x09131907b5aa75be, 7.77171702014},
    {"r5", 256, 0xa5ea70cc21bccd15, 0x07cc5907b4946cde, 1.95676012369},
    {"r6", 256, 0x920dd564f5310227, 0x07cc5907b4946cde, 0.531677738394},
    {"r8", 256, 0xb4298740c5b5ca14, 0x07c97907b4926d67, 0.0270685186205},
    {"r5", 256, 0xe5b534603e2bb4f6, 0x07c97907b4926d67, 1.92289536653, true},
    {"q8g64", 512, 0xa7ad99f8ca5cfc7e, 0x3a2a6ed1fd827e88, 0.0283594792709},
    {"q4g128", 512, 0x0cdea56afb8eac3e, 0xe094d06e0db6cf9f, 7.89270597696},
    {"r2", 512, 0xa201cde75488b00a, 0x0a266b07b6946a1b, 200.17804912},
    {"r3", 512, 0xf84bd12d44539250, 0x07da5b07b4a0ada0, 56.4874710194},
    {"r4", 512, 0x09266b407dba69b3, 0x08433707b4f9597d, 14.8364893398},
    {"r5", 512, 0x331c94e2e4c278f2, 0x08392307b4f0e2fc, 3.6518410181},
    {"r6", 512, 0x95a008a0ababd751, 0x08323707b4eae64a, 1.03247734375},
    {"r8", 512, 0xbbb3311f1bde4f81, 0x08323707b4eae64a, 0.059863890625},
    {"r5", 512, 0xa437995114c42ac9, 0x08361f07b4eea659, 3.95634487667, true},
};

// Returns the bits of a value that is a half.
std::uint16_t half_bits(double value) {
  std::uint32_t bits = 0;
  while (half_to_float(static_cast<std::uint16_t>(bits)) != static_cast<float>(value)) ++bits;
  return static_cast<std::uint16_t>(bits);
}

TEST(KvCodec, TheHostsDefinitionIsTheReferences) {
  for (const Golden& g : golden) {
    const KvCodec codec = must(parse_kv_codec(g.codec));
    std::vector<double> x;
    for (std::uint32_t i = 0; i < g.head_dim; ++i) {
      x.push_back((static_cast<int>((7 * i * i + 13 * i) % 101) - 50) / 16.0 * (i == 5 ? 8 : 1));
    }
    const std::uint64_t seed = g.is_key ? key_sign_seed : value_sign_seed;
    const KvCode code = testing::encode(codec, seed, x);
    std::vector<std::uint8_t> codes(code.codes.begin(), code.codes.end()), halves;
    for (const double parameter : code.parameters) {
      const std::uint16_t bits = half_bits(parameter);
      halves.push_back(static_cast<std::uint8_t>(bits & 0xff));
      halves.push_back(static_cast<std::uint8_t>(bits >> 8));
    }
    EXPECT_EQ(fnv(codes), g.codes) << g.codec << ", " << g.head_dim;
    EXPECT_EQ(fnv(halves), g.parameters) << g.codec << ", " << g.head_dim;
    const auto back = testing::decode(codec, seed, code);
    double error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) error += (back[i] - x[i]) * (back[i] - x[i]);
    EXPECT_NEAR(error, g.error, 1e-9 * g.error) << g.codec;
  }
}

// The signs that `kv_codecs.py 64` prints, lower half first. Larger heads begin with the same
// signs.
TEST(KvCodec, TheSignsAreTheReferences) {
  using Words = std::vector<std::uint32_t>;
  EXPECT_EQ(sign_words(key_sign_seed, 64), (Words{0x737afa89, 0x9ecc3104}));
  EXPECT_EQ(sign_words(value_sign_seed, 64), (Words{0xec0f2ae7, 0xdd233bf8}));
}

struct Case {
  std::string policy;
  std::uint32_t head_dim;
};

// Vectors in the form of a step: tokens of one sequence and one KV head, a row [q k v] each.
struct Vectors {
  std::uint32_t head_dim, count;
  std::vector<float> rows;
  std::vector<double> at(std::uint32_t token, bool is_key) const {
    const auto from = rows.begin() + (std::size_t{token} * 3 + (is_key ? 1 : 2)) * head_dim;
    return {from, from + head_dim};
  }
};

constexpr std::uint32_t plain_vectors = 10000, spiky_vectors = 1000;

// After those follow one zero vector, and two copies of the first with a channel that is not
// finite.
constexpr std::uint32_t finite_vectors = plain_vectors + spiky_vectors + 1;
constexpr std::uint32_t nan_vector = finite_vectors, infinite_vector = finite_vectors + 1;
std::uint32_t odd_channel(std::uint32_t head_dim) {
  return head_dim - 3;
}

// Normal vectors have many sizes; spiky ones have a channel of 40 times that size or three of 15.
Vectors random_vectors(std::uint32_t head_dim, std::uint64_t seed) {
  Random random(seed);
  Vectors out{head_dim, finite_vectors + 2, {}};
  out.rows.assign(std::size_t{out.count} * 3 * head_dim, 0.0f);
  for (std::uint32_t side = 0; side < 2 * (plain_vectors + spiky_vectors); ++side) {
    const std::size_t vector = std::size_t{side / 2} * 3 + 1 + side % 2;
    float* const x = &out.rows[vector * head_dim];
    const double size = std::exp(random.uniform(-3, 3));
    for (std::uint32_t i = 0; i < head_dim; ++i) {
      double normal = -6;
      for (int n = 0; n < 12; ++n) normal += random.uniform(0, 1);
      x[i] = static_cast<float>(normal * size);
    }
    if (side / 2 < plain_vectors) continue;
    const bool one = side % 4 < 2;
    for (int n = 0; n < (one ? 1 : 3); ++n) {
      x[random.below(head_dim)] = static_cast<float>(size * (one ? 40 : -15));
    }
  }
  const std::size_t row = std::size_t{3} * head_dim;
  for (const std::uint32_t vector : {nan_vector, infinite_vector}) {
    float* const to = std::copy_n(out.rows.data(), row, &out.rows[vector * row]) - row;
    for (const std::uint32_t side : {1u, 2u}) {
      to[side * head_dim + odd_channel(head_dim)] =
          vector == nan_vector ? std::nanf("") : std::numeric_limits<float>::infinity();
    }
  }
  return out;
}

class KvCodecTest : public ::testing::TestWithParam<Case> {
 protected:
  // Stores all vectors, in tiles that are not aligned to pages.
  KvPage::Bytes store(const KvPage& page, const Vectors& x) {
    const auto device = testing::open_device();
    const bool cpu = device->family() == Family::cpu;
    const auto number = [](const char* name, std::uint32_t value) {
      return std::string(name) + "=" + std::to_string(value);
    };
    ProgramSpec program{
        .name = "store",
        .sources = {cpu ? "rope/cpu.cl" : "rope/generic.cl"},
        .defines = {number("HEAD_DIM", x.head_dim), "HEADS=1", "KV_HEADS=1",
                    number("K_ROW", x.head_dim), number("V_ROW", 2 * x.head_dim), "ROPE_DIM=2",
                    "ROPE_HALVES=0", number("ROW_ITEMS", cpu ? 1 : 32)}};
    add_kv_defines(program, page.codecs, x.head_dim, MathMode::exact);
    if (!cpu) program.defines.emplace_back("ATOMIC_VALUES=1");
    Kernel kernel = must(device->kernel(must(device->build(program)), "rope_kv"));
    constexpr std::uint32_t tile = 7;
    const std::uint32_t tiles = (x.count + tile - 1) / tile;
    const std::uint32_t pages = (x.count + kv_page_tokens - 1) / kv_page_tokens;
    // The parts of `step`: positions, tables, tiles, pages.
    std::vector<std::uint32_t> step;
    for (std::uint32_t i = 0; i < x.count; ++i) step.push_back(i);
    step.insert(step.end(), x.count, 2 * x.count + 2 * tiles);
    for (std::uint32_t i = 0; i < tiles; ++i) {
      step.push_back(i * tile);
      step.push_back(std::min(tile, x.count - i * tile));
    }
    for (std::uint32_t i = 0; i < pages; ++i) step.push_back(pages - 1 - i);
    std::vector<float> rope;
    for (std::uint32_t i = 0; i < x.count; ++i) rope.insert(rope.end(), {1.0f, 0.0f});
    Random random(5);
    const KvPage::Bytes before = page.unwritten(pages, random);
    const Buffer kv = upload(*device, before), rows = upload(*device, x.rows);
    const Buffer turns = upload(*device, rope), words = upload(*device, step);
    const std::uint32_t stride = 3 * x.head_dim;
    if (cpu) {
      must(device->launch(kernel, {.groups = {tiles}},
                          {rows, turns, Buffer(), kv, words, 0u, x.count, 2 * x.count, stride}));
    } else {
      must(device->launch(kernel, {.groups = {2, x.count}, .local = {32}},
                          {rows, turns, Buffer(), kv, words, 0u, x.count, stride}));
    }
    return testing::download<std::uint8_t>(*device, kv, before.size());
  }
};

// Returns the distance of channel i from the nearest decision threshold, in units of a code.
double margin(const KvCodec& codec, const std::vector<double>& z, std::size_t i,
              const KvCode& code) {
  if (codec.kind == CodecKind::affine) {
    const double* const pair = &code.parameters[i / codec.group * 2];
    const double at = (z[i] - pair[1]) / pair[0];
    return std::fabs(at - std::floor(at) - 0.5);
  }
  double nearest = 1;
  for (const double cut : codebook_thresholds(codec.bits, static_cast<std::uint32_t>(z.size()))) {
    nearest = std::min(nearest, std::fabs(z[i] - cut));
  }
  return nearest;
}

// Returns the numbers that the codec compares with thresholds.
std::vector<double> compared(const KvCodec& codec, std::uint64_t seed, std::vector<double> x) {
  if (codec.kind != CodecKind::rotated) return x;
  const auto words = sign_words(seed, static_cast<std::uint32_t>(x.size()));
  double square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    square += x[i] * x[i];
    if ((words[i / 32] >> i % 32 & 1) != 0) x[i] = -x[i];
  }
  x = testing::hadamard(std::move(x));
  for (double& value : x) value /= square > 0 ? std::sqrt(square) : 1;
  return x;
}

// Sequences get pages from the last one down.
testing::KvPlace place_of(const Vectors& x, std::uint32_t token) {
  const std::uint32_t pages = (x.count + kv_page_tokens - 1) / kv_page_tokens;
  return {pages - 1 - token / kv_page_tokens, 0, token % kv_page_tokens};
}

void expect_codec(const KvPage& page, const Vectors& x, const KvPage::Bytes& bytes, bool is_key) {
  const KvCodec& codec = is_key ? page.codecs.key : page.codecs.value;
  const std::uint64_t seed = is_key ? key_sign_seed : value_sign_seed;
  std::uint32_t on_a_tie = 0;
  double error = 0;
  for (std::uint32_t t = 0; t < finite_vectors; ++t) {
    const std::vector<double> vector = x.at(t, is_key);
    const KvCode want = testing::encode(codec, seed, vector);
    const KvCode got = page.stored(bytes, place_of(x, t), is_key);
    const std::vector<double> z = compared(codec, seed, vector);
    if (codec.kind == CodecKind::rotated && t < plain_vectors) {  // the error of the unit vector
      double dot = 0, square = 0;
      const auto levels = codebook_levels(codec.bits, x.head_dim);
      for (std::size_t i = 0; i < z.size(); ++i) {
        dot += z[i] * levels[got.codes[i]] / x.head_dim;
        square += levels[got.codes[i]] * levels[got.codes[i]] / x.head_dim;
      }
      error += (1 - 2 * dot + square) / plain_vectors;
    }
    // Affine codes depend on the parameters; a norm depends on the codes.
    const bool affine = codec.kind == CodecKind::affine;
    const bool on_codes = !affine && got.codes != want.codes;
    const bool on_parameters = got.parameters != want.parameters;
    if (on_codes || on_parameters) ++on_a_tie;
    for (std::size_t i = 0; !on_codes && i < got.parameters.size(); ++i) {
      const double a = got.parameters[i], b = want.parameters[i];
      // The parameters may differ by one half at most.
      ASSERT_LE(std::fabs(a - b), std::max(std::fabs(b) / 1024, 6e-8)) << "vector " << t;
    }
    for (std::size_t i = 0; !(affine && on_parameters) && i < got.codes.size(); ++i) {
      if (got.codes[i] == want.codes[i]) continue;
      ASSERT_LE(std::abs(static_cast<int>(got.codes[i]) - static_cast<int>(want.codes[i])), 1);
      ASSERT_LT(margin(codec, z, i, want), affine ? 1e-4 : 5e-6)
          << "vector " << t << ", channel " << i;
    }
  }
  // The step of halves is a thousandth of the value, the error of floats a ten-millionth.
  EXPECT_LE(on_a_tie, x.count * parameter_bytes(codec, 1, x.head_dim) / 1000);
  if (codec.kind != CodecKind::rotated) return;
  const std::map<std::uint32_t, double> squared_error{{2, .1160},  {3, .0340},  {4, .0093},
                                                      {5, .00245}, {6, .00063}, {8, .00004}};
  EXPECT_NEAR(error, squared_error.at(codec.bits), squared_error.at(codec.bits) * 0.03)
      << codec_name(codec);
}

// Checks that a number that is not finite shows in all channels that share its parameters, and in
// no others: as NaN, or as the nearest half where a half stores the number itself.
void expect_not_hidden(const KvPage& page, const Vectors& x, const KvPage::Bytes& bytes,
                       bool is_key) {
  const KvCodec& codec = is_key ? page.codecs.key : page.codecs.value;
  const std::uint64_t seed = is_key ? key_sign_seed : value_sign_seed;
  const std::uint32_t shared = codec.kind == CodecKind::affine    ? codec.group
                               : codec.kind == CodecKind::rotated ? x.head_dim
                                                                  : 1;
  const auto read = [&](std::uint32_t token) {
    const auto place = place_of(x, token);
    return is_key ? page.key(bytes, place) : page.value(bytes, place);
  };
  const std::vector<double> sound = read(0);
  const std::uint32_t odd = odd_channel(x.head_dim);
  for (const std::uint32_t t : {nan_vector, infinite_vector}) {
    const auto got = read(t);
    const auto want = testing::decode(codec, seed, testing::encode(codec, seed, x.at(t, is_key)));
    const bool is_nan = t == nan_vector || codec.kind == CodecKind::rotated;
    ASSERT_TRUE(is_nan ? std::isnan(got[odd]) : got[odd] >= 65000) << got[odd];
    for (std::uint32_t i = 0; i < x.head_dim; ++i) {
      const double expected = i / shared == odd / shared ? want[i] : sound[i];
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(got[i]) : got[i] == expected)
          << codec_name(codec) << ", channel " << i << " is " << got[i] << ", not " << expected;
    }
  }
}

TEST_P(KvCodecTest, EncodesAsTheReferenceDoes) {
  const KvCodecs codecs = must(parse_kv_policy(GetParam().policy)).codecs;
  const KvPage page{codecs, 1, GetParam().head_dim};
  const Vectors x = random_vectors(page.head_dim, 11);
  const KvPage::Bytes bytes = store(page, x);
  for (const bool is_key : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(expect_codec(page, x, bytes, is_key));
    ASSERT_NO_FATAL_FAILURE(expect_not_hidden(page, x, bytes, is_key));
  }
}

// Returns every codec and head size, for keys and for values, each paired with its neighbour in the
// list.
std::vector<Case> every_codec_twice() {
  const std::vector<testing::StoredAs> all = testing::every_codec();
  std::vector<Case> out;
  for (auto first = all.begin(); first != all.end();) {
    const auto end = std::find_if(first, all.end(),
                                  [&](const auto& one) { return one.head_dim != first->head_dim; });
    for (auto one = first; one != end; ++one) {
      const auto next = one + 1 == end ? first : one + 1;
      out.push_back({one->codec + "/" + next->codec, one->head_dim});
    }
    first = end;
  }
  return out;
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string out = std::string(info.param.policy) + "_" + std::to_string(info.param.head_dim);
  std::ranges::replace_if(
      out, [](char x) { return std::isalnum(static_cast<unsigned char>(x)) == 0; }, '_');
  return out;
}

// Returns the codecs of every preset, with the heads of the test model.
std::vector<Case> every_preset() {
  std::vector<Case> out;
  for (const KvPreset& preset : kv_presets()) out.push_back({std::string(preset.name), 64});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Presets, KvCodecTest, ::testing::ValuesIn(every_preset()), name_of);
INSTANTIATE_TEST_SUITE_P(Slice, KvCodecTest,
                         ::testing::Values(Case{"r5/r3", 128}, Case{"q8g64/q3g32", 64}), name_of);
INSTANTIATE_TEST_SUITE_P(DISABLED_Long, KvCodecTest, ::testing::ValuesIn(every_codec_twice()),
                         name_of);

}  // namespace
}  // namespace millrace::engine
