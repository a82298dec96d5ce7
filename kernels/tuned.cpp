#include "kernels/tuned.hpp"

#include <algorithm>

namespace millrace::kernels {
namespace {

// {family, device, dot, lanes},
// {float_tile, integer_tile, product_groups, attention_sums, layer_pairs, layer_tiles}
// Rows of devices, as bench/tune prints them, stand above the defaults of their family.
constexpr TunedRow table[] = {
    // EPYC processors with AVX-512 as PoCL 3.1 names them, measured on two cores of a Zen 5: they
    // have what their family has. Nothing else was 3 % faster.
    {{"cpu", "pthread-skylake-avx512-AMD EPYC", "avx512vnni", 16}, {16, 6, 8, 24, 3, 16}},
    // 32 registers of 16 lanes hold the sums of 16 columns, and of 24 query rows beside what they
    // are multiplied with. Integer tiles of 6 columns take two panels at once, so that a word of x
    // is loaded for twice the products: on Zen 5 as fast as 12 columns by one panel, or faster.
    {{"cpu", "", "avx512vnni", 16}, {16, 6, 8, 24, 3, 16}},
    {{"cpu", "", "avx512bw", 16}, {16, 6, 8, 24, 3, 16}},
    // A compiler of wide vectors on a processor whose dot products are narrow or not known.
    {{"cpu", "", "", 16}, {16, 4, 8, 24, 3, 16}},
    // 16 registers of 8 lanes; integer products bring their own instructions.
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
