#include "client/run/model_identity.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

class ModelIdentity : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<Env> env_ = posix_env();
};

TEST_F(ModelIdentity, SeesOneChangedBlockAndTheSize) {
  std::string content(300'000, 'm');
  folder_.write("model", content);
  const auto before = model_identity(*env_, folder_ / "model");
  content[200'000] = 'x';
  folder_.write("model", content);
  EXPECT_NE(model_identity(*env_, folder_ / "model"), before);
  folder_.write("model", std::string(300'001, 'm'));
  EXPECT_NE(model_identity(*env_, folder_ / "model"), before);
}

TEST_F(ModelIdentity, SeesEveryPartOfASplitModel) {
  const std::string first = folder_.write("m-00001-of-00002.gguf", "first");
  folder_.write("m-00002-of-00002.gguf", "second");
  const auto before = model_identity(*env_, first);
  folder_.write("m-00002-of-00002.gguf", "other!");
  EXPECT_NE(model_identity(*env_, first), before);
}

TEST_F(ModelIdentity, SeesTheFilesOfAFolder) {
  std::filesystem::create_directories(folder_ / "m");
  const std::string folder = folder_ / "m";
  folder_.write("m/config.json", "{}");
  folder_.write("m/model.safetensors", std::string(300'000, 'm'));
  folder_.write("m/README.md", "no part of the model");
  const auto before = model_identity(*env_, folder);
  ASSERT_TRUE(before) << before.error().text();
  folder_.write("m/README.md", "changed");
  EXPECT_EQ(model_identity(*env_, folder), before);
  folder_.write("m/chat_template.jinja", "{{ messages }}");
  EXPECT_NE(model_identity(*env_, folder), before);
  std::filesystem::remove(folder_ / "m/chat_template.jinja");
  EXPECT_EQ(model_identity(*env_, folder), before);
  folder_.write("m/config.json", "[]");
  EXPECT_NE(model_identity(*env_, folder), before);
}

}  // namespace
}  // namespace millrace::client
