#pragma once
// The operations that wait for a commit, and the choice of those that make the next batch. Several
// batches may be in flight, and may be carried out in any order. Two rules keep the order that
// callers rely on: the operations of one post, and those that name the same engine, are carried out
// in the order of posting. So an engine's ends come before its next claim.
//
// Posts that name engines come first and may take half of a batch, so that an engine gets jobs
// while millions are being submitted, and submits go on while engines are busy.
// Errors: none. Thread safety: one thread at a time.
#include <chrono>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

std::uint64_t body_bytes(const Operation& operation);

struct Posted {
  std::uint64_t token = 0;
  std::uint32_t place = 0;  // in its post
  Operation operation;
  std::chrono::steady_clock::time_point at;
};

struct LedgerBatch {
  std::vector<Posted> operations;  // of one commit
  std::vector<Posted> reads;       // ReadStreams, which are no part of commits and keep no order
  std::uint64_t bytes = 0;         // of bodies

  std::vector<std::string> engines;  // named by `operations`
  std::vector<std::uint64_t> begun;  // posts whose other operations come after this batch
};

struct BatchLimits {
  std::size_t operations = 0;
  std::uint64_t bytes = 0;  // of bodies; a batch holds at least one operation
};

class LedgerInbox {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void push(std::uint64_t token, std::vector<Operation> operations, Time at);
  // Takes operations, in order, that may be carried out beside the batches in flight.
  LedgerBatch take(const BatchLimits& limits);
  void done(const LedgerBatch& batch);  // the batch is no longer in flight

  bool ready() const;  // `take` would return something
  bool empty() const { return posts_.empty(); }
  std::size_t operations() const { return operations_; }
  std::uint64_t bytes() const { return bytes_; }  // of bodies
  Time oldest() const { return posts_.front().at; }

 private:
  struct Post {
    std::uint64_t id = 0, token = 0;
    std::vector<Operation> operations;
    std::size_t next = 0;  // the first that is not taken
    std::vector<std::string> engines;
    Time at;
  };
  bool blocked(const Post& post, const std::set<std::string>& held) const;
  void take_posts(bool of_engines, const BatchLimits& limits, LedgerBatch& batch);
  bool take_from(Post& post, const BatchLimits& limits, LedgerBatch& batch);

  std::deque<Post> posts_;
  std::size_t operations_ = 0, of_engines_ = 0;  // the latter counts posts
  std::uint64_t bytes_ = 0, next_id_ = 1;
  std::set<std::uint64_t> begun_;  // posts that a batch in flight has begun
  std::set<std::string> engines_;  // named by the batches in flight
};

}  // namespace millrace::broker
