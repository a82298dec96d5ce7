// The folder of keys: its list is read again when the file changes, and only then.
#include "schemas/keys/keyring.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "schemas/base/env.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class KeyringTest : public ::testing::Test {
 protected:
  KeyringTest() : folder_(fs::temp_directory_path() / ("millrace-ring-" + random_id())) {
    fs::create_directories(folder_);
    EXPECT_TRUE(write_key_file((folder_ / broker_key_file).string(), own_));
    write(format_grants({grant("one")}));
  }
  ~KeyringTest() override { fs::remove_all(folder_); }

  static Grant grant(const std::string& name) {
    return {name, "acme", {KeyRole::read}, new_key_pair().public_key};
  }
  void write(const std::string& list) {
    EXPECT_TRUE(write_file_atomically(*env_, (folder_ / allowed_file).string(), list));
  }
  Keyring open() { return Keyring::open(folder_.string()).value(); }

  const fs::path folder_;
  const KeyPair own_ = new_key_pair();
  const std::unique_ptr<Env> env_ = posix_env();
};

TEST_F(KeyringTest, ReadsItsOwnKeyAndTheList) {
  const Keyring keyring = open();
  EXPECT_EQ(keyring.own().public_key, own_.public_key);
  ASSERT_EQ(keyring.grants().size(), 1U);
  EXPECT_EQ(keyring.grants()[0].name, "one");
}

TEST_F(KeyringTest, ReadsTheListAgainWhenItHasChanged) {
  Keyring keyring = open();
  EXPECT_EQ(keyring.refresh(), false);
  write(format_grants({grant("one"), grant("two")}));
  EXPECT_EQ(keyring.refresh(), true);
  EXPECT_EQ(keyring.grants().size(), 2U);
  EXPECT_EQ(keyring.refresh(), false);
  EXPECT_EQ(keyring.refresh(true), true);  // as it was told to
}

TEST_F(KeyringTest, KeepsTheListBeforeOneThatCannotBeUsed) {
  Keyring keyring = open();
  write("nonsense\n");
  const auto refused = keyring.refresh();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::usage);
  EXPECT_NE(refused.error().message.find(allowed_file), std::string::npos);
  EXPECT_EQ(keyring.refresh(), false);  // the same file is not tried again
  EXPECT_EQ(keyring.grants().size(), 1U);
  fs::remove(folder_ / allowed_file);
  EXPECT_FALSE(keyring.refresh());
  write(format_grants({}));
  EXPECT_EQ(keyring.refresh(), true);
  EXPECT_TRUE(keyring.grants().empty());
}

}  // namespace
}  // namespace millrace
