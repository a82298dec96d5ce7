#pragma once
// A model of random weights in a few kilobytes, in memory, for tests that do not need sensible
// text.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "tests/support/device.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/one_layer.hpp"
#include "tests/support/random_blocks.hpp"

namespace millrace::testing {

struct TinyModel {
  std::string architecture = "llama";
  std::uint32_t layers = 2, width = 64, heads = 4, kv_heads = 2, ffn_width = 96, vocabulary = 70;
  std::uint32_t context = 1024;
  bool tied = false, biases = true;
  engine::AttentionShape attention{};  // with `sinks`, adds their tensors
  engine::TensorType type = engine::TensorType::f32;
  std::map<std::string, engine::TensorType> types{};           // types of single tensors
  std::map<std::string, std::vector<std::uint64_t>> shapes{};  // replace the right ones
  std::map<std::string, float> scales{};                       // factors of single fp32 tensors
  std::vector<std::string> absent{};
  // Further tensors of each layer, by name without "blk.N."; ".weight" is added where there is no
  // other ending.
  std::map<std::string, std::vector<std::uint64_t>> layer_tensors{};
  std::map<std::string, float> numbers{};         // further keys of the architecture
  std::map<std::string, std::uint32_t> counts{};  // likewise
  std::uint64_t seed = 1;

  GgufBuilder builder() const {
    GgufBuilder out;
    out.string("general.architecture", architecture).string("general.name", "tiny");
    const auto key = [&](const char* name) { return architecture + "." + name; };
    out.u32(key("block_count"), layers).u32(key("embedding_length"), width);
    out.u32(key("feed_forward_length"), ffn_width).u32(key("context_length"), context);
    out.u32(key("attention.head_count"), heads).u32(key("attention.head_count_kv"), kv_heads);
    out.f32(key("attention.layer_norm_rms_epsilon"), 1e-5f);
    if (attention.window > 0) out.u32(key("attention.sliding_window"), attention.window);
    if (attention.soft_cap > 0) out.f32(key("attn_logit_softcapping"), attention.soft_cap);
    for (const auto& [name, number] : numbers) out.f32(key(name.c_str()), number);
    for (const auto& [name, count] : counts) out.u32(key(name.c_str()), count);
    add_tensors(out);
    return out;
  }

  engine::GgufFile file() const { return file(builder()); }
  static engine::GgufFile file(const GgufBuilder& built) {
    return must(engine::GgufFile::parse(engine::bytes_of(built.build()), "tiny.gguf"));
  }

 private:
  void add_tensors(GgufBuilder& out) const {
    Random random(seed);
    const std::uint32_t dim = width / heads;
    add(out, random, "token_embd.weight", width, vocabulary);
    add(out, random, "output_norm.weight", width, 0);
    if (!tied) add(out, random, "output.weight", width, vocabulary);
    for (std::uint32_t i = 0; i < layers; ++i) {
      const std::string p = "blk." + std::to_string(i) + ".";
      add(out, random, p + "attn_norm.weight", width, 0);
      add(out, random, p + "ffn_norm.weight", width, 0);
      for (const auto& [name, shape] : layer_tensors) {
        add(out, random, p + name + (name.contains('.') ? "" : ".weight"), shape);
      }
      add_projection(out, random, p + "attn_q", width, heads * dim);
      add_projection(out, random, p + "attn_k", width, kv_heads * dim);
      add_projection(out, random, p + "attn_v", width, kv_heads * dim);
      add_projection(out, random, p + "attn_output", heads * dim, width);
      if (attention.sinks) add(out, random, p + "attn_sinks.weight", heads, 0);
      add_projection(out, random, p + "ffn_gate", width, ffn_width);
      add_projection(out, random, p + "ffn_up", width, ffn_width);
      add_projection(out, random, p + "ffn_down", ffn_width, width);
    }
  }

