#pragma once
// Shared by the parts of the state machine while they handle one event: the time, the actions
// gathered so far, and the continuations that wait for the ledger.
// Thread safety: none; it belongs to one state machine.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "broker/core/config.hpp"
#include "broker/core/events.hpp"
#include "broker/core/tally.hpp"

namespace millrace::broker {

using Replies = std::vector<Result<Reply>>;
using Continuation = std::function<void(Replies)>;

class Outbox {
 public:
  void begin(Now now) { now_ = now; }
  const Now& now() const { return now_; }
  CoreCounters& counters() { return counters_; }
  const CoreCounters& counters() const { return counters_; }
  Tally& tally() { return tally_; }
  const Tally& tally() const { return tally_; }

  void send(const Peer& peer, std::uint64_t id, Message message);
  void refuse(const Peer& peer, std::uint64_t id, Error error);  // also counts the refusal
  // Runs the continuation when all operations are durable, with one reply each, in order.
  // Operations that name the same engine are carried out as they were asked; of other requests the
  // later may come first. Ask a ReadStream alone: ledgers may serve it between commits and out of
  // order.
  void ask(std::vector<Operation> operations, Continuation then);
  void ask_one(Operation operation, std::function<void(Result<Reply>)> then);
  void ring(Ring ring);
  void note(NoteLevel level, std::string text);
  // A request that the log tells of, at every level, once it is known what became of it. Returns
  // the number that end_audit() takes; 0 is that of a request which is not audited.
  std::uint64_t begin_audit(std::string who, std::string request);
  // Writes "WHO: OUTCOME: REQUEST (MORE)". The outcome stands before what others chose, so that no
  // name can look like one.
  void end_audit(std::uint64_t number, const std::string& outcome, const std::string& more = {});
  void end_audits(const std::string& outcome);  // of all requests that have none yet
  void joined(EngineInfo engine);
  void hung(std::string engine);
  void tell_jobs(bool on) { tell_jobs_ = on; }
  bool tells_jobs() const { return tell_jobs_; }  // else nobody wants what follows
  void tell(JobNews news) { actions_.jobs.push_back(std::move(news)); }

  void complete(Completed completed);  // runs its continuation
  std::size_t waiting() const { return continuations_.size(); }
  Actions take() { return std::exchange(actions_, {}); }

 private:
  Now now_;
  CoreCounters counters_;
  Tally tally_;
  Actions actions_;
  bool tell_jobs_ = false;
  struct Audited {
    std::string who, request;
  };
  std::uint64_t next_ticket_ = 1, next_audit_ = 1;
  std::map<std::uint64_t, Audited> audited_;
  std::unordered_map<std::uint64_t, Continuation> continuations_;
};

// The reply as a T; null where the operation was refused or the reply is of another kind.
template <class T>
const T* reply_as(const Result<Reply>& reply) {
  return reply ? std::get_if<T>(&*reply) : nullptr;
}
template <class T>
T* reply_as(Result<Reply>& reply) {
  return reply ? std::get_if<T>(&*reply) : nullptr;
}
// The error of a refused operation, or `internal` where the reply is of the wrong kind.
Error reply_error(const Result<Reply>& reply);

}  // namespace millrace::broker
