#pragma once
// A llama of a large model's shape without a file: its rows are made of a few megabytes of random
// blocks as they are read, so a model of any number of layers is there at once. Its text is
// nonsense; its steps take the time of a real model's. Thread safety: pure functions.
#include <cstdint>
#include <string>

#include "engine/core/gguf/file.hpp"
#include "schemas/base/error.hpp"

namespace millrace::bench {

struct DummyShape {
  std::uint32_t layers = 80, width = 8192, heads = 64, kv_heads = 8, ffn_width = 28672;
  std::uint32_t vocabulary = 128256;
  std::uint32_t head_dim() const { return width / heads; }
};

// The shapes of Llama 3.1 8B and Llama 3 70B, and one for tests, by the names 8b, 70b and tiny.
// Errors: usage.
Result<DummyShape> dummy_shape(const std::string& name);

// A model of matrices of Q8_0 or Q4_0. Models that differ in layers alone have the same first ones.
Result<engine::GgufFile> dummy_model(const DummyShape& shape, engine::TensorType type);

}  // namespace millrace::bench
