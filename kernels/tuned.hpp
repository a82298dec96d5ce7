#pragma once
// The tuned table: for each device, the widths and counts at which its kernels run fastest. None of
// them changes a bit of any result, so the numeric fingerprint does not know them. bench/tune
// measures a device and prints its row; a device without one gets the safe defaults of its kind,
// which are rows of the same table. Thread safety: constants.
#include <cstdint>
#include <span>
#include <string_view>

namespace millrace::kernels {

// More cores share chunks smaller than the table's of whole layers.
inline constexpr std::uint32_t layer_tuning_cores = 8;

struct Tuning {
  std::uint32_t float_tile = 1;      // columns of a tile of an fp32 product (TILE of matmul/*.cl)
  std::uint32_t integer_tile = 1;    // the same of an integer product
  std::uint32_t product_groups = 1;  // most groups of an fp32 product for each core
  std::uint32_t attention_sums = 1;  // query rows that share a key or value once it is loaded
  // A chunk of a product in whole layers (layer/cpu.cl), in steps of more than 16 columns on up to
  // `layer_tuning_cores`: pairs of panels, and column tiles.
  std::uint32_t layer_pairs = 1, layer_tiles = 1;

  bool operator==(const Tuning&) const = default;
};

// What a row is looked up by.
struct DeviceKey {
  std::string_view family;  // "generic" or "cpu"
  std::string_view device;  // the name that OpenCL gives
  std::string_view dot;     // integer dot products of the cpu family, "avx512vnni"
  std::uint32_t lanes = 0;  // floats in a vector register, as OpenCL says; a row's is the least
};

struct TunedRow {
  DeviceKey key;  // device is a part of the name; "" fits any
  Tuning tuning;
};

// In order: the first row that fits counts. The last one fits everything.
std::span<const TunedRow> tuned_table();
const Tuning& tuned_for(const DeviceKey& key);

}  // namespace millrace::kernels
