// Connections whose server speaks a last word and goes, or says nothing. The server is one of this
// test.
#include "broker/ledger/postgres_connection.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <semaphore>
#include <string>
#include <thread>

#include "schemas/base/random_id.hpp"

namespace millrace::broker::test {
namespace {

// A message of the server, in the protocol's form: its kind, its length, and what it says.
std::string message(char kind, const std::string& body) {
  const auto size = static_cast<std::uint32_t>(body.size() + 4);
  std::string out(1, kind);
  for (const unsigned shift : {24u, 16u, 8u, 0u}) out.push_back(static_cast<char>(size >> shift));
  return out + body;
}

std::string text(char field, const std::string& value) {
  return std::string(1, field) + value + '\0';
}

std::string last_word(char kind, const std::string& severity, const std::string& code) {
  return message(kind, text('S', severity) + text('V', severity) + text('C', code) +
                           text('M', "the server says goodbye") + '\0');
}

class PostgresConnectionTest : public testing::Test {
 protected:
  PostgresConnectionTest() {
    std::filesystem::create_directory(folder_);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    (folder_ + "/.s.PGSQL.5432").copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
  }
  ~PostgresConnectionTest() override {
    close(listener_);
    std::filesystem::remove_all(folder_);
  }

  // Admits a client, and once it may go on says this, if anything, and closes the connection.
  void serve(const std::string& last) {
    const int client = accept(listener_, nullptr, nullptr);
    std::array<char, 1024> startup;
    EXPECT_GT(read(client, startup.data(), startup.size()), 0);
    say(client, message('R', std::string(4, '\0')) + message('Z', "I"));
    connected_.acquire();
    if (!last.empty()) say(client, last);
    close(client);
    gone_.release();
  }
  static void say(int client, const std::string& what) {
    EXPECT_EQ(write(client, what.data(), what.size()), static_cast<ssize_t>(what.size()));
  }

  const std::string folder_ = "/tmp/mr-" + random_id();  // the path of a socket is short
  const int listener_ = socket(AF_UNIX, SOCK_STREAM, 0);
  std::binary_semaphore connected_{0}, gone_{0};
};

TEST_F(PostgresConnectionTest, AnswersThatDoNotComeAreALostConnection) {
  for (const std::string& last :
       {std::string(), last_word('N', "WARNING", "57P02"), last_word('E', "FATAL", "57P01")}) {
    std::thread server([&] { serve(last); });
    PostgresConnection connection(
        "postgresql://u@/d?host=" + folder_ + "&sslmode=disable&gssencmode=disable", "s");
    ASSERT_TRUE(connection.connect());
    connected_.release();
    gone_.acquire();
    connection.send("SELECT 1");
    connection.ask("SELECT 2");
    ASSERT_FALSE(connection.status());
    EXPECT_EQ(connection.status().error().code, Code::ledger_unavailable)
        << connection.status().error().text();
    connection.recover();
    server.join();
  }
}

TEST_F(PostgresConnectionTest, AServerThatSaysNothingIsWaitedForUntilNobodyWantsTo) {
  std::thread server([&] { serve(""); });
  PostgresConnection connection(
      "postgresql://u@/d?host=" + folder_ + "&sslmode=disable&gssencmode=disable", "s");
  ASSERT_TRUE(connection.connect());
  std::thread asking([&] { connection.ask("SELECT 1"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // a limit of 0 would end it
  connection.give_up_after(std::chrono::milliseconds(1));
  asking.join();
  connected_.release();
  server.join();
  ASSERT_FALSE(connection.status());
  EXPECT_EQ(connection.status().error().code, Code::ledger_unavailable);
  EXPECT_NE(connection.status().error().message.find("the server has said nothing for 1 ms"),
            std::string::npos)
      << connection.status().error().text();
  EXPECT_FALSE(connection.connected());
}

}  // namespace
}  // namespace millrace::broker::test
