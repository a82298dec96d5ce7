#pragma once
// A broker core over a memory ledger, with a clock that the test moves. It keeps the messages that
// the broker sends to each peer until the test takes them.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/broker.hpp"
#include "broker/core/results.hpp"
#include "broker/ledger/memory_ledger.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker::testing {

inline Body job_body(const std::string& id, const std::string& model = "m",
                     const std::string& batch = {}) {
  Job job;
  job.id = id;
  job.model = model;
  job.batch = batch;
  job.request.prompt = "say " + id;
  return encode_job(job);
}

inline std::vector<Body> job_bodies(int count, const std::string& prefix = "j") {
  std::vector<Body> bodies;
  for (int i = 0; i < count; ++i) bodies.push_back(job_body(prefix + std::to_string(i)));
  return bodies;
}

inline JobEnd completed(LeaseId lease) {
  return {lease, JobState::completed, encode_generation({}), {}};
}
inline JobEnd failed_end(LeaseId lease) {
  return {lease, JobState::failed, {}, Error{Code::context_exceeded, "too long", {}}};
}
inline JobEnd cancelled_end(LeaseId lease) {
  return {lease, JobState::cancelled, {}, Error{Code::cancelled, "cancelled while running", {}}};
}

class World {
 public:
  explicit World(CoreConfig config = {}) : config_(std::move(config)) {
    config_.broker_id = "broker-1";
    MemoryStoreOptions store;
    store.publish = published_end;
    store_ = make_memory_store(std::move(store));
    restart();
  }

  // Starts another broker process over the same ledger; uncommitted operations are lost.
  void restart() {
    requests_.clear();
    messages_.clear();
    ledger_ = make_memory_ledger(store_);
    broker_ = std::make_unique<Broker>(config_);
    feed(Start{});
  }
  void reconfigure(CoreConfig config) { config_ = std::move(config); }

  void feed(Event event) {
    absorb(broker_->handle(std::move(event), now()));
    if (!hold_commits) commit();
  }
  // Commits all waiting requests, and those that follow from them.
  void commit() {
    while (commit_one()) {
    }
  }
  bool commit_one() {  // false: no request waits
    if (requests_.empty()) return false;
    auto request = std::move(requests_.front());
    requests_.pop_front();
    absorb(broker_->handle(Completed{request.ticket, apply(request.operations)}, now()));
    return true;
  }
  void advance_ms(std::int64_t ms) {
    for (std::int64_t done = 0; done < ms; done += 250) {
      mono_us += 250'000;
      unix_us += 250'000;
      feed(Tick{});
    }
  }
  // The same, while these engines send heartbeats with growing step counts.
  void live_ms(std::int64_t ms, const std::map<std::string, std::vector<LeaseId>>& engines) {
    for (std::int64_t done = 0; done < ms; done += 1000) {
      advance_ms(1000);
      for (const auto& [name, leases] : engines) beat(name, leases, ++steps_);
    }
  }

  static Peer client(const std::string& name) { return {Endpoint::client, name}; }
  static Peer engine(const std::string& name) { return {Endpoint::engine, name}; }

  void say(const Peer& peer, Message message, std::uint64_t id = 0) {
    const auto key = keys.find(peer);
    feed(Received{peer, Envelope{id, std::move(message)}, 0,
                  key == keys.end() ? std::string() : key->second});
  }
  void join_client(const std::string& name) {
    Hello hello;
    hello.name = name;
    say(client(name), hello, 1);
    (void)take<Welcome>(client(name));
  }
  // The engine `name` connects with the route of the same name unless `route` is given.
  void join_engine(const std::string& name, std::uint32_t credit = 0,
                   const std::string& model = "m", const std::string& route = {}) {
    Hello hello;
    hello.role = Role::engine;
    hello.name = name;
    hello.instance = name;
    hello.engine.facts.model = model;
    const Peer peer = engine(route.empty() ? name : route);
    say(peer, hello, 1);
    (void)take<Welcome>(peer);
    if (credit > 0) say(peer, Ready{credit});
  }
  void beat(const std::string& name, std::vector<LeaseId> leases, std::uint64_t steps,
            std::uint32_t credit = 0) {
    say(engine(name), Heartbeat{std::move(leases), steps, 0, credit}, 9);
  }

