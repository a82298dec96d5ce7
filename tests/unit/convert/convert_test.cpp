// A whole conversion: the new file beside the old one, and what is left when something fails.
#include "engine/core/convert/convert.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/core/convert/encode.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "schemas/base/fault_env.hpp"
#include "tests/support/device.hpp"
#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

using namespace engine;

const std::string out_path = "/models/out.gguf", temporary = out_path + ".new";

std::vector<std::byte> bytes_of_floats(const std::vector<float>& values) {
  const auto* const from = reinterpret_cast<const std::byte*>(values.data());
  return {from, from + values.size() * sizeof(float)};
}

struct Source {
  GgufBuilder builder;
  std::vector<float> large;  // blk.0.ffn_up.weight: several pieces
};

// A model of a layer, with keys that a conversion changes or leaves out among others.
Source source(float in_large = 0) {
  Source made;
  Random random(1);
  made.large = random.floats(256 * 3000, -1, 1);
  if (in_large != 0) made.large[256 * 2500 + 3] = in_large;
  made.builder.u32("general.file_type", 0)
      .string("general.architecture", "llama")
      .u32("split.no", 0)
      .u32("llama.block_count", 1)
      .u32("llama.attention.head_count", 4)
      .strings("tokenizer.ggml.tokens", {"a", "b"})
      .tensor("token_embd.weight", {256, 2}, 0, bytes_of_floats(random.floats(512, -1, 1)))
      .tensor("output_norm.weight", {256}, 0, bytes_of_floats(random.floats(256, 0, 2)))
      .tensor("blk.0.ffn_up.weight", {256, 3000}, 0, bytes_of_floats(made.large))
      .tensor("blk.0.ffn_gate_inp.weight", {256, 4}, 0,
              bytes_of_floats(random.floats(1024, -1, 1)));
  return made;
}

class Convert : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(env_.make_directories("/models")); }

  static GgufFile parsed(const GgufBuilder& builder) {
    auto file = parse(builder.build());
    EXPECT_TRUE(file) << file.error().text();
    return *std::move(file);
  }
  Status convert(const GgufFile& file, const char* type, const ConvertOptions& options = {}) {
    MILLRACE_ASSIGN(const auto plan, plan_conversion(file, *find_file_type(type), false));
    return write_conversion(file, plan, env_, out_path, options);
  }
  std::vector<std::byte> content() {
    const auto text = read_file(env_, out_path, 1 << 30);
    EXPECT_TRUE(text);
    const auto* const from = reinterpret_cast<const std::byte*>(text->data());
    return {from, from + text->size()};
  }
  void expect_nothing_left() { EXPECT_TRUE(env_.list("/models")->empty()); }

  FaultEnv env_;
};

TEST_F(Convert, TensorsAreEncodedAndMetadataStays) {
  const Source from = source();
  const GgufFile before = parsed(from.builder);
  ASSERT_TRUE(convert(before, "Q4_K_M", {.threads = 2}));
  const auto after = parse(content());
  ASSERT_TRUE(after) << after.error().text();
  const std::vector<std::string_view> keys{"general.file_type",     "general.architecture",
                                           "llama.block_count",     "llama.attention.head_count",
                                           "tokenizer.ggml.tokens", "general.quantization_version"};
  EXPECT_TRUE(std::ranges::equal(after->metadata().keys(), keys));  // split.no is left out
  EXPECT_EQ(after->metadata().get<std::uint32_t>("general.file_type"), 15u);
  EXPECT_EQ(after->metadata().get<std::vector<std::string_view>>("tokenizer.ggml.tokens")->at(1),
            "b");
  const TensorType types[] = {TensorType::q6_k, TensorType::f32, TensorType::q4_k, TensorType::f32};
  for (std::size_t i = 0; i < 4; ++i) {
    const Tensor& tensor = after->tensors()[i];
    EXPECT_EQ(tensor.name, before.tensors()[i].name);
    EXPECT_EQ(tensor.shape, before.tensors()[i].shape);
    EXPECT_EQ(tensor.type, types[i]);
    const bool same = std::ranges::equal(tensor.data, before.tensors()[i].data);
    EXPECT_EQ(same, types[i] == TensorType::f32);
  }
  std::vector<std::byte> wanted(3000 * 144);
  ASSERT_TRUE(encode(TensorType::q4_k, from.large, wanted));
  EXPECT_TRUE(std::ranges::equal(after->tensors()[2].data, wanted));
}

