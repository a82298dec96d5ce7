#include "engine/core/model/product_program.hpp"

#include "engine/core/model/operations.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t group_columns = 8;  // of a group in the generic kernels

}  // namespace

ProgramSpec product_program(const Device& device, const PanelLayout& layout, Inputs inputs,
                            const kernels::Tuning& tuning) {
  const bool cpu = device.family() == Family::cpu, codes = inputs == Inputs::codes;
  ProgramSpec program{
      .name = codes ? "integer_matmul" : "matmul",
      .sources = {variant_of(codes ? "matmul/integer_" : "matmul/exact_", device.family())},
      .defines = layout.defines()};
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  if (cpu) {
    add("TILE", codes ? tuning.integer_tile : tuning.float_tile);
  } else {
    add("GROUP_COLUMNS", group_columns);
  }
  // The plain kernel of fp32 rows takes this number as an argument.
  if (cpu || codes) {
    add("X_STRIDE", codes ? code_stride(layout.columns) : input_stride(layout.columns));
  }
  if (cpu && codes) add("DOT", static_cast<std::uint64_t>(device.dot()));
  return program;
}

Grid generic_product_grid(std::uint32_t panels, std::uint32_t columns) {
  return {.groups = {panels, (columns + group_columns - 1) / group_columns},
          .local = {panel_rows, group_columns}};
}

}  // namespace millrace::engine
