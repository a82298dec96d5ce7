#pragma once
// The whole engine over a llama of random weights with a vocabulary of bytes, for tests that need a
// smaller or stranger model than the real one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "engine/core/engine.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/tokenizer/support.hpp"

namespace millrace::engine {

// 256 bytes, and two control tokens that a chat template writes.
inline constexpr std::uint32_t tiny_vocabulary = 258;

inline EngineOptions tiny_options() {
  EngineOptions options;
  options.kv_memory_bytes = limits::MiB;
  options.max_batch = 8;
  options.step_tokens = 64;
  options.prefix_cache = false;  // so that earlier requests do not change what is computed
  options.kernel_variant = millrace::testing::test_variant();
  return options;
}

class TinyEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("millrace-tiny-") + test->name() + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Creates an engine; `rows` is the embedding's, and the options' model path is filled in.
  Result<std::unique_ptr<Engine>> create(std::uint32_t rows, const std::string& chat = "",
                                         EngineOptions options = tiny_options()) const {
    millrace::testing::TestVocabulary words;
    words.add("<|turn|>", 3);
    words.add("<|end|>", 3);
    millrace::testing::TinyModel model = model_;
    model.vocabulary = rows;
    auto file = model.builder();
    file.string("tokenizer.ggml.model", words.model)
        .string("tokenizer.ggml.pre", words.pre)
        .strings("tokenizer.ggml.tokens", words.tokens)
        .array("tokenizer.ggml.token_type", ValueType::i32, words.kinds)
        .strings("tokenizer.ggml.merges", words.merges);
    if (!chat.empty()) file.string("tokenizer.chat_template", chat);
    options.model_path = folder_ / "tiny.gguf";
    const auto bytes = file.build();
    std::ofstream(options.model_path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return Engine::create(options);
  }

  std::filesystem::path folder_;
  millrace::testing::TinyModel model_;  // a test may change its shape
};

}  // namespace millrace::engine