TEST_F(Convert, ThreadsChangeNoByte) {
  const GgufFile file = parsed(source().builder);
  ASSERT_TRUE(convert(file, "Q8_0"));
  const auto alone = content();
  ASSERT_TRUE(convert(file, "Q8_0", {.threads = 7}));
  EXPECT_TRUE(content() == alone);
}

TEST_F(Convert, BlocksOfTheSameTypeAreCopied) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").u32("llama.block_count", 1);
  // Random bytes: no encoder would write the scales of all these blocks.
  builder.tensor("blk.0.ffn_up.weight", {32, 8}, 8, filled(8 * 34));
  const GgufFile file = parsed(builder);
  ASSERT_TRUE(convert(file, "Q8_0"));
  EXPECT_TRUE(std::ranges::equal(parse(content())->tensors()[0].data, file.tensors()[0].data));
}

TEST_F(Convert, QuantizedTensorsAreNotQuantizedAgainUnasked) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").u32("llama.block_count", 1);
  builder.tensor("blk.0.ffn_up.weight", {32, 8}, 8, std::vector<std::byte>(8 * 34));
  const GgufFile file = parsed(builder);
  for (const char* type : {"Q4_0", "F16", "Q4_K"}) {
    const auto plan = plan_conversion(file, *find_file_type(type), false);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::conflict);
    EXPECT_NE(plan.error().message.find("'blk.0.ffn_up.weight' is quantized as Q8_0"),
              std::string::npos);
    EXPECT_NE(plan.error().hint.find("--allow-requantize"), std::string::npos);
    EXPECT_TRUE(plan_conversion(file, *find_file_type(type), true));
  }
}

TEST_F(Convert, SmallTensorsOfHalvesBecomeF32) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").u32("llama.block_count", 1);
  const std::vector<std::byte> zeros(64 * 2 * 2);
  builder.tensor("blk.0.attn_norm.weight", {64}, 30, std::span(zeros).first(128))
      .tensor("blk.0.attn_q.bias", {64}, 1, std::span(zeros).first(128))
      .tensor("blk.0.ffn_gate_inp.weight", {64, 2}, 30, zeros)
      .tensor("per_layer_model_proj.weight", {64, 2}, 30, zeros)
      .tensor("blk.0.attn_q.weight", {64, 2}, 30, zeros);
  const auto plan = plan_conversion(parsed(builder), *find_file_type("Q8_0"), false);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->types, (std::vector{TensorType::f32, TensorType::f32, TensorType::f32,
                                      TensorType::bf16, TensorType::q8_0}));
}

TEST_F(Convert, MetadataThatTheChoiceNeedsIsAskedFor) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  const auto plan = plan_conversion(parsed(builder), *find_file_type("Q8_0"), false);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("llama.block_count"), std::string::npos);
}

TEST_F(Convert, ValuesThatATypeCannotHoldAreNamedAndNothingIsLeft) {
  struct Case {
    float value;
    const char* type;
    const char* says;
  };
  for (const Case& wrong : {Case{INFINITY, "Q8_0", "not finite"},
                            {NAN, "F16", "not finite"},
                            {NAN, "F32", "not finite"},
                            {70000, "F16",
                             "70000.000000, which is too "
                             "large for F16"},
                            {-1e30f, "Q4_K", "too large for Q4_K"}}) {
    const Status done = convert(parsed(source(wrong.value).builder), wrong.type, {.threads = 3});
    ASSERT_FALSE(done) << wrong.type;
    EXPECT_EQ(done.error().code, Code::gguf_malformed);
    for (const std::string says :
         {"test.gguf: tensor 'blk.0.ffn_up.weight', row 2500, ", wrong.says})
      EXPECT_NE(done.error().message.find(says), std::string::npos) << done.error().message;
    expect_nothing_left();
  }
  EXPECT_TRUE(convert(parsed(source(70000).builder), "BF16"));
}

