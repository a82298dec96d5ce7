// Key files: what is refused, because others could have read or made it, or because it is no key.
#include "schemas/keys/key_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "schemas/base/random_id.hpp"
#include "schemas/keys/grants.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class KeyFileTest : public ::testing::Test {
 protected:
  KeyFileTest() : folder_(fs::temp_directory_path() / ("millrace-keys-" + random_id())) {
    fs::create_directories(folder_);
  }
  ~KeyFileTest() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // A file that only its owner may read.
  std::string write(const std::string& text, mode_t mode = 0600) const {
    const std::string name = path("key");
    std::ofstream(name, std::ios::trunc) << text;
    EXPECT_EQ(::chmod(name.c_str(), mode), 0);
    return name;
  }
  static void expect_refused(const std::string& name, Code code, const std::string& says) {
    const auto key = read_key_file(name);
    ASSERT_FALSE(key) << says;
    EXPECT_EQ(key.error().code, code) << key.error().text();
    EXPECT_NE(key.error().message.find(says), std::string::npos) << key.error().text();
    EXPECT_NE(key.error().message.find(name), std::string::npos) << key.error().text();
    EXPECT_FALSE(key.error().hint.empty());
  }

  fs::path folder_;
  KeyPair key_ = new_key_pair();
  std::string public_ = "public " + key_.public_key + "\n";
  std::string secret_ = "secret " + key_.secret_key + "\n";
};

TEST_F(KeyFileTest, IsReadAsItWasWrittenAndNeverReplaced) {
  key_.broker_key = new_key_pair().public_key;
  const std::string name = path("new.key");
  ASSERT_TRUE(write_key_file(name, key_));
  const auto read = read_client_key(name);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->public_key, key_.public_key);
  EXPECT_EQ(read->secret_key, key_.secret_key);
  EXPECT_EQ(read->broker_key, key_.broker_key);
  EXPECT_EQ(fs::status(name).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const Status again = write_key_file(name, new_key_pair());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::conflict);
  EXPECT_EQ(read_key_file(name)->public_key, key_.public_key);
}

TEST_F(KeyFileTest, ThatOthersMayReadOrWriteIsRefused) {
  for (const mode_t mode : {0640, 0604, 0620, 0602}) {
    expect_refused(write(public_ + secret_, mode), Code::unauthorized, "others may read or write");
  }
  EXPECT_TRUE(read_key_file(write(public_ + secret_, 0400)));
}

TEST_F(KeyFileTest, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file to another user";
  const std::string name = write(public_ + secret_);
  ASSERT_EQ(::chown(name.c_str(), 12'345, 12'345), 0);
  expect_refused(name, Code::unauthorized, "belongs to another user (12345)");
}

TEST_F(KeyFileTest, OfRootIsReadByTheGroupThatItWasGivenTo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file to a group";
  const gid_t group = 12'345;
  fs::permissions(folder_, fs::perms::all);
  const auto as_somebody = [&](mode_t mode) {
    const std::string name = write(public_ + secret_, mode);
    EXPECT_EQ(::chown(name.c_str(), 0, group), 0);
    EXPECT_EQ(::setegid(group), 0);
    EXPECT_EQ(::seteuid(12'345), 0);
    const auto read = read_key_file(name);
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::setegid(0), 0);
    return read ? Code::internal : read.error().code;
  };
  EXPECT_EQ(as_somebody(0440), Code::internal) << "it was read";
  for (const mode_t mode : {0444, 0460, 0450}) {
    EXPECT_EQ(as_somebody(mode), Code::unauthorized) << std::oct << mode;
  }
}

TEST_F(KeyFileTest, ThatIsNoFileOrTooLargeIsRefused) {
  expect_refused(path("absent"), Code::not_found, "cannot open");
  expect_refused(folder_.string(), Code::usage, "is not a file");
  expect_refused(write(public_ + secret_ + std::string(4'096, '#')), Code::too_large,
                 "more than 4096 bytes");
}

TEST_F(KeyFileTest, TheLineThatIsWrongIsNamedAndNotShown) {
  const std::string short_secret = "secret " + key_.secret_key.substr(1) + "\n";
  for (const std::string& wrong :
       {short_secret, public_, std::string("colour red\n"), std::string("secret\n")}) {
    const std::string name = write("# a comment\n\n" + public_ + wrong);
    expect_refused(name, Code::usage, "line 4 is malformed");
    EXPECT_EQ(read_key_file(name).error().text().find(key_.secret_key.substr(1)),
              std::string::npos);
  }
}

TEST_F(KeyFileTest, NeedsTwoHalvesThatBelongTogether) {
  expect_refused(write(public_), Code::usage, "a half of the key is missing");
  expect_refused(write(secret_), Code::usage, "a half of the key is missing");
  expect_refused(write("public " + new_key_pair().public_key + "\n" + secret_), Code::usage,
                 "its halves do not belong together");
  expect_refused(write(public_ + "secret " + std::string(public_key_bytes, '~') + "\n"),
                 Code::usage, "characters that no key has");
}

TEST_F(KeyFileTest, OfAClientNamesItsBroker) {
  const auto key = read_client_key(write(public_ + secret_));
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, Code::usage);
  EXPECT_NE(key.error().hint.find("broker PUBLIC-KEY"), std::string::npos);
}

TEST_F(KeyFileTest, IsNeededForOtherMachinesOnly) {
  for (const char* local : {"ipc:///run/m/clients", "tcp://127.0.0.1:5570", "tcp://[::1]:5570"}) {
    const auto none = key_for("", local);
    ASSERT_TRUE(none) << local;
    EXPECT_TRUE(none->public_key.empty());
  }
  const auto remote = key_for("", "tcp://10.0.0.1:5570");
  ASSERT_FALSE(remote);
  EXPECT_EQ(remote.error().code, Code::unauthorized);
  const auto one_of_two = key_for("", "tcp://127.0.0.1:5570,tcp://10.0.0.1:5570");
  ASSERT_FALSE(one_of_two);
  EXPECT_TRUE(one_of_two.error().message.starts_with("tcp://10.0.0.1:5570"));
}

}  // namespace
}  // namespace millrace
