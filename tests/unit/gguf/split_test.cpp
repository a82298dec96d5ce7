// Split models: all parts are one file, and parts that are missing, misnamed or of another model
// are refused with their names.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/core/gguf/dequantize.hpp"
#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

namespace fs = std::filesystem;
using engine::GgufFile;
using engine::ValueType;

class Split : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("millrace-split-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
    for (std::uint32_t number = 1; number <= 3; ++number) write(number, part(number));
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(std::uint32_t number, const std::string& stem = "tiny") const {
    return (folder_ / (stem + "-0000" + std::to_string(number) + "-of-00003.gguf")).string();
  }
  void write(std::uint32_t number, const GgufBuilder& builder) const {
    const auto bytes = builder.build();
    std::ofstream(path(number), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  // Part `number` of a model of four tensors: one in the first, two in the second, one in the
  // third.
  static GgufBuilder part(std::uint32_t number, std::int32_t tensors = 4, std::uint16_t count = 3,
                          std::uint16_t says = 0) {
    GgufBuilder out;
    const auto no = static_cast<std::uint16_t>((says > 0 ? says : number) - 1);
    if (number == 1) out.string("general.architecture", "llama");
    out.scalar<std::uint16_t>("split.no", ValueType::u16, no)
        .scalar<std::uint16_t>("split.count", ValueType::u16, count)
        .scalar<std::int32_t>("split.tensors.count", ValueType::i32, tensors);
    const std::string name = std::to_string(number);
    out.tensor("t" + name, {64, 3}, 3, filled(2 * 3 * 20));
    if (number == 2) out.tensor("u" + name, {8}, 0, filled(32));
    return out;
  }

  void expect_error(std::uint32_t given, Code code, const std::vector<std::string>& parts) const {
    const auto file = GgufFile::open(path(given));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, code) << file.error().text();
    for (const auto& text : parts) {
      EXPECT_NE(file.error().text().find(text), std::string::npos)
          << "wanted '" << text << "' in: " << file.error().text();
    }
    EXPECT_FALSE(file.error().hint.empty());
  }

  fs::path folder_;
};

TEST_F(Split, AllPartsAreOneFile) {
  const auto file = GgufFile::open(path(1));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->source(), path(1));
  EXPECT_EQ(file->metadata().get<std::string_view>("general.architecture").value(), "llama");
  ASSERT_EQ(file->parts().size(), 3u);
  std::vector<std::string_view> names;
  for (const auto& tensor : file->tensors()) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"t1", "t2", "u2", "t3"}));
  const auto* const tensor = file->find_tensor("t3");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->data.data(), file->parts()[2]->view().data() + tensor->offset);
  EXPECT_TRUE(std::ranges::equal(tensor->data, filled(120)));
  std::vector<float> values(64 * 3);
  EXPECT_TRUE(engine::dequantize_rows(*tensor, 0, 3, values));
}

TEST_F(Split, TheFirstPartMayHoldNoTensor) {
  GgufBuilder first;
  first.scalar<std::uint16_t>("split.no", ValueType::u16, 0)
      .scalar<std::uint16_t>("split.count", ValueType::u16, 3)
      .scalar<std::int32_t>("split.tensors.count", ValueType::i32, 3);
  write(1, first);
  write(2, part(2, 3));
  write(3, part(3, 3));
  const auto file = GgufFile::open(path(1));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->tensors().size(), 3u);
}

TEST_F(Split, OnePartThatSaysSoIsAWholeFile) {
  const auto alone = (folder_ / "alone.gguf").string();
  write(1, part(1, 1, 1));
  fs::rename(path(1), alone);
  EXPECT_TRUE(GgufFile::open(alone));
}

TEST_F(Split, AnotherPartThanTheFirstIsRefused) {
  expect_error(2, Code::gguf_unreadable, {path(2), "part 2 of 3 of a split model", path(1)});
  const auto renamed = (folder_ / "renamed.gguf").string();
  fs::rename(path(3), renamed);
  const auto file = GgufFile::open(renamed);
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().text().find("part 3 of 3"), std::string::npos);
  EXPECT_NE(file.error().hint.find("-00001-of-00003.gguf"), std::string::npos);
}

TEST_F(Split, AFirstPartWithAnotherNameIsRefused) {
  const auto renamed = (folder_ / "renamed.gguf").string();
  fs::rename(path(1), renamed);
  const auto file = GgufFile::open(renamed);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::gguf_unreadable);
  EXPECT_NE(file.error().text().find("must end in -00001-of-00003.gguf"), std::string::npos);
}

TEST_F(Split, AMissingPartIsNamed) {
  fs::remove(path(3));
  expect_error(1, Code::gguf_unreadable, {path(3), "No such file", "part 3 of 3", "all 3 parts"});
}

TEST_F(Split, PartsThatDoNotFitAreRefused) {
  write(2, part(2, 5));
  expect_error(1, Code::gguf_malformed, {path(2), "a model of 5 tensors", "one of 4"});
  write(2, part(2, 4, 3, 3));
  expect_error(1, Code::gguf_malformed, {path(2), "is part 3 of 3", "not part 2 of 3"});
  write(2, part(2, 4, 5));
  expect_error(1, Code::gguf_malformed, {path(2), "is part 2 of 5", "not part 2 of 3"});
  write(2, tiny_file());
  expect_error(1, Code::gguf_malformed, {path(2), "a whole file"});
  write(2, part(3, 4, 3, 2));  // the tensors of part 3
  expect_error(1, Code::gguf_malformed, {path(3), "tensor 't3' of an earlier part"});
  GgufBuilder none;
  none.scalar<std::uint16_t>("split.no", ValueType::u16, 1)
      .scalar<std::uint16_t>("split.count", ValueType::u16, 3)
      .scalar<std::int32_t>("split.tensors.count", ValueType::i32, 4);
  write(2, none);
  expect_error(1, Code::gguf_malformed, {path(1), "hold 2 tensors", "not the 4"});
}

TEST_F(Split, WrongKeysAreRefused) {
  write(1, part(1, 4, 3, 9));
  expect_error(1, Code::gguf_malformed, {path(1), "'split.no' is 8", "3 parts"});
  GgufBuilder bare;
  bare.scalar<std::uint16_t>("split.count", ValueType::u16, 3);
  write(1, bare);
  expect_error(1, Code::gguf_malformed, {path(1), "split.no"});
}

}  // namespace
}  // namespace millrace::testing
