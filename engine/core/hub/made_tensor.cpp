#include "engine/core/hub/made_tensor.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "engine/core/gguf/dequantize.hpp"

namespace millrace::engine {
namespace {

using Size = std::uint64_t;

bool same_values(const Tensor& tensor, const std::vector<Size>& shape) {
  return std::accumulate(shape.begin(), shape.end(), Size{1}, std::multiplies<>()) ==
         tensor.elements();
}

// Where each value head of the result stands in the source.
std::vector<std::uint32_t> tiled_order(const DeltaSizes& sizes) {
  std::vector<std::uint32_t> out;
  const Size each = sizes.value_heads / sizes.key_heads;
  for (Size head = 0; head < sizes.value_heads; ++head) {
    out.push_back(
        static_cast<std::uint32_t>(head % sizes.key_heads * each + head / sizes.key_heads));
  }
  return out;
}

bool are_tiled(const DeltaSizes& sizes) {
  return sizes.key_heads > 0 && sizes.value_heads > 0 && sizes.key_dim > 0 && sizes.value_dim > 0 &&
         sizes.value_heads % sizes.key_heads == 0;
}

}  // namespace

bool has_blocks(const Tensor& tensor) {
  return traits_of(tensor.type).block_elements != 1;
}

MadeTensor whole(const Source& from) {
  const Tensor& tensor = from.tensor;
  MadeTensor out;
  out.ranges = {{.from = from, .count = tensor.rows()}};
  out.shape.assign(tensor.shape.begin(), tensor.shape.begin() + tensor.rank);
  return out;
}

MadeTensor as_units(const Source& from) {
  MadeTensor out = whole(from);
  UnitRange& all = out.ranges.front();
  Tensor& tensor = all.from.tensor;
  out.units_per_row = tensor.shape[0];
  all.count = tensor.elements();
  tensor.shape = {1, all.count, 1, 1};
  return out;
}

MadeTensor parts_of(const Source& from, Size first, Size count, Size step) {
  MadeTensor out;
  const Tensor& tensor = from.tensor;
  for (Size matrix = 0; matrix < tensor.shape[2]; ++matrix) {
    out.ranges.push_back(
        {.from = from, .first = matrix * tensor.shape[1] + first, .count = count, .step = step});
  }
  out.shape = {tensor.shape[0], count, tensor.shape[2]};
  if (tensor.rank == 2) out.shape.pop_back();
  return out;
}

Source transposed(const Source& from) {
  const Tensor& tensor = from.tensor;
  if (has_blocks(tensor)) return from;
  Source out;
  out.owner = std::make_shared<TransposedRows>(from, tensor.shape[1], tensor.shape[1]);
  out.tensor = tensor;
  std::swap(out.tensor.shape[0], out.tensor.shape[1]);
  out.tensor.data = {};
  out.tensor.made = out.owner.get();
  return out;
}

std::optional<Source> reshaped(const Source& from, std::vector<Size> shape) {
  if (from.tensor.made != nullptr || !same_values(from.tensor, shape)) return std::nullopt;
  Source out = from;
  out.tensor.rank = static_cast<std::uint32_t>(shape.size());
  out.tensor.shape = {1, 1, 1, 1};
  std::ranges::copy(shape, out.tensor.shape.begin());
  return out;
}

std::optional<MadeTensor> tile_value_heads(MadeTensor made, const DeltaSizes& sizes) {
  const UnitRange all = made.ranges.front();
  if (!are_tiled(sizes)) return std::nullopt;
  // Some tensors have a unit for each value head, some as many as a value has channels, and some
  // others of key heads before them: queries and keys.
  const Size keys = 2 * sizes.key_heads * sizes.key_dim;
  const Size values = sizes.value_heads * sizes.value_dim;
  Size before = 0, each = sizes.value_dim;
  if (all.count == sizes.value_heads) {
    each = 1;
  } else if (all.count == keys + values) {
    before = keys;
  } else if (all.count != values) {
    return std::nullopt;
  }
  made.ranges.clear();
  if (before > 0) made.ranges.push_back({.from = all.from, .count = before});
  for (const std::uint32_t head : tiled_order(sizes)) {
    made.ranges.push_back({.from = all.from, .first = before + head * each, .count = each});
  }
  return made;
}

std::optional<Source> tile_value_columns(const Source& from, const DeltaSizes& sizes) {
  const Tensor& tensor = from.tensor;
  const bool fits = are_tiled(sizes) && tensor.rank == 2 &&
                    tensor.shape[0] == sizes.value_heads * sizes.value_dim;
  if (!fits) return std::nullopt;
  Source out;
  out.owner = std::make_shared<OrderedColumns>(from, tiled_order(sizes));
  out.tensor = tensor;
  out.tensor.data = {};
  out.tensor.made = out.owner.get();
  return out;
}

std::optional<TwoTensors> split_joined_heads(const Source& from, const DeltaSizes& sizes) {
  const Tensor& tensor = from.tensor;
  if (!are_tiled(sizes) || tensor.rank != 2) return std::nullopt;
  const Size values = sizes.value_heads / sizes.key_heads * sizes.value_dim;
  const Size each = 2 * sizes.key_dim + 2 * values;
  if (tensor.shape[1] != sizes.key_heads * each) return std::nullopt;
  TwoTensors out;
  const auto add = [&](MadeTensor& to, Size first, Size count) {
    for (Size head = 0; head < sizes.key_heads; ++head) {
      to.ranges.push_back({.from = from, .first = head * each + first, .count = count});
    }
  };
  add(out.first, 0, sizes.key_dim);
  add(out.first, sizes.key_dim, sizes.key_dim);
  add(out.first, 2 * sizes.key_dim, values);
  add(out.second, 2 * sizes.key_dim + values, values);
  out.first.shape = {tensor.shape[0], sizes.key_heads * (2 * sizes.key_dim + values)};
  out.second.shape = {tensor.shape[0], sizes.key_heads * values};
  return out;
}

std::optional<TwoTensors> split_latent_heads(const Source& from, const LatentSizes& sizes) {
  const Tensor& tensor = from.tensor;
  const Size each = sizes.plain_dim + sizes.value_dim;
  const bool fits = tensor.rank == 2 && sizes.plain_dim > 0 && sizes.value_dim > 0 &&
                    sizes.heads > 0 && tensor.shape[1] == sizes.heads * each;
  if (!fits) return std::nullopt;
  Source keys;
  keys.owner = std::make_shared<TransposedRows>(from, sizes.plain_dim, each);
  keys.tensor = tensor;
  keys.tensor.rank = 3;
  keys.tensor.shape = {sizes.plain_dim, tensor.shape[0], sizes.heads, 1};
  keys.tensor.data = {};
  keys.tensor.made = keys.owner.get();
  keys.tensor.first_made = 0;
  TwoTensors out{.first = whole(keys), .second = {}};
  for (Size head = 0; head < sizes.heads; ++head) {
    out.second.ranges.push_back(
        {.from = from, .first = head * each + sizes.plain_dim, .count = sizes.value_dim});
  }
  out.second.shape = {tensor.shape[0], sizes.value_dim, sizes.heads};
  return out;
}

ModelPieces::Piece finish_tensor(const std::string& name, MadeTensor& made) {
  const UnitRange& only = made.ranges.front();
  ModelPieces::Piece piece{.name = name,
                           .type = only.from.tensor.type,
                           .shape = made.shape,
                           .data = {},
                           .rows = nullptr};
  const ValueChange& change = made.change;
  const bool changes = (change.to_f32 && piece.type != TensorType::f32) || change.is_decay ||
                       change.added != 0.0f || only.is_scaled();
  const bool in_place = made.ranges.size() == 1 && only.step == 1 && only.head_rows == 0 &&
                        only.from.tensor.made == nullptr && !changes;
  if (in_place) {
    piece.data = only.from.tensor.slice(only.first, only.count).data;
    return piece;
  }
  if (change.to_f32) piece.type = TensorType::f32;
  piece.rows =
      std::make_unique<GatheredRows>(std::move(made.ranges), made.units_per_row, made.change);
  return piece;
}

}  // namespace millrace::engine
