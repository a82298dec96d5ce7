#pragma once
// A tensor of an architecture in the making: units of a folder's matrices, and the shape that they
// give. The functions are the orders that tensor_names.cpp needs; those that return an optional
// give nothing if the matrix does not have the shape that the sizes imply.
// Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "engine/core/hub/gathered_rows.hpp"

namespace millrace::engine {

struct MadeTensor {
  std::vector<UnitRange> ranges;
  std::vector<std::uint64_t> shape;  // innermost dimension first
  std::uint64_t units_per_row = 1;
  ValueChange change{};
};

struct TwoTensors {
  MadeTensor first, second;
};

// The heads of delta nets.
struct DeltaSizes {
  std::uint64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
};

// The channels of a head of latent attention.
struct LatentSizes {
  std::uint64_t heads = 0, plain_dim = 0, value_dim = 0;
};

bool has_blocks(const Tensor& tensor);  // its values do not lie one by one

// All of a matrix, and all of a vector, or matrix, with its values or rows as units.
MadeTensor whole(const Source& from);
MadeTensor as_units(const Source& from);

// The rows of each of some matrices: `count` from `first` on, `step` apart.
MadeTensor parts_of(const Source& from, std::uint64_t first, std::uint64_t count,
                    std::uint64_t step);

// Matrices of which a file holds the columns. Types in blocks are used as they are.
Source transposed(const Source& from);

// A matrix that lies in a file, in another shape of as many values.
std::optional<Source> reshaped(const Source& from, std::vector<std::uint64_t> shape);

// The last units are of value heads. Those of one key head stand together; in the result, head h
// goes with key head h % key_heads.
std::optional<MadeTensor> tile_value_heads(MadeTensor made, const DeltaSizes& sizes);
std::optional<Source> tile_value_columns(const Source& from, const DeltaSizes& sizes);

// Of each key head: rows of a query, a key, values and gates. The result's tensors are all queries,
// keys and values, and all gates.
std::optional<TwoTensors> split_joined_heads(const Source& from, const DeltaSizes& sizes);

// Of each head, rows that give a key's channels, and rows that give a value's. The result's tensors
// are the former transposed, and the latter, by head.
std::optional<TwoTensors> split_latent_heads(const Source& from, const LatentSizes& sizes);

// The tensor under its name. Its ranges are moved from.
ModelPieces::Piece finish_tensor(const std::string& name, MadeTensor& made);

}  // namespace millrace::engine
