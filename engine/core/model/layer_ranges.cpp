#include "engine/core/model/layer_ranges.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>
#include <string_view>

namespace millrace::engine {
namespace {

// How many ranges of at most `most` bytes the layers take, from the first on as long as possible.
std::uint32_t ranges_of(std::span<const std::uint64_t> bytes, std::uint64_t most) {
  std::uint32_t ranges = 1;
  std::uint64_t sum = 0;
  for (const std::uint64_t each : bytes) {
    if (sum + each > most) {
      ++ranges;
      sum = 0;
    }
    sum += each;
  }
  return ranges;
}

std::unexpected<Error> refused(const std::string& what) {
  return fail(Code::invalid_value, what, "give each device of --pipeline at least one layer");
}

// A cut between layers must be one that the residual stream alone crosses.
Status check_cuts(const ModelSpec& spec, std::span<const LayerRange> ranges) {
  if (ranges.size() == 1) return {};
  if (spec.layer_embedding > 0) {
    return fail(Code::unsupported_architecture,
                spec.architecture + ": a model with embeddings by layer runs on one device alone",
                "leave out --pipeline");
  }
  for (const LayerRange& range : ranges) {
    for (std::uint32_t i = range.first; i < range.end; ++i) {
      const auto& owner = spec.layers[i].attention.cache_of;
      if (!owner || range.has(*owner)) continue;
      return fail(Code::unsupported_architecture,
                  spec.architecture + ": layer " + std::to_string(i) +
                      " reads the keys and values of layer " + std::to_string(*owner) +
                      ", which is on another device of the pipeline",
                  "choose the layers of each device, like --pipeline 0=12,1=18, or leave it out");
    }
  }
  return {};
}

}  // namespace

std::vector<std::uint64_t> layer_bytes(const GgufFile& file, const ModelSpec& spec) {
  std::vector<std::uint64_t> out(spec.layer_count());
  for (const Tensor& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    if (!name.starts_with("blk.")) continue;
    std::uint32_t layer = 0;
    const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
    if (error == std::errc() && layer < out.size()) out[layer] += tensor.size_bytes();
  }
  const Tensor* const head =
      file.find_tensor(spec.tied_output ? "token_embd.weight" : "output.weight");
  if (head != nullptr && !out.empty()) out.back() += head->size_bytes();
  return out;
}

std::vector<LayerRange> even_ranges(std::span<const std::uint64_t> bytes, std::uint32_t stages) {
  std::uint64_t least = std::ranges::max(bytes);
  std::uint64_t most = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  while (least < most) {
    const std::uint64_t middle = least + (most - least) / 2;
    if (ranges_of(bytes, middle) <= stages) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  std::vector<LayerRange> out;
  const auto count = static_cast<std::uint32_t>(bytes.size());
  for (std::uint32_t first = 0, stage = 0; stage < stages; ++stage) {
    const std::uint32_t left = stages - stage - 1;  // each of which needs a layer
    std::uint32_t end = first + 1;
    std::uint64_t sum = bytes[first];
    while (end + left < count && (left == 0 || sum + bytes[end] <= most)) sum += bytes[end++];
    out.push_back({first, end});
    first = end;
  }
  return out;
}

Result<std::vector<LayerRange>> layer_ranges(const GgufFile& file, const ModelSpec& spec,
                                             std::uint32_t stages,
                                             std::span<const std::uint32_t> counts) {
  const std::uint32_t layers = spec.layer_count();
  if (stages > layers) {
    return refused("a pipeline of " + std::to_string(stages) + " devices, the model has " +
                   std::to_string(layers) + (layers == 1 ? " layer" : " layers"));
  }
  std::vector<LayerRange> out;
  if (counts.empty()) {
    out = even_ranges(layer_bytes(file, spec), stages);
  } else {
    if (counts.size() != stages) {
      return refused("--pipeline has " + std::to_string(counts.size()) + " numbers of layers for " +
                     std::to_string(stages) + " devices");
    }
    for (const std::uint32_t count : counts) {
      const std::uint32_t first = out.empty() ? 0 : out.back().end;
      if (count == 0 || count > layers - first) {
        return refused("--pipeline gives a device " + std::to_string(count) + " layers where " +
                       std::to_string(layers - first) + " are left");
      }
      out.push_back({first, first + count});
    }
    if (out.back().end != layers) {
      return refused("--pipeline names " + std::to_string(out.back().end) +
                     " layers, the model has " + std::to_string(layers));
    }
  }
  MILLRACE_TRY(check_cuts(spec, out));
  return out;
}

}  // namespace millrace::engine
