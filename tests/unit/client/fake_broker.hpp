#pragma once
// A broker in memory behind a client's socket: it takes jobs, publishes their results in one stream
// and rings the doorbell for them. Time is the test's own and passes while the client waits.
// `at_wait` is called at the beginning of each wait; there a test silences the broker, restarts it
// or ends a job.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/link/session.hpp"
#include "client/link/socket.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {

inline constexpr std::uint32_t most_waits = 100'000;  // more mean that a loop does not end
inline const Body no_result = "\x81\xa5state\x07";    // {"state": 7}, which is no result

class FakeBroker {
 public:
  explicit FakeBroker(ManualClock& time) : clock(time) {}

  // Opens a session with this broker, over a socket of this class.
  std::unique_ptr<Session> open_session(SessionOptions options = {});

  void publish(const std::string& job, Body body) {
    entries.push_back({.number = entries.size() + 1, .job = job, .body = std::move(body)});
    bells += rings ? 1 : 0;
  }
  void complete(const std::string& job) {
    JobResult result;
    result.job = job;
    result.result.emplace();
    publish(job, encode_result(result));
  }
  // Acts as a new process with the same ledger: it knows no session, and frames in flight are lost.
  void restart(bool connection_breaks) {
    greeted = false;
    frames.clear();
    lost = connection_breaks;
  }
  void receive(const Envelope& question);
  void answer(std::uint64_t id, Message message) {
    frames.push_back(encode({.id = id, .message = std::move(message)}));
  }

  ManualClock& clock;
  std::function<void()> at_wait;
  // Answers what this broker knows nothing of; nothing: no answer.
  std::function<std::optional<Message>(const Message& question)> answers_others;
  bool silent = false;       // takes frames and does nothing
  bool rings = true;         // the client hears its doorbell
  bool ends_at_once = true;  // ends each job as soon as it is submitted
  bool answers_status = true;
  bool paused = false;
  bool knows_partials = false;   // but answers no watch
  bool loses_submitted = false;  // loses the next answer to a submit
  std::optional<Error> refuses_hello, refuses_jobs, refuses_fetches;
  std::string epoch = "e";
  std::vector<EngineInfo> engines;  // that it names in its status
  bool greeted = false, lost = false;
  std::string away;  // the endpoint at which nobody answers; empty: it is not looked at
  std::uint32_t connections = 0, waits = 0, resubmitted = 0;
  std::vector<std::uint32_t> timeouts_ms;  // of each wait
  std::vector<std::string> frames;         // in flight to the client
  std::uint64_t bells = 0;
  std::map<std::string, bool> jobs;  // true: its result is published
  std::vector<Entry> entries;
  std::uint64_t first = 1;         // the first number that the stream still holds
  std::vector<Message> questions;  // without hello

 private:
  Message submitted(const Submit& submit);
};