  void add_projection(GgufBuilder& out, Random& random, const std::string& name,
                      std::uint64_t columns, std::uint64_t rows) const {
    add(out, random, name + ".weight", columns, rows);
    if (biases) add(out, random, name + ".bias", rows, 0);
  }

  // Adds a tensor; rows 0 makes it a vector, which is always fp32.
  void add(GgufBuilder& out, Random& random, const std::string& name, std::uint64_t columns,
           std::uint64_t rows) const {
    std::vector<std::uint64_t> shape{columns};
    if (rows > 0) shape.push_back(rows);
    add(out, random, name, std::move(shape));
  }

  void add(GgufBuilder& out, Random& random, const std::string& name,
           std::vector<std::uint64_t> shape) const {
    for (const std::string& missing : absent) {
      if (missing == name) return;
    }
    const auto found = types.find(name);
    const auto chosen = shape.size() == 1      ? engine::TensorType::f32
                        : found == types.end() ? type
                                               : found->second;
    if (const auto other = shapes.find(name); other != shapes.end()) shape = other->second;
    std::uint64_t elements = 1;
    for (const std::uint64_t size : shape) elements *= size;
    const auto scaled = scales.find(name);
    const float scale = scaled == scales.end() ? 1.0f : scaled->second;
    out.tensor(name, shape, static_cast<std::uint32_t>(chosen),
               data(chosen, elements, random, scale));
  }

  static std::vector<std::byte> data(engine::TensorType type, std::uint64_t elements,
                                     Random& random, float scale) {
    const auto& traits = engine::traits_of(type);
    std::vector<std::byte> out;
    for (std::uint64_t i = 0; i < elements / traits.block_elements; ++i) {
      if (type == engine::TensorType::f32) {
        GgufBuilder::append(out, random.uniform(-0.3f, 0.3f) * scale);
        continue;
      }
      if (type == engine::TensorType::f16 || type == engine::TensorType::bf16) {
        const std::uint32_t size = type == engine::TensorType::f16 ? 0x2800 : 0x3d00;
        GgufBuilder::append(
            out, static_cast<std::uint16_t>((random.below(2) << 15) | size | random.below(0x400)));
        continue;
      }
      append_random_block(out, type, random, [&](std::uint32_t half) {
        const std::uint32_t sign = half == 1 && !super_block(type) ? 0x8000 : 0;
        return static_cast<std::uint16_t>(sign | (half_size(type, half) + random.below(0x100)));
      });
    }
    return out;
  }

  static bool super_block(engine::TensorType type) {
    return engine::traits_of(type).block_elements > 32;
  }

  // Returns the bits of a scale that keeps weights within a few tenths, or of a minimum that lies
  // half of that below zero.
  static std::uint32_t half_size(engine::TensorType type, std::uint32_t half) {
    using engine::TensorType;
    switch (type) {
      case TensorType::q8_0:
      case TensorType::iq4_nl:
      case TensorType::iq2_s:
      case TensorType::iq2_xs:
      case TensorType::iq2_xxs:
        return 0x1800;          // 2^-9
      case TensorType::iq4_xs:  // times 32 times seven bits: a subnormal half
        return 0x0080;
      case TensorType::iq3_s:
      case TensorType::iq3_xxs:  // times 31/4 times six bits
        return 0x1000;
      case TensorType::q3_k:
        return 0x1400;
      case TensorType::q2_k:
        return half == 0 ? 0x2000 : 0x2400;
      case TensorType::q5_0:
        return 0x2000;
      case TensorType::q5_1:
        return half == 0 ? 0x2000 : 0x2c00;
      case TensorType::q4_k:  // times six bits
        return half == 0 ? 0x1000 : 0x1c00;
      case TensorType::q5_k:
        return half == 0 ? 0x0c00 : 0x1c00;
      case TensorType::q6_k:  // times seven bits: a subnormal half
        return 0x0100;
      default:
        return half == 0 ? 0x2400 : 0x2c00;
    }
  }
};

}  // namespace millrace::testing
