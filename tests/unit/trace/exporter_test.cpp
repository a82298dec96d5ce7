// Spans on their way to a receiver that takes them, is busy, refuses, is silent, or is not there.
#include "schemas/trace/exporter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http/server.hpp"
#include "schemas/base/log.hpp"

namespace millrace::trace {
namespace {

using Exchanged = std::shared_ptr<http::Exchange>;

http::Response answer_of(int status, std::string body) {
  http::Response out;
  out.status = status;
  out.body = std::move(body);
  return out;
}

// A receiver that answers as the test says, and keeps what it got.
class Receiver {
 public:
  explicit Receiver(std::function<void(const Exchanged&, int number)> answer) {
    http::Routes routes;
    routes.add("POST", "/v1/traces", [this, answer = std::move(answer)](const Exchanged& exchange) {
      int number = 0;
      {
        const std::lock_guard lock(mutex_);
        types_.emplace_back(exchange->request().header("Content-Type"));
        keys_.emplace_back(exchange->request().header("api-key"));
        bodies_.push_back(exchange->take_body());
        held_.push_back(exchange);
        number = static_cast<int>(bodies_.size());
      }
      answer(exchange, number);
    });
    http::ServerOptions options;
    options.listen = "127.0.0.1:0";
    server_ = *http::Server::start(std::move(options), std::move(routes));
  }
  std::string url() const { return server_->url() + "/v1/traces"; }
  std::vector<std::string> bodies() {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }
  std::string all() {
    std::string out;
    for (const std::string& body : bodies()) out += body;
    return out;
  }

  std::vector<std::string> types_, keys_;

 private:
  std::mutex mutex_;
  std::vector<std::string> bodies_;
  std::vector<Exchanged> held_;  // those that are not answered stay open
  std::unique_ptr<http::Server> server_;
};

void take(const Exchanged& exchange, int) {
  exchange->respond(answer_of(200, "{}"));
}

Span span_named(const std::string& name) {
  Span span;
  span.trace = "0af7651916cd43dd8448eb211c80319c";
  span.id = "b7ad6b7169203331";
  span.name = name;
  span.start_us = 1;
  span.end_us = 2;
  return span;
}

class ExporterTest : public testing::Test {
 protected:
  ExporterTest() {
    set_up_logging({LogLevel::info, true, [this](std::string_view line) {
                      const std::lock_guard lock(mutex_);
                      lines_ += line;
                    }});
  }
  ~ExporterTest() override { set_up_logging({}); }