class FakeSocket final : public BrokerSocket {
 public:
  explicit FakeSocket(FakeBroker& broker) : broker_(broker) {}
  Status connect(const std::string& endpoint) override {
    if (!broker_.away.empty()) broker_.silent = endpoint == broker_.away;
    ++broker_.connections;
    broker_.greeted = broker_.lost = false;
    broker_.frames.clear();
    return {};
  }
  Status connect_doorbell(const std::string&, const std::string&,
                          const std::vector<std::string>&) override {
    return {};
  }
  Status subscribe(const std::string&) override { return {}; }
  Status unsubscribe(const std::string&) override { return {}; }
  Result<bool> send(const std::string& frame) override {
    MILLRACE_ASSIGN(const Envelope question, decode_envelope(frame));
    if (!broker_.silent) {
      broker_.receive(question);
    }
    return true;
  }
  Status wait(std::uint32_t timeout_ms, Happened& happened) override {
    if (++broker_.waits > most_waits) {
      return fail(Code::internal, "the loop does not end");
    }
    broker_.timeouts_ms.push_back(timeout_ms);
    if (broker_.at_wait) {
      broker_.at_wait();
    }
    happened.lost = std::exchange(broker_.lost, false);
    if (!broker_.silent) {
      if (!broker_.frames.empty()) {  // one frame in each wait
        happened.frames.push_back(std::move(broker_.frames.front()));
        broker_.frames.erase(broker_.frames.begin());
      }
      happened.bells.assign(std::exchange(broker_.bells, 0) > 0 ? 1 : 0, "results");
    }
    if (happened.frames.empty() && happened.bells.empty() && !happened.lost) {
      broker_.clock.advance_us(std::int64_t{timeout_ms} * 1'000);
    }
    return {};
  }

 private:
  FakeBroker& broker_;
};

inline std::unique_ptr<Session> FakeBroker::open_session(SessionOptions options) {
  if (options.endpoint.empty()) options.endpoint = "fake://broker";
  auto session = Session::open(std::move(options), clock, std::make_unique<FakeSocket>(*this));
  EXPECT_TRUE(session.has_value());
  return *std::move(session);
}

inline Message FakeBroker::submitted(const Submit& submit) {
  Submitted out;
  for (const Body& body : submit.jobs) {
    const std::string id = decode_job(body)->job.id;
    const auto known = jobs.find(id);
    resubmitted += known != jobs.end() ? 1 : 0;
    if (refuses_jobs && known == jobs.end()) {
      out.answers.push_back({.job = id, .error = refuses_jobs});
      continue;
    }
    SubmitAnswer one{.job = id, .known = known != jobs.end(), .error = {}};
    one.state = one.known && known->second ? JobState::completed : JobState::queued;
    out.answers.push_back(one);
    if (one.known) {
      continue;
    }
    jobs[id] = ends_at_once;
    if (ends_at_once) {
      complete(id);
    }
  }
  return out;
}

inline void FakeBroker::receive(const Envelope& question) {
  if (std::holds_alternative<Hello>(question.message)) {
    if (refuses_hello) {
      return answer(question.id, Refused{*refuses_hello});
    }
    greeted = true;
    Welcome welcome;
    welcome.doorbell = "fake://bell";
    if (knows_partials) welcome.capabilities = {"partials"};
    return answer(question.id, std::move(welcome));
  }
  if (!greeted) {
    return answer(question.id, Refused{{Code::unexpected_message, "say hello first", ""}});
  }
  questions.push_back(question.message);
  if (const auto* submit = std::get_if<Submit>(&question.message)) {
    Message out = submitted(*submit);
    if (!std::exchange(loses_submitted, false)) {
      answer(question.id, std::move(out));
    }
  } else if (const auto* fetch = std::get_if<Fetch>(&question.message)) {
    if (refuses_fetches) return answer(question.id, Refused{*refuses_fetches});
    if (fetch->from < first) {
      return answer(question.id, Trimmed{fetch->stream, epoch, first});
    }
    Data data{fetch->stream, epoch, first, entries.size(), {}};
    for (std::uint64_t i = fetch->from; i <= entries.size(); ++i) {
      data.entries.push_back(entries[i - 1]);
    }
    answer(question.id, std::move(data));
  } else if (const auto* asked = std::get_if<StatusRequest>(&question.message);
             asked != nullptr && answers_status) {
    StatusAnswer status;
    status.engines = engines;
    status.job_stream = "results";
    for (const Entry& entry : entries) {
      status.job_number = entry.job == asked->job ? entry.number : status.job_number;
    }
    answer(question.id, std::move(status));
  } else if (const auto* change = std::get_if<ChangePause>(&question.message)) {
    answer(question.id, PauseChanged{std::exchange(paused, change->paused) != change->paused});
  } else if (const auto* moved = std::get_if<Acknowledge>(&question.message)) {
    answer(question.id, Acknowledged{moved->number});
  } else if (answers_others) {
    if (auto other = answers_others(question.message)) answer(question.id, *std::move(other));
  }
}

}  // namespace millrace::client
