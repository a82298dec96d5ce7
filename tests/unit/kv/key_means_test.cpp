// The file of mean keys: a written file is read back, and everything else is refused.
#include "engine/core/kv/key_means.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::engine {
namespace {

// The second of three layers has no keys.
const KvShape shape({{3, 4}, {}, {1, 12}});

KeyMeans some_means() {
  KeyMeans means{.model = {7, 9}, .shape = shape, .tokens = 123};
  for (int i = 0; i < 24; ++i) means.values.push_back(0.5f * static_cast<float>(i) - 3);
  return means;
}

std::string refusal(const std::string& bytes) {
  const auto got = decode_key_means(bytes, "some.keys");
  if (got) return "taken";
  EXPECT_EQ(got.error().code, Code::invalid_value);
  EXPECT_TRUE(got.error().message.starts_with("some.keys ")) << got.error().message;
  EXPECT_NE(got.error().hint.find("millrace calibrate"), std::string::npos);
  return got.error().message;
}

TEST(KeyMeans, AreReadAsTheyWereWritten) {
  const client::TemporaryFolder folder;
  const KeyMeans means = some_means();
  const std::string path = folder.write("means", encode_key_means(means));
  const auto got = read_key_means(*posix_env(), path);
  ASSERT_TRUE(got) << got.error().text();
  EXPECT_EQ(got->path, path);
  EXPECT_EQ(got->model, means.model);
  EXPECT_EQ(got->tokens, 123u);
  EXPECT_EQ(got->values, means.values);
  EXPECT_EQ(got->digest(), means.digest());
  EXPECT_EQ(got->shape, shape);
  EXPECT_TRUE(got->layer(1).empty());
  EXPECT_EQ(got->layer(2)[0], means.values[12]);
  EXPECT_EQ(got->layer(2).size(), 12u);
  EXPECT_TRUE(got->check({7, 9}, shape));
  // The bytes that the header describes.
  const std::string bytes = folder.read("means");
  EXPECT_EQ(bytes.size(), 16 + 3 * 8 + 24 + 24 * 4 + 16u);
  EXPECT_EQ(bytes.substr(0, 16), std::string("MKEYMEAN\2\0\0\0\3\0\0\0", 16));
}

TEST(KeyMeans, DigestTellsValuesAndModelsApart) {
  KeyMeans other = some_means();
  other.values[5] += 0.25f;
  EXPECT_NE(other.digest(), some_means().digest());
  other = some_means();
  other.model.low = 1;
  EXPECT_NE(other.digest(), some_means().digest());
}

TEST(KeyMeans, OfAnotherModelAreRefused) {
  const auto refused = [](const Hash128& model, const KvShape& of) {
    const Status checked = some_means().check(model, of);
    return checked ? "taken" : checked.error().message + " / " + checked.error().hint;
  };
  EXPECT_NE(refused({7, 8}, shape).find("another model file (hash 0000000000000007"),
            std::string::npos);
  EXPECT_NE(
      refused({7, 9}, KvShape({{3, 8}, {3, 8}, {1, 12}}))
          .find("1 layers of 0 KV heads of 0 channels, 1 layers of 1 KV heads of 12 channels, "
                "the model has 2 layers of 3 KV heads of 8 channels, 1 layers of"),
      std::string::npos);
  EXPECT_NE(refused({7, 9}, KvShape(3, {2, 4})).find("millrace calibrate"), std::string::npos);
}

TEST(KeyMeans, DamageIsRefused) {
  const std::string good = encode_key_means(some_means());
  EXPECT_NE(refusal("GGUF and more").find("is not a file of mean keys"), std::string::npos);
  EXPECT_NE(refusal("").find("is not a file of mean keys"), std::string::npos);
  EXPECT_NE(refusal(good.substr(0, 40)).find("truncated"), std::string::npos);
  EXPECT_NE(refusal(good.substr(0, good.size() - 1)).find("bytes, which is not the size for"),
            std::string::npos);
  EXPECT_NE(refusal(good + "x").find("bytes, which is not the size for"), std::string::npos);
  std::string version = good;
  version[8] = 1;
  EXPECT_NE(refusal(version).find("has version 1, this program reads version 2"),
            std::string::npos);
  for (const std::size_t at : {40u, 49u, 64u, 116u, 161u}) {  // tokens, hash, values, checksum
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 16);
    EXPECT_NE(refusal(flipped).find("is damaged"), std::string::npos) << at;
  }
  std::string huge = good;  // 2^32 - 1 layers
  huge.replace(12, 4, std::string(4, '\xff'));
  EXPECT_NE(refusal(huge).find("bytes, which are too few for 4294967295 layers"),
            std::string::npos);
  huge = good;  // 2^32 - 1 heads of as many channels, in each layer
  huge.replace(16, 24, std::string(24, '\xff'));
  EXPECT_NE(refusal(huge).find("bytes, which is not the size for"), std::string::npos);
  KeyMeans bad = some_means();
  bad.values[3] = std::numeric_limits<float>::infinity();
  EXPECT_NE(refusal(encode_key_means(bad)).find("not finite"), std::string::npos);
}

}  // namespace
}  // namespace millrace::engine
