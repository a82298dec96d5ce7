#pragma once
// An engine of the core's tests that makes steps, and jobs that take so many of them. Thread
// safety: none.
#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {

// A job that costs so many tokens.
inline Body job_of(const std::string& id, std::uint32_t tokens, std::uint32_t priority = 2,
                   const std::string& batch = {}) {
  Job job;
  job.id = id;
  job.priority = priority;
  job.batch = batch;
  job.request.prompt = Tokens(8);
  job.request.max_tokens = tokens - 8;
  return encode_job(job);
}

// An engine with rows, of which each computes one job, and a few jobs beside them that wait. A job
// takes as many steps as it generates tokens.
class StubEngine {
 public:
  StubEngine(World& world, std::uint32_t rows, std::string name = "engine")
      : world_(world), rows_(rows), name_(std::move(name)) {
    world_.join_engine(name_, rows + rows / 2);
  }
  // Makes a step. Returns the jobs that ended.
  std::vector<std::string> step() {
    receive();
    std::vector<std::string> ended;
    Ends ends;
    for (std::size_t i = 0; i < std::min<std::size_t>(rows_, held_.size()); ++i) {
      if (--held_[i].steps > 0) continue;
      ended.push_back(held_[i].job);
      ends.ends.push_back(completed(held_[i].lease));
    }
    std::erase_if(held_, [](const Held& held) { return held.steps == 0; });
    ++steps_;
    if (!ends.ends.empty()) world_.say(World::engine(name_), std::move(ends), 3);
    const auto held = static_cast<std::uint32_t>(held_.size());
    world_.say(World::engine(name_), Ready{rows_ + rows_ / 2 - held});
    return ended;
  }
  void receive() {  // what was sent to it
    for (const Lease& lease : world_.leases(name_)) {
      const auto tokens = decode_job(lease.body)->job.request.max_tokens.value_or(1);
      held_.push_back({lease.lease, lease.job, tokens});
    }
  }
  void join_again() {  // a broker that was restarted
    world_.join_engine(name_);
    beat();
  }
  void beat() {
    Heartbeat beat;
    for (const Held& held : held_) beat.leases.push_back(held.lease);
    const auto held = static_cast<std::uint32_t>(held_.size());
    beat.steps = steps_;
    beat.rows = std::min(rows_, held);
    beat.credit = rows_ + rows_ / 2 - held;
    world_.say(World::engine(name_), std::move(beat), 9);
  }

 private:
  struct Held {
    LeaseId lease = 0;
    std::string job;
    std::uint32_t steps = 0;
  };
  World& world_;
  std::uint32_t rows_;
  std::string name_;
  std::deque<Held> held_;
  std::uint64_t steps_ = 0;
};

}  // namespace millrace::broker::testing