  std::shared_ptr<Exporter> start(const std::string& url) {
    settings_.url = url;
    settings_.headers = {{"api-key", "s3cret"}};
    settings_.delay_ms = 1;
    return *Exporter::start(settings_);
  }
  static void wait_until(const std::function<bool()>& done) {
    while (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  int times(const std::string& text) {
    const std::lock_guard lock(mutex_);
    int count = 0;
    for (std::size_t at = lines_.find(text); at != std::string::npos;
         at = lines_.find(text, at + 1)) {
      ++count;
    }
    return count;
  }

  Settings settings_;
  std::mutex mutex_;
  std::string lines_;
};

TEST_F(ExporterTest, WithoutAReceiverThereIsNone) {
  EXPECT_EQ(*Exporter::start({}), nullptr);
}

TEST_F(ExporterTest, SendsSpansInBatches) {
  Receiver receiver(take);
  settings_.batch_spans = 2;
  const auto exporter = start(receiver.url());
  for (const char* name : {"one", "two", "three"}) exporter->add(span_named(name));
  wait_until([&] { return exporter->counts().sent == 3; });
  EXPECT_GE(receiver.bodies().size(), 2u);
  for (const char* name : {"\"one\"", "\"two\"", "\"three\""}) {
    EXPECT_NE(receiver.all().find(name), std::string::npos) << name;
  }
  EXPECT_EQ(receiver.types_.front(), "application/json");
  EXPECT_EQ(receiver.keys_.front(), "s3cret");
  EXPECT_EQ(exporter->counts().dropped, 0u);
}

TEST_F(ExporterTest, SendsTheLastSpansAtItsEnd) {
  Receiver receiver(take);
  auto exporter = start(receiver.url());
  exporter->add(span_named("last"));
  exporter.reset();
  EXPECT_NE(receiver.all().find("\"last\""), std::string::npos);
}

TEST_F(ExporterTest, ABusyReceiverGetsTheBatchAgain) {
  Receiver receiver([](const Exchanged& exchange, int number) {
    exchange->respond(answer_of(number == 1 ? 503 : 200, "{}"));
  });
  const auto exporter = start(receiver.url());
  exporter->add(span_named("one"));
  wait_until([&] { return exporter->counts().sent == 1; });
  ASSERT_EQ(receiver.bodies().size(), 2u);
  EXPECT_EQ(receiver.bodies()[0], receiver.bodies()[1]);
  EXPECT_EQ(exporter->counts().failures, 1u);
}

TEST_F(ExporterTest, ARefusedBatchIsDroppedAndToldOnce) {
  std::atomic<bool> refuses = true;
  Receiver receiver([&](const Exchanged& exchange, int) {
    exchange->respond(answer_of(refuses ? 400 : 200, refuses ? "no such key" : "{}"));
  });
  const auto exporter = start(receiver.url());
  for (std::uint64_t i = 1; i <= 3; ++i) {
    exporter->add(span_named("lost"));
    wait_until([&] { return exporter->counts().dropped == i; });
  }
  EXPECT_EQ(receiver.bodies().size(), 3u);
  refuses = false;
  exporter->add(span_named("one"));
  wait_until([&] { return times("delivered again") == 1; });
  EXPECT_EQ(exporter->counts().sent, 1u);
  EXPECT_EQ(times("are not delivered"), 1);
  EXPECT_EQ(times("no such key"), 1);
  EXPECT_EQ(times("s3cret"), 0);
}

TEST_F(ExporterTest, WhatAReceiverTakesInPartIsCounted) {
  Receiver receiver([](const Exchanged& exchange, int) {
    exchange->respond(
        answer_of(200, R"({"partialSuccess":{"rejectedSpans":"1","errorMessage":"old"}})"));
  });
  settings_.batch_spans = 2;
  const auto exporter = start(receiver.url());
  exporter->add(span_named("one"));
  wait_until([&] { return exporter->counts().dropped == 1; });
  EXPECT_EQ(exporter->counts().sent, 0u);
  EXPECT_EQ(times("\"old\""), 1);
}

TEST_F(ExporterTest, ASilentReceiverCostsNothingButSpans) {
  Receiver receiver([](const Exchanged&, int) {});
  settings_.queue_spans = 4;
  settings_.batch_spans = 2;
  auto exporter = start(receiver.url());
  exporter->add(span_named("first"));
  wait_until([&] { return !receiver.bodies().empty(); });  // it waits for the answer from now on
  for (int i = 0; i < 1'000; ++i) exporter->add(span_named("more"));
  EXPECT_GE(exporter->counts().dropped, 996u);
  EXPECT_EQ(exporter->counts().sent, 0u);
  exporter.reset();  // ends although no answer comes
}

TEST_F(ExporterTest, AReceiverThatIsAwayOrUnknownDropsSpans) {
  std::string gone;
  {
    Receiver receiver(take);
    gone = receiver.url();
  }
  for (const std::string& url : {gone, std::string("http://no.such.host.invalid/v1/traces")}) {
    auto exporter = start(url);
    exporter->add(span_named("one"));
    wait_until([&] { return exporter->counts().failures > 0; });
    EXPECT_EQ(exporter->counts().sent, 0u);
    exporter.reset();
  }
  EXPECT_EQ(times("are not delivered"), 2);
}

TEST_F(ExporterTest, AnAnswerThatNeverEndsIsCutOff) {
  Receiver receiver([](const Exchanged& exchange, int) {
    exchange->begin_stream(answer_of(200, {}));
    exchange->write(std::string(200'000, ' '));
  });
  settings_.timeout_ms = 100;
  auto exporter = start(receiver.url());
  exporter->add(span_named("one"));
  wait_until([&] { return exporter->counts().failures > 0; });
  EXPECT_EQ(exporter->counts().sent, 0u);
}

}  // namespace
}  // namespace millrace::trace