TEST_F(Convert, AFullDiskSaysWhatIsNeededAndNothingIsLeft) {
  const GgufFile file = parsed(source().builder);
  const auto plan = plan_conversion(file, *find_file_type("Q8_0"), false);
  ASSERT_TRUE(plan);
  const std::string needs =
      out_path + " needs " + std::to_string(plan->layout.file_bytes) + " bytes";
  env_.set_capacity(100'000);
  Status done = convert(file, "Q8_0");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::disk_full);
  EXPECT_EQ(done.error().message, "/models has 100000 bytes free; " + needs);
  expect_nothing_left();
  // The disk fills up in the middle: another program took the room.
  env_.set_capacity(1 << 30);
  int writes = 0;
  env_.set_hook([&](std::string_view operation, const std::string& path) -> Status {
    if (path != temporary || operation != "write" || ++writes < 4) return {};
    return fail(Code::disk_full, "cannot write " + path + ": No space left on device");
  });
  done = convert(file, "Q8_0", {.threads = 2});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::disk_full);
  EXPECT_NE(done.error().message.find("No space left on device; " + needs), std::string::npos)
      << done.error().message;
  expect_nothing_left();
}

TEST_F(Convert, APowerCutLeavesTheOldFileOrTheNewOne) {
  const GgufFile file = parsed(source().builder);
  ASSERT_TRUE(convert(file, "Q8_0"));
  const auto old = content();
  const std::uint64_t before = env_.operations();
  ASSERT_TRUE(convert(file, "Q4_0"));
  const auto fresh = content();
  const std::uint64_t operations = env_.operations() - before;
  ASSERT_GT(operations, 5u);
  bool kept_old = false;
  for (std::uint64_t cut = 1; cut <= operations; ++cut) {
    ASSERT_TRUE(convert(file, "Q8_0"));
    env_.cut_after(cut);
    EXPECT_FALSE(convert(file, "Q4_0") && cut < operations);
    env_.restart(cut);
    const auto left = content();
    EXPECT_TRUE(left == old || left == fresh) << "cut at operation " << cut;
    kept_old = kept_old || left == old;
  }
  EXPECT_TRUE(kept_old);
}

TEST_F(Convert, AnInterruptionLeavesNothing) {
  std::atomic<int> asked = 0;
  const Status done =
      convert(parsed(source().builder), "Q8_0", {.interrupted = [&] { return ++asked > 3; }});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::interrupted);
  expect_nothing_left();
}

TEST_F(Convert, AnotherConversionOfTheSameFileIsRefused) {
  const auto held = env_.lock(out_path + ".lock");
  ASSERT_TRUE(held);
  const Status done = convert(parsed(source().builder), "Q8_0");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::output_in_use);
}

TEST_F(Convert, ProgressTellsEachTensorInOrder) {
  const GgufFile file = parsed(source().builder);
  std::vector<std::size_t> tensors;
  std::uint64_t bytes = 0;
  ASSERT_TRUE(convert(file, "F16", {.threads = 4, .progress = [&](const ConvertProgress& told) {
                                      tensors.push_back(told.tensor);
                                      EXPECT_GE(told.written_bytes, bytes);
                                      bytes = told.written_bytes;
                                    }}));
  EXPECT_EQ(tensors, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_LE(bytes, content().size());
  EXPECT_GT(bytes + 4 * 32, content().size());
}

TEST(FileTypes, NamesAreFoundInAnyCaseAndAliasesMeanTheMiddle) {
  EXPECT_EQ(find_file_type("q4_k_m"), find_file_type("Q4_K_M"));
  EXPECT_EQ(find_file_type("Q4_K")->name, "Q4_K_M");
  EXPECT_EQ(find_file_type("q3_k")->name, "Q3_K_M");
  EXPECT_EQ(find_file_type("bf16")->base, TensorType::bf16);
  for (const char* name : {"", "Q4", "IQ2_XS", "Q8_0 "}) EXPECT_EQ(find_file_type(name), nullptr);
  EXPECT_TRUE(file_type_names().starts_with("F32, F16, BF16, Q8_0, "));
}

}  // namespace
}  // namespace millrace::testing
