#pragma once
// The engine's side of the protocol, without sockets and threads: it takes frames, gives frames,
// and reads the time from a Clock. It says hello to the broker, grants credit, starts leased jobs
// on the executor, sends heartbeats, keeps each end until the broker says that it is on disk, and
// drains.
//
//   away ──hello sent──▶ greeting ──welcome──▶ joined ──silence, goodbye──▶ away
//
// While the broker is away the jobs go on. Their ends are kept, and sent again when a broker is
// back, either the same one or a new one on the same ledger. Each change is logged once.
// Thread safety: none; one thread owns it.
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/worker/executor.hpp"
#include "engine/worker/lease_book.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::worker {

struct SessionOptions {
  std::string name;                // for people
  std::string software;            // "millrace-engine 0.1.0"
  std::string instance;            // random id of this process
  std::function<void()> joined{};  // called whenever a broker has welcomed it; may be empty
  std::uint32_t drain_timeout_ms = 30'000;
  std::uint32_t hello_ms = 1'000;  // wait between two hellos, doubled up to hello_most_ms
  std::uint32_t hello_most_ms = 15'000;
  std::uint32_t silence_ms = 5'000;  // a joined broker that is silent for longer counts as away
  std::uint32_t resend_ms = 10'000;  // an end without an answer is sent again after this time
  std::uint32_t goodbye_ms = 3'000;  // wait for the commit of the last ends
  std::size_t unconfirmed_most = 1'000;
  std::size_t unconfirmed_bytes_most = 256 * limits::MiB;
};

class Session {
 public:
  Session(SessionOptions options, Executor& executor, const Clock& clock);

  void received(std::string_view frame);
  // Does all that is due: takes what the executor has ended, starts tasks, queues frames. Call it
  // after each event and at due_us().
  void pump();
  std::int64_t due_us() const;  // on the monotonic clock

  // Frames to send, oldest first.
  const std::string* next_frame() const { return out_.empty() ? nullptr : &out_.front(); }
  void frame_sent() { out_.pop_front(); }
  // Whether the broker is away since the last call, or did not answer a hello: where there are
  // several, the frames that follow are for the next one.
  bool take_move() { return std::exchange(move_, false); }

  // Takes no more jobs, hands back those that wait, finishes those that run within the timeout, and
  // leaves. The second call leaves at once.
  void drain(std::string_view reason);

  bool finished() const { return state_ == State::finished && out_.empty(); }
  // An error when the broker refused this engine for good, or the executor failed.
  const Status& outcome() const { return outcome_; }

  enum class State : std::uint8_t { away, greeting, joined, finished };
  State state() const { return state_; }
  const LeaseBook& book() const { return book_; }

 private:
  std::int64_t now_us() const { return clock_.monotonic_us(); }
  void send(Message message);
  void hello();
  void leave(std::string_view why);  // the state becomes away
  void finish(Status outcome);

  void welcomed(const Welcome& welcome);
  void refused(std::uint64_t id, const Refused& refused);
  void leased(const Leases& leases);
  void answered(const HeartbeatAnswer& answer);
  void cancel(LeaseId lease);
  void committed(const Committed& answer);
  void broker_left(const Goodbye& goodbye);

  void collect();
  void start_tasks();
  void check_failure();
  void keep_contact();
  void send_ends();
  void send_begun();
  void send_partials();
  void grant_credit();
  void carry_out_drain();
  std::uint32_t credit() const;
  void heartbeat();
  EngineLoad load() const;
  void release(std::vector<LeaseId> leases);

  SessionOptions options_;
  Executor& executor_;
  const Clock& clock_;
  LeaseBook book_;
  std::deque<std::string> out_;
  State state_ = State::away;
  bool move_ = false;
  Status outcome_;

  std::uint64_t next_id_ = 1;
  std::uint64_t hello_id_ = 0;
  std::string broker_;        // id of the last broker that welcomed us
  bool takes_begun_ = false;  // it has the capability
  std::uint32_t heartbeat_ms_ = limits::heartbeat_ms;
  std::int64_t heard_us_ = 0;  // when the last frame from the broker came
  std::int64_t heartbeat_due_us_ = 0;
  std::int64_t hello_due_us_ = 0;
  std::int64_t resend_due_us_ = 0;
  std::uint32_t hello_wait_ms_;
  bool told_away_ = false;     // the log says that the broker is away
  std::uint32_t granted_ = 0;  // credit that the broker still has

  bool draining_ = false, leave_at_once_ = false;
  std::int64_t drain_end_us_ = 0;
  std::optional<std::int64_t> goodbye_us_;  // unset: jobs may still run; then: leave at this time
};

}  // namespace millrace::worker
