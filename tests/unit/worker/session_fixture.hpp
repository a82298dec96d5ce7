#pragma once
// The engine's session under test, without sockets and threads.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/worker/session.hpp"
#include "schemas/base/log.hpp"
#include "schemas/codec.hpp"
#include "tests/unit/worker/fake_executor.hpp"

namespace millrace::worker {

using Leased = std::vector<LeaseId>;

// A session for which the test plays the broker, with frames only.
class SessionTest : public testing::Test {
 protected:
  SessionTest() : session_(options(), executor_, clock_) {}
  ~SessionTest() override { set_up_logging({LogLevel::off, false, {}}); }

  static SessionOptions options() {
    SessionOptions o;
    o.name = "e";
    o.instance = "i1";
    return o;
  }

  // The messages that the session sends now.
  std::vector<Envelope> sent() {
    session_.pump();
    std::vector<Envelope> out;
    for (; session_.next_frame() != nullptr; session_.frame_sent(), session_.pump()) {
      auto envelope = decode_envelope(*session_.next_frame());
      EXPECT_TRUE(envelope) << envelope.error().text();
      if (envelope) out.push_back(std::move(*envelope));
    }
    return out;
  }
  template <class T>
  static std::vector<T> only(const std::vector<Envelope>& envelopes) {
    std::vector<T> out;
    for (const Envelope& e : envelopes)
      if (const T* m = std::get_if<T>(&e.message)) out.push_back(*m);
    return out;
  }
  template <class T>
  std::vector<T> sent_of() {
    return only<T>(sent());
  }
  static Leased leases_of(const std::vector<Ends>& all) {
    Leased out;
    for (const Ends& ends : all)
      for (const JobEnd& end : ends.ends) out.push_back(end.lease);
    return out;
  }
  Leased ends_sent() { return leases_of(sent_of<Ends>()); }

  static std::string text_of(const JobEnd& end) {
    // Decodes the result as a reader of the stream does.
    const auto result = decode_result(encode_result(JobResult{}, end.result));
    return result && result->result ? result->result->choices.at(0).text : "no result";
  }

  void say(Message message, std::uint64_t id = 0) {
    session_.received(encode(Envelope{id, std::move(message)}));
  }
  void wait_ms(std::int64_t ms) { clock_.advance_us(ms * 1000); }
  void welcome(const std::string& broker = "b1") {
    const auto hello = sent();
    ASSERT_EQ(only<Hello>(hello).size(), 1u);
    Welcome answer;
    answer.broker = broker;
    say(answer, hello.back().id);
  }
  void join() {
    welcome();
    const auto first = sent_of<Heartbeat>();
    ASSERT_EQ(first.size(), 1u);
    EXPECT_EQ(first[0].credit, executor_.info().capacity);
  }
  void lease(const Leased& ids, bool alone = false) {
    Leases leases;
    for (const LeaseId id : ids)
      leases.leases.push_back(make_lease(id, "c" + std::to_string(id), alone));
    say(std::move(leases));
    session_.pump();
  }
  // Answers a heartbeat, so that the broker does not count as away.
  void answer(HeartbeatAnswer message = {}) { say(std::move(message)); }

  ManualClock clock_;
  FakeExecutor executor_;
  Session session_;
};

}  // namespace millrace::worker
