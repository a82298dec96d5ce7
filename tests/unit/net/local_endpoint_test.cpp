#include "schemas/base/net/local_endpoint.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

namespace millrace::net {
namespace {

namespace fs = std::filesystem;

constexpr const char* variable = "XDG_RUNTIME_DIR";

// Sets XDG_RUNTIME_DIR to a folder of the test.
class LocalEndpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = ::getenv(variable)) before_ = before;
    std::string pattern = ::testing::TempDir() + "millrace-run-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    ::setenv(variable, base_.c_str(), 1);
  }
  void TearDown() override {
    before_ ? ::setenv(variable, before_->c_str(), 1) : ::unsetenv(variable);
    fs::remove_all(base_);
  }
  std::string folder() const { return base_ + "/millrace"; }
  void expect_unusable(const std::string& why) const {
    const Status prepared = prepare_endpoint(local_endpoint(clients_socket));
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code, Code::io_error);
    EXPECT_NE(prepared.error().message.find(folder()), std::string::npos);
    EXPECT_NE(prepared.error().message.find(why), std::string::npos) << prepared.error().text();
    EXPECT_NE(prepared.error().hint.find(variable), std::string::npos);
  }

  std::optional<std::string> before_;
  std::string base_;
};

TEST_F(LocalEndpoint, IsInTheUsersRuntimeFolder) {
  EXPECT_EQ(local_endpoint(clients_socket), "ipc://" + folder() + "/clients");
  EXPECT_FALSE(fs::exists(folder()));
  ::unsetenv(variable);
  const std::string in_tmp = "ipc:///tmp/millrace-" + std::to_string(::geteuid());
  EXPECT_EQ(local_endpoint(engines_socket), in_tmp + "/engines");
  ::setenv(variable, "", 1);
  EXPECT_EQ(local_endpoint(doorbell_socket), in_tmp + "/doorbell");
}

TEST_F(LocalEndpoint, OnlyTheUserMayEnterTheFolder) {
  const mode_t before = ::umask(0);
  const Status prepared = prepare_endpoint(local_endpoint(clients_socket));
  ::umask(before);
  ASSERT_TRUE(prepared) << prepared.error().text();
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms::owner_all);
  EXPECT_TRUE(prepare_endpoint(local_endpoint(engines_socket)));  // now the folder exists
}

TEST_F(LocalEndpoint, AFolderThatOthersMayEnterIsRefused) {
  fs::create_directory(folder());
  for (const mode_t mode : {0701, 0710, 0755, 0777}) {
    ASSERT_EQ(::chmod(folder().c_str(), mode), 0);
    expect_unusable("may be entered by other users");
  }
  ASSERT_EQ(::chmod(folder().c_str(), 0700), 0);
  EXPECT_TRUE(prepare_endpoint(local_endpoint(clients_socket)));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  ASSERT_EQ(::chown(folder().c_str(), 12345, static_cast<gid_t>(-1)), 0);
  expect_unusable("belongs to user 12345, not to user 0");
}

TEST_F(LocalEndpoint, APathThatIsNotAFolderIsRefused) {
  fs::create_directory_symlink(base_, folder());  // it is refused although its target is private
  expect_unusable("is not a folder");
  fs::remove(folder());
  ::setenv(variable, (base_ + "/none").c_str(), 1);
  base_ += "/none";
  expect_unusable("cannot be made: No such file or directory");
  base_ = fs::path(base_).parent_path();
  ::setenv(variable, "relative", 1);
  const Status relative = prepare_endpoint(local_endpoint(clients_socket));
  ASSERT_FALSE(relative);
  EXPECT_NE(relative.error().message.find("relative/millrace, is not an absolute path"),
            std::string::npos)
      << relative.error().text();
}

TEST_F(LocalEndpoint, APathThatIsTooLongIsRefused) {
  const std::string fits = "ipc:///" + std::string(ipc_path_bytes - 1, 'x');
  EXPECT_TRUE(prepare_endpoint(fits));
  const Status prepared = prepare_endpoint(fits + "x");
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Code::usage);
  EXPECT_NE(prepared.error().message.find("has 108 bytes, that of a unix socket at most 107"),
            std::string::npos)
      << prepared.error().text();
}

TEST_F(LocalEndpoint, OtherEndpointsPass) {
  for (const char* endpoint : {"tcp://127.0.0.1:5570", "ipc:///nowhere/socket", "inproc://x", ""}) {
    EXPECT_TRUE(prepare_endpoint(endpoint)) << endpoint;
  }
  EXPECT_FALSE(fs::exists(folder()));
}

}  // namespace
}  // namespace millrace::net
