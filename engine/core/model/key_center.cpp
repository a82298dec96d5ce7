#include "engine/core/model/key_center.hpp"

#include <utility>

#include "engine/core/families/rotary.hpp"
#include "engine/core/kv/policy.hpp"

namespace millrace::engine {

KeyCenter::KeyCenter(const AttentionSpec& attention, std::uint32_t positions)
    : rope_(attention.rope),
      head_dim_(attention.head_dim),
      segments_((positions + kv_segment_tokens - 1) / kv_segment_tokens) {
  const std::size_t half = rope_.dim / 2;
  const std::vector<float> table = rope_table(rope_, segments_ * kv_segment_tokens);
  turns_.resize(segments_ * half * 2);
  for (std::size_t s = 0; s < segments_; ++s) {
    double* const sums = &turns_[s * 2 * half];
    for (std::size_t p = s * kv_segment_tokens; p < (s + 1) * kv_segment_tokens; ++p) {
      for (std::size_t i = 0; i < 2 * half; ++i) {
        sums[i] += static_cast<double>(table[p * 2 * half + i]);
      }
    }
    for (std::size_t i = 0; i < 2 * half; ++i) sums[i] /= kv_segment_tokens;
  }
}

std::vector<float> KeyCenter::table(std::span<const float> means) const {
  const std::size_t dim = head_dim_, half = rope_.dim / 2;
  const bool halves = rope_.kind == RopeKind::halves;
  std::vector<float> out;
  out.reserve(segments_ * means.size());
  for (std::size_t s = 0; s < segments_; ++s) {
    const std::size_t begin = out.size();
    out.insert(out.end(), means.begin(), means.end());
    for (std::size_t head = 0; head < means.size(); head += dim) {
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t first = head + (halves ? i : 2 * i);
        const std::size_t second = head + (halves ? i + half : 2 * i + 1);
        const double a = static_cast<double>(means[first]), b = static_cast<double>(means[second]);
        const double cosine = turns_[(s * half + i) * 2], sine = turns_[(s * half + i) * 2 + 1];
        out[begin + first] = static_cast<float>(a * cosine - b * sine);
        out[begin + second] = static_cast<float>(a * sine + b * cosine);
      }
    }
  }
  return out;
}

Result<std::vector<Buffer>> load_center(Device& device, const ModelSpec& spec,
                                        const KeyMeans& means, std::uint32_t positions) {
  std::vector<Buffer> out;
  for (std::uint32_t i = 0; i < spec.layer_count(); ++i) {
    if (!spec.layers[i].attention.stores()) {
      out.emplace_back();
      continue;
    }
    const KeyCenter center(spec.layers[i].attention, positions);
    const std::vector<float> table = center.table(means.layer(i));
    const auto bytes = std::as_bytes(std::span(table));
    MILLRACE_ASSIGN(Buffer buffer, device.allocate(bytes.size(), "mean keys"));
    MILLRACE_TRY(device.write(buffer, 0, bytes));
    out.push_back(std::move(buffer));
  }
  return out;
}

}  // namespace millrace::engine
