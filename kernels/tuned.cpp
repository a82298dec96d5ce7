#include "kernels/tuned.hpp"

#include <algorithm>

namespace millrace::kernels {
namespace {

// {family, device, dot, lanes},
// {float_tile, integer_tile, product_groups, attention_sums, layer_pairs, layer_tiles}
// Rows of single devices, as bench/tune prints them, come before the defaults of their family.
constexpr TunedRow table[] = {
    // EPYC processors with AVX-512 as PoCL 3.1 names them, measured on two cores of a Zen 5. The
    // row equals their family's defaults: no other value was 3 % faster.
    {{"cpu", "pthread-skylake-avx512-AMD EPYC", "avx512vnni", 16}, {16, 6, 8, 24, 3, 16}},
    // Xeon processors with AMX, measured on two cores of a Granite Rapids. It equals the defaults,
    // too: one of two runs preferred 12 attention sums, the other 24.
    {{"cpu", "pthread-skylake-avx512-Intel(R) Xeon(R)", "amx", 16}, {16, 6, 8, 24, 3, 16}},
    // 32 registers of 16 lanes hold the sums of 16 columns, or of 24 query rows, and their
    // operands. Integer tiles of 6 columns take two panels at once, so that one load of a word of x
    // serves twice the products.
    {{"cpu", "", "amx", 16}, {16, 6, 8, 24, 3, 16}},
    {{"cpu", "", "avx512vnni", 16}, {16, 6, 8, 24, 3, 16}},
    {{"cpu", "", "avx512bw", 16}, {16, 6, 8, 24, 3, 16}},
    // The compiler uses wide vectors, and the processor's dot products are narrow or unknown.
    {{"cpu", "", "", 16}, {16, 4, 8, 24, 3, 16}},
    // The compiler has 16 registers of 8 lanes; integer products name their own instructions.
    {{"cpu", "", "amx", 0}, {6, 6, 8, 6, 3, 16}},
    {{"cpu", "", "avx512vnni", 0}, {6, 6, 8, 6, 3, 16}},
    {{"cpu", "", "avx512bw", 0}, {6, 6, 8, 6, 3, 16}},
    {{"cpu", "", "", 0}, {6, 4, 8, 6, 3, 16}},
    {{"", "", "", 0}, {1, 1, 1, 1, 1, 1}},
};

bool fits(const DeviceKey& row, const DeviceKey& key) {
  return (row.family.empty() || row.family == key.family) &&
         (row.dot.empty() || row.dot == key.dot) && row.lanes <= key.lanes &&
         key.device.find(row.device) != std::string_view::npos;
}

}  // namespace

std::span<const TunedRow> tuned_table() {
  return table;
}

const Tuning& tuned_for(const DeviceKey& key) {
  return std::ranges::find_if(table, [&](const TunedRow& row) { return fits(row.key, key); })
      ->tuning;
}

}  // namespace millrace::kernels
