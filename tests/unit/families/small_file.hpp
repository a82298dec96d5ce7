#pragma once
// A file's metadata and tensor names for one architecture, with sizes that a test may replace. Its
// tensors hold almost nothing: a specification depends on their names, rarely on their shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "tests/support/gguf_builder.hpp"

namespace millrace::testing {

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return *std::move(result);
}

// Tensors of each layer, by the parts of it.
inline const std::vector<std::string> dense{"ffn_gate", "ffn_up", "ffn_down"};
inline const std::vector<std::string> routed{"ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps",
                                             "ffn_down_exps"};
inline const std::vector<std::string> shared{"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"};
inline const std::vector<std::string> post_norms{"post_attention_norm", "post_ffw_norm"};
inline const engine::NormNames norms_around{"attn_norm", "post_attention_norm", "ffn_norm",
                                            "post_ffw_norm"};

class SmallFile {
 public:
  explicit SmallFile(std::string architecture, std::uint32_t layers = 4)
      : architecture_(std::move(architecture)), layers_(layers) {
    u32("block_count", layers).u32("context_length", 1024).u32("embedding_length", 64);
    u32("feed_forward_length", 96).u32("attention.head_count", 4);
    u32("attention.head_count_kv", 2).f32("attention.layer_norm_rms_epsilon", 1e-5f);
    tensor("token_embd.weight", {1, 70}).tensor("output_norm.weight").tensor("output.weight");
    add({"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"});
    add({"ffn_norm", "ffn_gate", "ffn_up", "ffn_down"});
  }

  SmallFile& u32(const std::string& key, std::uint32_t value) {
    return set(key, [=](GgufBuilder& b, const std::string& full) { b.u32(full, value); });
  }
  SmallFile& f32(const std::string& key, float value) {
    return set(key, [=](GgufBuilder& b, const std::string& full) { b.f32(full, value); });
  }
  SmallFile& flag(const std::string& key, bool value) {
    return set(key, [=](GgufBuilder& b, const std::string& full) { b.boolean(full, value); });
  }
  SmallFile& text(const std::string& key, const std::string& value) {
    return set(key, [=](GgufBuilder& b, const std::string& full) { b.string(full, value); });
  }
  SmallFile& u32s(const std::string& key, const std::vector<std::uint32_t>& values) {
    return set(key, [=](GgufBuilder& b, const std::string& full) {
      b.array(full, engine::ValueType::u32, values);
    });
  }
  SmallFile& flags(const std::string& key, const std::vector<std::uint8_t>& values) {
    return set(key, [=](GgufBuilder& b, const std::string& full) {
      b.array(full, engine::ValueType::boolean, values);
    });
  }
  // A key of another architecture, by its whole name.
  SmallFile& foreign(const std::string& full, float value) {
    keys_[full] = [=](GgufBuilder& b, const std::string&) { b.f32(full, value); };
    return *this;
  }
  SmallFile& without_key(const std::string& key) {
    keys_.erase(key);
    return *this;
  }

  // Adds a tensor of zeros, or of the values given.
  SmallFile& tensor(const std::string& name, std::vector<std::uint64_t> shape = {1},
                    const std::vector<float>& values = {}) {
    std::uint64_t elements = 1;
    for (const std::uint64_t size : shape) elements *= size;
    std::vector<std::byte> data;
    for (const float value : values) GgufBuilder::append(data, value);
    data.resize(elements * sizeof(float));
    tensors_[name] = {std::move(shape), std::move(data)};
    return *this;
  }
  SmallFile& without(const std::string& name) {
    if (tensors_.erase(name) == 0) throw std::invalid_argument("no tensor " + name);
    return *this;
  }
  // Adds to all layers, or removes from them, tensors of these names; ".weight" is understood.
  SmallFile& add(const std::vector<std::string>& names) {
    for_all(names, [this](const std::string& name) { tensor(name); });
    return *this;
  }
  SmallFile& remove(const std::vector<std::string>& names) {
    for_all(names, [this](const std::string& name) { without(name); });
    return *this;
  }