  // Submits as client `c` and returns the answers; empty where the broker did not answer Submitted.
  std::vector<SubmitAnswer> submit(std::vector<Body> jobs) {
    if (!joined_) join_client("c");
    joined_ = true;
    say(client("c"), Submit{std::move(jobs)}, 7);
    auto answers = take<Submitted>(client("c"));
    return answers.empty() ? std::vector<SubmitAnswer>{} : std::move(answers.back().answers);
  }
  // Returns all leases sent to this engine since the last call.
  std::vector<Lease> leases(const std::string& name) {
    std::vector<Lease> all;
    for (auto& message : take<Leases>(engine(name))) {
      for (auto& lease : message.leases) all.push_back(std::move(lease));
    }
    return all;
  }
  long notes_with(const std::string& text) const {
    return std::count_if(notes.begin(), notes.end(), [&](const Note& note) {
      return note.text.find(text) != std::string::npos;
    });
  }
  std::optional<Code> refusal(const Peer& peer) {
    auto refused = take<Refused>(peer);
    if (refused.empty()) return std::nullopt;
    return refused.back().error.code;
  }
  template <class M>
  std::vector<M> take(const Peer& peer) {
    std::vector<M> found;
    auto& waiting = messages_[peer];
    std::erase_if(waiting, [&](Envelope& envelope) {
      auto* message = std::get_if<M>(&envelope.message);
      if (message == nullptr) return false;
      found.push_back(std::move(*message));
      return true;
    });
    return found;
  }
  std::vector<Entry> stream(const std::string& name = "results") {
    ReadStream read;
    read.tenant = default_tenant;
    read.stream = name;
    return std::get<ReadStreamReply>(*ask(read)).entries;
  }
  JobResult result_of(const std::string& job) {
    for (const auto& entry : stream()) {
      if (entry.job == job) return *decode_result(entry.body);
    }
    return {};
  }
  GetJobReply job(const std::string& id) {
    return std::get<GetJobReply>(*ask(GetJob{default_tenant, id}));
  }
  JobCounts counts(const std::string& batch = {}) {
    return std::get<CountReply>(*ask(Count{default_tenant, batch})).counts;
  }
  Result<Reply> ask(const Operation& operation) {
    return std::move(ledger_->apply(std::span(&operation, 1), unix_us)->front());
  }

  Broker& broker() { return *broker_; }
  Now now() const { return {mono_us, unix_us}; }

  bool hold_commits = false;
  // If set and it gives a reply to an operation, this is the ledger's, which does nothing.
  std::function<std::optional<Result<Reply>>(const Operation&)> instead;
  std::map<Peer, std::string> keys;  // of the connections; none: ""
  std::int64_t mono_us = 1'000'000, unix_us = 1'700'000'000'000'000;
  std::vector<Ring> rings;
  std::vector<Note> notes;
  std::vector<std::string> hung;

 private:
  std::vector<Result<Reply>> apply(const std::vector<Operation>& operations) {
    if (!instead) return std::move(*ledger_->apply(operations, unix_us));
    std::vector<Result<Reply>> replies;
    for (const Operation& operation : operations) {
      auto reply = instead(operation);
      replies.push_back(reply ? *std::move(reply) : ask(operation));
    }
    return replies;
  }
  void absorb(Actions actions) {
    for (auto& request : actions.ledger) requests_.push_back(std::move(request));
    for (auto& out : actions.messages) messages_[out.peer].push_back(std::move(out.envelope));
    for (auto& ring : actions.rings) rings.push_back(std::move(ring));
    for (auto& note : actions.notes) notes.push_back(std::move(note));
    for (auto& name : actions.hung) hung.push_back(std::move(name));
  }

  CoreConfig config_;
  std::shared_ptr<MemoryStore> store_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Broker> broker_;
  std::deque<LedgerRequest> requests_;
  std::map<Peer, std::vector<Envelope>> messages_;
  std::uint64_t steps_ = 0;
  bool joined_ = false;
};

}  // namespace millrace::broker::testing
