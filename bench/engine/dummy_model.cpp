#include "bench/engine/dummy_model.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/gguf_builder.hpp"

namespace millrace::bench {
namespace {

using engine::ModelPieces;
using engine::TensorType;

constexpr std::size_t pattern_blocks = std::size_t{1} << 20;
// Half-precision scales with which a matrix's weights have a deviation of about .02.
constexpr std::uint16_t scale_of_bytes = 0x0a0c, scale_of_nibbles = 0x1c8d;  // 1.85e-4 and 4.4e-3

using Pattern = std::vector<std::byte>;

// Random blocks: a scale, then codes that may be any.
std::shared_ptr<const Pattern> random_blocks(TensorType type) {
  const std::size_t block = engine::traits_of(type).block_bytes;
  auto out = std::make_shared<Pattern>(pattern_blocks * block);
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < out->size(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    (*out)[i] = static_cast<std::byte>(state >> 56);
  }
  const std::uint16_t scale = type == TensorType::q8_0 ? scale_of_bytes : scale_of_nibbles;
  for (std::size_t at = 0; at < out->size(); at += block) {
    (*out)[at] = static_cast<std::byte>(scale & 0xff);
    (*out)[at + 1] = static_cast<std::byte>(scale >> 8);
  }
  return out;
}

// Rows of a tensor from some block of the pattern on, which begins again after its end.
class PatternRows final : public engine::RowSource {
 public:
  PatternRows(std::shared_ptr<const Pattern> pattern, std::size_t begin, std::size_t row_bytes)
      : pattern_(std::move(pattern)), begin_(begin), row_bytes_(row_bytes) {}

  void read(std::uint64_t first, std::span<std::byte> out) const override {
    std::size_t at = (begin_ + first * row_bytes_) % pattern_->size();
    while (!out.empty()) {
      const std::size_t bytes = std::min(out.size(), pattern_->size() - at);
      std::copy_n(pattern_->begin() + static_cast<std::ptrdiff_t>(at), bytes, out.begin());
      out = out.subspan(bytes);
      at = 0;
    }
  }

 private:
  std::shared_ptr<const Pattern> pattern_;
  std::size_t begin_, row_bytes_;
};

class Ones final : public engine::RowSource {
  void read(std::uint64_t, std::span<std::byte> out) const override {
    constexpr std::byte one[] = {std::byte{0}, std::byte{0}, std::byte{0x80}, std::byte{0x3f}};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = one[i % 4];
  }
};

class Writer {
 public:
  Writer(const DummyShape& shape, TensorType type) : type_(type), pattern_(random_blocks(type)) {
    testing::GgufBuilder head;
    head.string("general.architecture", "llama").string("general.name", "dummy");
    head.u32("llama.block_count", shape.layers).u32("llama.embedding_length", shape.width);
    head.u32("llama.feed_forward_length", shape.ffn_width).u32("llama.context_length", 8192);
    head.u32("llama.attention.head_count", shape.heads);
    head.u32("llama.attention.head_count_kv", shape.kv_heads);
    head.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    head.f32("llama.rope.freq_base", 500000.0f);
    pieces_.source = "a dummy model";
    pieces_.metadata = head.build();
  }

  void norm(const std::string& name, std::uint64_t width) {
    pieces_.tensors.push_back({name, TensorType::f32, {width}, {}, std::make_unique<Ones>()});
  }
  void matrix(const std::string& name, std::uint64_t columns, std::uint64_t rows) {
    const auto& traits = engine::traits_of(type_);
    const std::size_t block = traits.block_bytes;
    // By the name, so that a layer is the same in models of any number of layers.
    std::size_t begin = 0;
    for (const char c : name) begin = (begin * 31 + static_cast<unsigned char>(c)) % pattern_blocks;
    pieces_.tensors.push_back(
        {name,
         type_,
         {columns, rows},
         {},
         std::make_unique<PatternRows>(pattern_, begin * block,
                                       columns / traits.block_elements * block)});
  }
  Result<engine::GgufFile> finish() { return engine::GgufFile::assemble(std::move(pieces_)); }

 private:
  TensorType type_;
  std::shared_ptr<const Pattern> pattern_;
  ModelPieces pieces_;
};

}  // namespace

Result<DummyShape> dummy_shape(const std::string& name) {
  if (name == "70b") return DummyShape{};
  if (name == "8b") {
    return DummyShape{.layers = 32, .width = 4096, .heads = 32, .kv_heads = 8, .ffn_width = 14336};
  }
  if (name == "tiny") {
    return DummyShape{
        .layers = 4, .width = 256, .heads = 4, .kv_heads = 2, .ffn_width = 512, .vocabulary = 3000};
  }
  return fail(Code::usage, "there is no shape " + name, "give 8b, 70b or tiny");
}

Result<engine::GgufFile> dummy_model(const DummyShape& shape, TensorType type) {
  if (type != TensorType::q8_0 && type != TensorType::q4_0) {
    return fail(Code::usage, "dummy models have no such type", "give Q8_0 or Q4_0");
  }
  Writer out(shape, type);
  const std::uint64_t width = shape.width, kv = std::uint64_t{shape.kv_heads} * shape.head_dim();
  out.matrix("token_embd.weight", width, shape.vocabulary);
  out.matrix("output.weight", width, shape.vocabulary);
  out.norm("output_norm.weight", width);
  for (std::uint32_t i = 0; i < shape.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    out.norm(layer + "attn_norm.weight", width);
    out.norm(layer + "ffn_norm.weight", width);
    out.matrix(layer + "attn_q.weight", width, width);
    out.matrix(layer + "attn_k.weight", width, kv);
    out.matrix(layer + "attn_v.weight", width, kv);
    out.matrix(layer + "attn_output.weight", width, width);
    out.matrix(layer + "ffn_gate.weight", width, shape.ffn_width);
    out.matrix(layer + "ffn_up.weight", width, shape.ffn_width);
    out.matrix(layer + "ffn_down.weight", shape.ffn_width, width);
  }
  return out.finish();
}

}  // namespace millrace::bench