  engine::GgufFile file() const {
    GgufBuilder out;
    out.string("general.architecture", architecture_).string("general.name", "small");
    for (const auto& [key, write] : keys_) write(out, architecture_ + "." + key);
    for (const auto& [name, tensor] : tensors_) out.tensor(name, tensor.first, 0, tensor.second);
    return value_of(engine::GgufFile::parse(engine::bytes_of(out.build()), "small.gguf"));
  }
  engine::ModelSpec spec() const { return value_of(engine::read_spec(file())); }
  // The error that the file gives; fails the test if it gives none.
  Error error() const {
    const auto spec = engine::read_spec(file());
    if (spec) throw std::runtime_error("the file was not refused");
    return spec.error();
  }

 private:
  using Write = std::function<void(GgufBuilder&, const std::string&)>;
  SmallFile& set(const std::string& key, Write write) {
    keys_[key] = std::move(write);
    return *this;
  }
  template <class Use>
  void for_all(const std::vector<std::string>& names, Use use) const {
    for (std::uint32_t i = 0; i < layers_; ++i) {
      for (const std::string& name : names) {
        const bool whole = name.find('.') != std::string::npos;
        use("blk." + std::to_string(i) + "." + name + (whole ? "" : ".weight"));
      }
    }
  }

  std::string architecture_;
  std::uint32_t layers_;
  std::map<std::string, Write> keys_;
  std::map<std::string, std::pair<std::vector<std::uint64_t>, std::vector<std::byte>>> tensors_;
};

inline float root_scale(double channels) {
  return static_cast<float>(1.0 / std::sqrt(channels));
}

// A layer of a SmallFile as llama has it.
inline engine::LayerSpec plain_layer(engine::RopeKind kind = engine::RopeKind::pairs) {
  engine::LayerSpec layer;
  layer.attention.heads = 4;
  layer.attention.kv_heads = 2;
  layer.attention.head_dim = 16;
  layer.attention.scale = 0.25f;
  layer.attention.rope = {.kind = kind, .dim = 16, .base = 10000.0};
  layer.feed_forward.width = 96;
  return layer;
}

// Compares part by part, so that a failure says which part differs. The last bits of amplitudes
// need not agree with those of the C library.
inline void expect_layer(engine::LayerSpec got, const engine::LayerSpec& expected) {
  EXPECT_NEAR(got.attention.rope.amplitude, expected.attention.rope.amplitude, 1e-12);
  got.attention.rope.amplitude = expected.attention.rope.amplitude;
  EXPECT_EQ(got.attention.rope.kind, expected.attention.rope.kind);
  EXPECT_EQ(got.attention.rope.base, expected.attention.rope.base);
  EXPECT_TRUE(got.attention.rope == expected.attention.rope);
  EXPECT_EQ(got.attention.scale, expected.attention.scale);
  EXPECT_EQ(got.attention.window, expected.attention.window);
  EXPECT_TRUE(got.attention == expected.attention);
  EXPECT_TRUE(got.feed_forward == expected.feed_forward);
  EXPECT_TRUE(got.norms == expected.norms);
  EXPECT_TRUE(got == expected);
}

inline void expect_layers(const engine::ModelSpec& spec, std::uint32_t count,
                          const std::function<engine::LayerSpec(std::uint32_t)>& expected) {
  ASSERT_EQ(spec.layer_count(), count);
  for (std::uint32_t i = 0; i < count; ++i) {
    SCOPED_TRACE("layer " + std::to_string(i));
    expect_layer(spec.layers[i], expected(i));
  }
}

inline void expect_layers(const engine::ModelSpec& spec, std::uint32_t count,
                          const engine::LayerSpec& expected) {
  expect_layers(spec, count, [&](std::uint32_t) { return expected; });
}

}  // namespace millrace::testing
