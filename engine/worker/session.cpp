#include "engine/worker/session.hpp"

#include <algorithm>
#include <utility>

#include "schemas/base/log.hpp"
#include "schemas/codec.hpp"

namespace millrace::worker {
namespace {

constexpr std::size_t frames_ahead = 8;  // frames that may wait to be sent
constexpr std::size_t ends_per_frame = 256;
constexpr std::size_t partials_per_frame = 1'000;
constexpr std::size_t ends_bytes = 4 * limits::MiB;  // in one frame, unless one end is larger

std::int64_t us(std::uint32_t ms) {
  return ms * us_per_ms;
}

// True for refusals of hello that another try would not change.
bool is_final(Code code) {
  return code == Code::unsupported_version || code == Code::unauthorized ||
         code == Code::unexpected_message || code == Code::missing_field ||
         code == Code::invalid_value;
}

}  // namespace

Session::Session(SessionOptions options, Executor& executor, const Clock& clock)
    : options_(std::move(options)),
      executor_(executor),
      clock_(clock),
      heard_us_(clock.monotonic_us()),
      hello_due_us_(heard_us_),
      hello_wait_ms_(options_.hello_ms) {}

void Session::send(Message message) {
  out_.push_back(encode(Envelope{next_id_++, std::move(message)}));
}

void Session::hello() {
  const ExecutorInfo& info = executor_.info();
  Hello hello;
  hello.role = Role::engine;
  hello.name = options_.name;
  hello.software = options_.software;
  hello.capabilities = {"generate", "score", "logprobs", "cancel", "partials"};
  hello.instance = options_.instance;
  hello.engine = info.engine;
  out_.clear();  // these frames belong to the session before
  hello_id_ = next_id_;
  send(std::move(hello));
  state_ = State::greeting;
  hello_due_us_ = now_us() + us(hello_wait_ms_);
  hello_wait_ms_ = std::min(hello_wait_ms_ * 2, options_.hello_most_ms);
}

void Session::leave(std::string_view why) {
  out_.clear();
  state_ = State::away;
  move_ = true;
  hello_wait_ms_ = options_.hello_ms;
  hello_due_us_ = now_us();
  if (std::exchange(told_away_, true)) return;
  log_warn("the broker is away; jobs go on and their results are kept",
           {{"why", why}, {"running", book_.running()}, {"kept_results", book_.unconfirmed()}});
}

void Session::finish(Status outcome) {
  if (state_ == State::finished) return;
  if (state_ != State::joined) out_.clear();  // no broker would read them
  state_ = State::finished;
  outcome_ = std::move(outcome);
}

void Session::received(std::string_view frame) {
  if (state_ == State::finished) return;
  auto envelope = decode_envelope(frame);
  if (!envelope) return log_warn("a frame from the broker was dropped", envelope.error());
  heard_us_ = now_us();
  if (auto* m = std::get_if<Welcome>(&envelope->message)) return welcomed(*m);
  if (auto* m = std::get_if<Refused>(&envelope->message)) return refused(envelope->id, *m);
  if (auto* m = std::get_if<Goodbye>(&envelope->message)) return broker_left(*m);
  if (state_ != State::joined) return;  // the message belongs to the session before
  if (auto* m = std::get_if<Leases>(&envelope->message)) return leased(*m);
  if (auto* m = std::get_if<HeartbeatAnswer>(&envelope->message)) return answered(*m);
  if (auto* m = std::get_if<Committed>(&envelope->message)) return committed(*m);
  log_warn("the broker sent a message that engines do not take",
           {{"kind", kind_name(envelope->message)}});
}

void Session::welcomed(const Welcome& welcome) {
  if (state_ != State::greeting) return;
  state_ = State::joined;
  const bool other = !broker_.empty() && broker_ != welcome.broker;
  broker_ = welcome.broker;
  takes_begun_ = std::ranges::find(welcome.capabilities, "begun") != welcome.capabilities.end();
  heartbeat_ms_ = std::max<std::uint32_t>(welcome.heartbeat_ms, 10);
  hello_wait_ms_ = options_.hello_ms;
  told_away_ = false;
  granted_ = 0;
  book_.send_again(now_us());
  log_info(other ? "joined a new broker" : "joined the broker",
           {{"broker", broker_}, {"leases", book_.all().size()}});
  heartbeat();  // first, so that the broker counts the leases that are held
  if (options_.joined) options_.joined();
}

void Session::refused(std::uint64_t id, const Refused& refused) {
  if (state_ == State::joined) {
    if (refused.error.code == Code::unauthorized) return finish(fail(refused.error));
    if (refused.error.code != Code::unexpected_message)
      return log_warn("the broker refused a message", refused.error);
    // The broker has restarted and knows no session of ours: say hello.
    log_info("the broker asks for hello again", {{"said", refused.error.message}});
    return hello();
  }
  // Refusals of messages that were sent before hello may still arrive.
  if (state_ != State::greeting || id != hello_id_) return;
  if (is_final(refused.error.code)) return finish(fail(refused.error));
  log_warn("the broker refused hello; trying again", refused.error);
}

void Session::broker_left(const Goodbye& goodbye) {
  if (state_ != State::joined) return;
  leave(goodbye.reason.empty() ? "it said goodbye" : goodbye.reason);
  hello_due_us_ = now_us() + us(options_.hello_ms);
}

void Session::leased(const Leases& leases) {
  granted_ -= std::min(granted_, static_cast<std::uint32_t>(leases.leases.size()));
  std::vector<LeaseId> unwanted;
  for (const Lease& lease : leases.leases) {
    if (book_.knows(lease.lease)) continue;
    if (draining_) {
      unwanted.push_back(lease.lease);
      continue;
    }
    auto task = prepare(lease, executor_.info());
    if (task) {
      book_.add(std::move(*task), lease.alone);
    } else {
      book_.add_ended(failed_end(lease.lease, std::move(task).error()));
    }
  }
  release(std::move(unwanted));
}

void Session::cancel(LeaseId lease) {
  switch (book_.state(lease)) {
    case LeaseBook::State::waiting:
      book_.drop(lease);
      book_.add_ended(cancelled_end(lease));
      break;
    case LeaseBook::State::running:
      executor_.cancel(lease);
      break;
    default:
      break;
  }
}

void Session::answered(const HeartbeatAnswer& answer) {
  for (const LeaseId lease : answer.lost) {
    const auto was = book_.drop(lease);
    if (was == LeaseBook::State::running) executor_.cancel(lease);
    if (was != LeaseBook::State::unknown) log_info("a lease is lost", {{"lease", lease}});
  }
  for (const LeaseId lease : answer.cancelled) cancel(lease);
  if (answer.drain && !draining_) drain("the broker asks for it");
}

void Session::committed(const Committed& answer) {
  for (const LeaseId lease : answer.committed)
    if (book_.state(lease) == LeaseBook::State::ended) book_.drop(lease);
  for (const LeaseId lease : answer.stale) {
    const auto was = book_.drop(lease);
    if (was == LeaseBook::State::running) executor_.cancel(lease);
    if (was != LeaseBook::State::unknown)
      log_info("a result was refused: its lease was not current any more", {{"lease", lease}});
  }
}

// Partials go out before the ends that came with them. While frames wait to be sent, partials wait
// in the executor and are merged. While the broker is away they are dropped: a result is complete
// without them.
void Session::send_partials() {
  if (state_ == State::joined && out_.size() >= frames_ahead) return;
  std::vector<TaskPartial> all = executor_.take_partials();
  if (state_ != State::joined) return;
  Partials partials;
  std::size_t bytes = 0;
  const auto send_them = [&] {
    if (!partials.entries.empty()) send(std::exchange(partials, {}));
    bytes = 0;
  };
  for (TaskPartial& part : all) {
    if (book_.state(part.lease) != LeaseBook::State::running) continue;
    PartialEntry& entry = partials.entries.emplace_back();
    entry.lease = part.lease;
    entry.partial = std::move(part.partial);
    bytes += entry.partial.text.size() + entry.partial.reasoning.size();
    if (partials.entries.size() == partials_per_frame || bytes > ends_bytes) send_them();
  }
  send_them();
}

// This comes before anything that follows from the step, and before a heartbeat that would still
// call these leases waiting.
void Session::send_begun() {
  Begun begun{executor_.take_begun()};
  if (state_ == State::joined && takes_begun_ && !begun.leases.empty()) send(std::move(begun));
}

void Session::collect() {
  send_begun();
  std::vector<Ended> ends = executor_.take_ends();
  send_partials();
  for (Ended& ended : ends) {
    if (book_.stopped(ended.lease)) book_.add_ended(job_end(std::move(ended)));
  }
}

void Session::start_tasks() {
  while (auto task = book_.start_next()) executor_.add(std::move(*task));
}

// A lost device ends this process. Jobs that have not run are handed back. Those that ran stay
// leased, as after any other death, so that the broker finds a job that kills its device each time.
void Session::check_failure() {
  if (goodbye_us_ || !outcome_) return;
  auto failure = executor_.failure();
  if (!failure) return;
  log_error("the engine cannot run jobs any more", *failure);
  outcome_ = fail(*failure);
  draining_ = true;
  if (state_ == State::joined) release(book_.in_state(LeaseBook::State::waiting));
  goodbye_us_ = now_us() + us(options_.goodbye_ms);
}

EngineLoad Session::load() const {
  const ExecutorCounts counts = executor_.counts();
  EngineLoad load;
  load.max_rows = counts.max_rows;
  load.waiting_jobs = static_cast<std::uint32_t>(book_.waiting() + executor_.waiting().size());
  load.kv_used_tokens = counts.kv_used_tokens;
  load.kv_pool_tokens = counts.kv_pool_tokens;
  load.kv_used_bytes = counts.kv_used_bytes;
  load.kv_pool_bytes = counts.kv_pool_bytes;
  load.prefix_tokens = counts.prefix_tokens;
  load.prompt_tokens = counts.prompt_tokens;
  load.cached_tokens = counts.cached_tokens;
  load.completion_tokens = counts.generated_tokens;
  return load;
}

void Session::heartbeat() {
  const Progress progress = executor_.progress();
  Heartbeat beat;
  beat.leases = book_.all();
  beat.steps = progress.steps;
  beat.tokens = progress.tokens;
  beat.credit = credit();
  beat.rows = progress.rows;
  beat.waiting = book_.in_state(LeaseBook::State::waiting);
  for (const LeaseId lease : book_.in_state(LeaseBook::State::ended)) beat.waiting.push_back(lease);
  for (const LeaseId lease : executor_.waiting()) {
    if (book_.state(lease) == LeaseBook::State::running) beat.waiting.push_back(lease);
  }
  beat.prefixes = executor_.prefixes();
  beat.load = load();
  granted_ = beat.credit;
  send(std::move(beat));
  heartbeat_due_us_ = now_us() + us(heartbeat_ms_);
}

std::uint32_t Session::credit() const {
  if (draining_ || book_.unconfirmed() >= options_.unconfirmed_most ||
      book_.unconfirmed_bytes() >= options_.unconfirmed_bytes_most)
    return 0;
  const std::size_t held = book_.waiting() + book_.running();
  const std::uint32_t capacity = executor_.info().capacity;
  return held >= capacity ? 0 : capacity - static_cast<std::uint32_t>(held);
}

// Between heartbeats, credit is renewed only when at most half of it is left. Credit that the
// broker still has may be on its way back as leases, and must not be granted twice.
void Session::grant_credit() {
  const std::uint32_t room = credit();
  if (room <= granted_ || granted_ > executor_.info().capacity / 2) return;
  granted_ = room;
  send(Ready{room});
}

void Session::send_ends() {
  const std::int64_t now = now_us();
  if (now >= resend_due_us_) {
    book_.send_again(now - us(options_.resend_ms));
    resend_due_us_ = now + us(options_.resend_ms) / 4;
  }
  while (book_.has_unsent() && out_.size() < frames_ahead) {
    Ends ends;
    ends.ends = book_.take_unsent(now, ends_per_frame, ends_bytes);
    if (!ends.ends.empty()) send(std::move(ends));
  }
}

void Session::keep_contact() {
  const std::int64_t now = now_us();
  if (state_ == State::joined) {
    if (now - heard_us_ > us(std::max(options_.silence_ms, 4 * heartbeat_ms_)))
      leave("it does not answer");
    else if (now >= heartbeat_due_us_)
      heartbeat();
  }
  if (state_ != State::joined && now >= hello_due_us_) {
    if (state_ == State::greeting && !std::exchange(told_away_, true))
      log_warn("no answer from the broker yet; trying again", {{"name", options_.name}});
    move_ = move_ || state_ == State::greeting;
    hello();
  }
}

void Session::pump() {
  if (state_ == State::finished) return;
  collect();
  check_failure();
  if (!draining_) start_tasks();
  keep_contact();
  if (state_ == State::joined) {
    send_ends();
    grant_credit();
  }
  if (draining_) carry_out_drain();
}

std::int64_t Session::due_us() const {
  std::int64_t due = state_ == State::joined ? heartbeat_due_us_ : hello_due_us_;
  if (draining_) due = std::min(due, goodbye_us_.value_or(drain_end_us_));
  return due;
}

void Session::release(std::vector<LeaseId> leases) {
  if (leases.empty()) return;
  for (const LeaseId lease : leases)
    if (book_.drop(lease) == LeaseBook::State::running) executor_.cancel(lease);
  log_info("leases handed back", {{"count", leases.size()}});
  if (state_ == State::joined) send(Release{std::move(leases)});
}

void Session::drain(std::string_view reason) {
  if (state_ == State::finished) return;
  if (std::exchange(draining_, true)) {
    log_info("leaving at once", {{"why", reason}});
    leave_at_once_ = true;
    if (goodbye_us_) goodbye_us_ = now_us();
    return;
  }
  log_info("draining: no new jobs, finishing what runs",
           {{"why", reason}, {"running", book_.running()}, {"waiting", book_.waiting()}});
  drain_end_us_ = now_us() + us(options_.drain_timeout_ms);
  if (state_ == State::joined) {
    send(Ready{0});
    release(book_.in_state(LeaseBook::State::waiting));
  }
}

void Session::carry_out_drain() {
  const std::int64_t now = now_us();
  const bool joined = state_ == State::joined;
  if (!goodbye_us_) {
    const bool idle = book_.in_state(LeaseBook::State::running).empty();
    if (!idle && !leave_at_once_ && now < drain_end_us_) return;
    // Wait a moment for the commit of the ends that are there; hand back what still runs.
    release(book_.in_state(LeaseBook::State::waiting));
    release(book_.in_state(LeaseBook::State::running));
    goodbye_us_ = leave_at_once_ ? now : now + us(options_.goodbye_ms);
    if (!joined && !leave_at_once_) goodbye_us_ = std::max(*goodbye_us_, drain_end_us_);
  }
  if (book_.unconfirmed() > 0 && now < *goodbye_us_) return;
  if (book_.unconfirmed() > 0)
    log_warn("leaving before the broker confirmed all results; their jobs will run again",
             {{"results", book_.unconfirmed()}});
  // No goodbye after a failure: it would hand back the jobs that were running without blame.
  if (joined && outcome_) send(Goodbye{"the engine is shutting down"});
  finish(outcome_);
}

}  // namespace millrace::worker
