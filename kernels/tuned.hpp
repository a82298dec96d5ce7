#pragma once
// The tuned table: for each device, the widths and counts at which its kernels run fastest. None of
// them changes a bit of any result, so the numeric fingerprint does not include them. bench/tune
// measures a device and prints its row. A device without a row gets the safe defaults of its kind,
// which are rows of the same table. The table is constant, and any thread may read it.
#include <cstdint>
#include <span>
#include <string_view>

namespace millrace::kernels {

// Devices with more cores than this use chunks of whole layers that are smaller than the table's.
inline constexpr std::uint32_t layer_tuning_cores = 8;

// What a core may at least wait for others in a launch of whole layers, in turns of 20 to 40 ns:
// about two milliseconds. A thread that serves others takes a core for less; a system that shares a
// core between busy programs takes it away for more.
inline constexpr std::uint32_t layer_patience = 60'000;

// The layers of a wide step are cut into launches of at least so many multiplications a core, which
// take two to five milliseconds. A launch costs a tenth of a millisecond, because the second core
// begins late; a core that has waited long is missed until the launch ends.
inline constexpr std::uint64_t layer_launch_products = 250'000'000;

struct Tuning {
  std::uint32_t float_tile = 1;      // columns of a tile of an fp32 product (FLOAT_TILE of matmul/)
  std::uint32_t integer_tile = 1;    // columns of a tile of an integer product
  std::uint32_t product_groups = 1;  // limit of an fp32 product's groups per core
  std::uint32_t attention_sums = 1;  // query rows that share one load of a key or value
  // A chunk of a product in whole layers (layer/cpu.cl), in steps of more than 16 columns on up to
  // `layer_tuning_cores`: pairs of panels, and column tiles.
  std::uint32_t layer_pairs = 1, layer_tiles = 1;

  bool operator==(const Tuning&) const = default;
};

// The key by which a device finds its row.
struct DeviceKey {
  std::string_view family;  // "generic" or "cpu"
  std::string_view device;  // the name that OpenCL reports
  std::string_view dot;     // integer dot products of the cpu family, such as "avx512vnni"
  std::uint32_t lanes = 0;  // floats in a vector register, as OpenCL reports; in a row: at least
};

struct TunedRow {
  DeviceKey key;  // `device` matches any name that contains it; "" in a field matches everything
  Tuning tuning;
};

// The rows in order. tuned_for() returns the first one that matches; the last matches everything.
std::span<const TunedRow> tuned_table();
const Tuning& tuned_for(const DeviceKey& key);

}  // namespace millrace::kernels
