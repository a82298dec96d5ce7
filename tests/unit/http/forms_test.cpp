// Forms, which are taken in pieces, and files as answers.
#include <gtest/gtest.h>

#include <atomic>

#include "raw_client.hpp"
#include "schemas/base/fault_env.hpp"

namespace millrace::http {
namespace {

// Gathers what it takes; a field named "bad" is refused.
class Gatherer final : public FormReader {
 public:
  explicit Gatherer(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~Gatherer() override { --alive_; }
  Status take(const FormPiece& piece) override {
    if (piece.name == "bad") return fail(Code::disk_full, "no room");
    if (piece.offset == 0) {
      text += std::string(piece.name) + "(" + std::string(piece.filename) + ")=";
    }
    bytes += piece.bytes.size();
    if (bytes < 1'000) text += piece.bytes;
    return {};
  }
  std::string text;
  std::size_t bytes = 0;

 private:
  std::atomic<int>& alive_;
};

class Forms : public ::testing::Test {
 protected:
  static std::string part(const std::string& name, const std::string& value,
                          const std::string& filename = {}) {
    return "--line\r\nContent-Disposition: form-data; name=\"" + name + "\"" +
           (filename.empty() ? "" : "; filename=\"" + filename + "\"") + "\r\n\r\n" + value +
           "\r\n";
  }
  static std::string form(const std::string& body,
                          const std::string& type = "multipart/form-data; boundary=line") {
    return "POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + type +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  std::unique_ptr<Server> serve(ServerLimits limits = {}) {
    Routes routes = echo_routes();
    routes.add_form(
        "POST", "/form",
        [this](const Request&) -> Result<std::unique_ptr<FormReader>> {
          if (full_) return fail(Code::overloaded, "too many at once");
          return std::make_unique<Gatherer>(alive_);
        },
        [](const std::shared_ptr<Exchange>& exchange) {
          const auto form = std::dynamic_pointer_cast<Gatherer>(exchange->take_form());
          exchange->respond({.status = 200,
                             .body = form->text + " " + std::to_string(form->bytes),
                             .type = "text/plain",
                             .headers = {}});
        },
        20'000'000, 0);
    return start(std::move(routes), limits);
  }
  std::atomic<int> alive_ = 0;
  std::atomic<bool> full_ = false;
};

TEST_F(Forms, AreRefusedForAWhileWhereThereAreTooMany) {
  const auto server = serve();
  full_ = true;
  EXPECT_EQ(RawClient(server->url()).ask(form(part("a", "1") + "--line--\r\n")).status, 503);
  full_ = false;
  EXPECT_EQ(RawClient(server->url()).ask(form(part("a", "1") + "--line--\r\n")).status, 200);
}

TEST_F(Forms, ComeInPiecesAndAreNotHeld) {
  const auto server = serve({.body_bytes = 100'000, .all_body_bytes = 100'000});
  RawClient client(server->url());
  EXPECT_EQ(client.ask(form(part("a", "1") + part("b", "", "x.txt") + "--line--\r\n")).body,
            "a()=1b(x.txt)= 1");
  // NOLINTNEXTLINE(bugprone-string-constructor): more than the server holds
  const std::string large(10'000'000, 'x');
  EXPECT_EQ(client.ask(form(part("file", large, "f") + "--line--\r\n")).body, "file(f)= 10000000");
  EXPECT_EQ(alive_, 0);
}

TEST_F(Forms, WhatIsNoneIsRefusedAndOthersAreServed) {
  const auto server = serve();
  for (const std::string& bad :
       {form("a=1", "application/x-www-form-urlencoded"), form("{}", "application/json"),
        form(part("a", "1"), "multipart/form-data"),
        form("--line\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\ncut")}) {
    RawClient client(server->url());
    EXPECT_EQ(client.ask(bad).status, 400) << bad;
  }
  RawClient client(server->url());
  EXPECT_EQ(client.ask(form(part("bad", "1") + "--line--\r\n")).status, 507);
  // NOLINTNEXTLINE(bugprone-string-constructor): more than a body may have
  const std::string too_large(30'000'000, 'x');
  EXPECT_EQ(client.ask(form(part("a", too_large) + "--line--\r\n")).status, 413);
  RawClient other(server->url());
  EXPECT_EQ(other.ask(form(part("a", "1") + "--line--\r\n")).status, 200);
  EXPECT_EQ(alive_, 0);
}

TEST_F(Forms, AClientThatGoesLeavesNothing) {
  const auto server = serve();
  {
    const RawClient client(server->url());
    client.send(form(part("a", std::string(100'000, 'x')) + "--line--\r\n").substr(0, 50'000));
    for (int i = 0; i < 1'000 && alive_ == 0; ++i) ::usleep(10'000);
    EXPECT_EQ(alive_, 1);
  }
  for (int i = 0; i < 1'000 && alive_ != 0; ++i) ::usleep(10'000);
  EXPECT_EQ(alive_, 0);
}

TEST(FileAnswers, AreReadAsTheyAreSent) {
  FaultEnv env;
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i);
  ASSERT_TRUE(env.make_directories("/f"));
  ASSERT_TRUE(write_file_atomically(env, "/f/file", text));
  Routes routes;
  routes.add("GET", "/file", [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond({.status = 200,
                       .body = {},
                       .type = "application/octet-stream",
                       .headers = {},
                       .file = std::shared_ptr<File>(*env.open("/f/file", OpenMode::read)),
                       .file_bytes = text.size()});
  });
  const auto server = start(std::move(routes));
  RawClient client(server->url());
  const auto answer = client.ask(get("/file"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, text);
  client.send("HEAD /file HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(client.answer(false).head.contains(std::to_string(text.size())));
  EXPECT_EQ(client.ask(get("/file")).body, text);
}

}  // namespace
}  // namespace millrace::http
