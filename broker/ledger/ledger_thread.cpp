#include "broker/ledger/ledger_thread.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "schemas/base/log.hpp"

namespace millrace::broker {
namespace {

using Steady = std::chrono::steady_clock;

std::uint64_t since_us(Steady::time_point start) {
  const auto d = std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - start);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(d.count(), 0));
}

std::int64_t system_now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::uint64_t body_bytes(const Operation& operation) {
  return std::visit(
      [](const auto& op) -> std::uint64_t {
        if constexpr (requires { op.body; }) return op.body.size();
        return 0;
      },
      operation);
}

std::uint64_t entry_bytes(const ReadStreamReply& reply) {
  std::uint64_t bytes = 0;
  for (const Entry& entry : reply.entries) bytes += entry.body.size();
  return bytes;
}

struct Posted {
  std::uint64_t token = 0;
  Operation operation;
  Steady::time_point at;
};

// A stream read in progress, with the entries gathered so far.
struct Replay {
  std::uint64_t token = 0;
  ReadStream wanted;  // what is still wanted: each slice moves `from` on and lowers the limits
  std::optional<ReadStreamReply> got;
};

// Values below 4 have a bucket each; above, the two bits after the leading one select one of four
// buckets.
std::size_t bucket_of(std::uint64_t us) {
  if (us < 4) return us;
  const auto shift = static_cast<std::size_t>(std::bit_width(us)) - 3;
  return 4 * (shift + 1) + ((us >> shift) & 3);
}
std::uint64_t upper_edge(std::size_t bucket) {
  if (bucket < 4) return bucket;
  const std::size_t shift = bucket / 4 - 1;
  return ((std::uint64_t{4} + bucket % 4 + 1) << shift) - 1;
}

}  // namespace

void LatencyHistogram::add(std::uint64_t us) {
  ++buckets[std::min(bucket_of(us), buckets.size() - 1)];
  ++count;
  sum_us += us;
  max_us = std::max(max_us, us);
}

std::uint64_t LatencyHistogram::quantile_us(double q) const {
  const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(count));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    below += buckets[i];
    if (below > rank) return std::min(upper_edge(i), max_us);
  }
  return max_us;
}

struct LedgerThread::State {
  std::unique_ptr<Ledger> ledger;
  std::function<void()> wake;
  LedgerThreadOptions options;

  mutable std::mutex mutex;
  std::condition_variable arrived, stopped;
  std::deque<Posted> inbox;
  std::uint64_t inbox_bytes = 0;
  std::vector<Completion> outbox;
  std::uint64_t outbox_bytes = 0;  // of entries read
  std::optional<Error> failure;
  LedgerStatistics statistics;
  bool stopping = false;

  std::deque<Replay> replays;   // used by the thread only
  std::size_t last_commit = 0;  // operations of the last commit; used by the thread only
  std::thread thread;

  void run();
  std::vector<Posted> gather(std::unique_lock<std::mutex>& lock);
  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations);
  void commit(std::vector<Posted> batch);
  bool may_read() const { return stopping || outbox_bytes < options.outbox_bytes; }
  void read_slice();
  void finish_read(Result<Reply> reply);
  void keep_house();
  void deliver(std::vector<Completion> completions);
  void fail_with(const Error& error);
};

// Waits for work, then returns the operations of the next commit and moves stream reads to
// `replays`. Returns nothing if there are only stream reads to serve, or nothing came for idle_ms.
// Producers that shared the last commit were answered together and are likely to come together
// again: this waits a moment for as many, so that they share the next sync too. An operation that
// came alone does not wait; what arrives during its sync shares the next one.
std::vector<Posted> LedgerThread::State::gather(std::unique_lock<std::mutex>& lock) {
  const auto readable = [this] { return !replays.empty() && may_read(); };
  arrived.wait_for(lock, std::chrono::milliseconds(options.idle_ms),
                   [&] { return !inbox.empty() || stopping || readable(); });
  if (inbox.empty()) return {};
  const auto close_at = inbox.front().at + std::chrono::microseconds(options.commit_wait_us);
  const std::size_t enough = std::min<std::size_t>(last_commit, options.commit_operations);
  arrived.wait_until(lock, close_at, [&] {
    return inbox.size() >= enough || inbox_bytes >= options.commit_bytes || stopping || readable();
  });
  std::vector<Posted> batch;
  std::uint64_t bytes = 0;
  while (!inbox.empty() && batch.size() < options.commit_operations) {
    const std::uint64_t size = body_bytes(inbox.front().operation);
    if (!batch.empty() && bytes + size > options.commit_bytes) break;
    Posted posted = std::move(inbox.front());
    inbox.pop_front();
    inbox_bytes -= size;
    bytes += size;
    if (auto* read = std::get_if<ReadStream>(&posted.operation)) {
      replays.push_back({posted.token, std::move(*read), std::nullopt});
    } else {
      batch.push_back(std::move(posted));
    }
  }
  if (!batch.empty()) last_commit = batch.size();
  return batch;
}

void LedgerThread::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    std::vector<Posted> batch = gather(lock);
    if (batch.empty() && replays.empty() && inbox.empty() && stopping) return;
    const bool read = !replays.empty() && may_read();
    const bool quiet = batch.empty() && !read;
    lock.unlock();
    const bool committed = !batch.empty();
    if (committed) commit(std::move(batch));
    if (read) read_slice();
    if (committed || quiet) keep_house();
    lock.lock();
  }
}

// Tries again while the ledger is unavailable.
Result<std::vector<Result<Reply>>> LedgerThread::State::apply(
    std::span<const Operation> operations) {
  std::uint32_t pause_ms = options.retry_ms, tries_at_stop = 0;
  for (bool away = false;; away = true) {
    auto replies = ledger->apply(operations, options.now_us());
    if (replies || !may_try_again(replies.error())) {
      if (away && replies) log_info("the ledger answers again");
      return replies;
    }
    if (!away) {
      log_warn("the ledger is unavailable and is tried again", {{"what", replies.error().message}});
    }
    std::unique_lock lock(mutex);
    ++statistics.retries;
    if (stopping && ++tries_at_stop > options.retries_at_stop) {
      return fail(Code::ledger_unavailable,
                  "the ledger did not answer until the end: " + replies.error().message,
                  "what was not acknowledged is not stored: send it again");
    }
    const bool was_stopping = stopping;
    stopped.wait_for(lock, std::chrono::milliseconds(pause_ms),
                     [&] { return stopping != was_stopping; });
    pause_ms = std::min(2 * pause_ms, options.retry_most_ms);
  }
}

void LedgerThread::State::commit(std::vector<Posted> batch) {
  std::vector<Operation> operations;
  operations.reserve(batch.size());
  for (Posted& posted : batch) operations.push_back(std::move(posted.operation));
  std::vector<Completion> completions;
  completions.reserve(batch.size());
  if (failure) {  // read without the lock: only this thread writes it
    for (const Posted& posted : batch) completions.push_back({posted.token, fail(*failure)});
    deliver(std::move(completions));
    return;
  }
  const auto start = Steady::now();
  auto replies = apply(operations);
  const std::uint64_t took_us = since_us(start);
  if (replies && replies->size() != batch.size()) {
    replies = fail(Code::internal, "the ledger answered " + std::to_string(replies->size()) +
                                       " of " + std::to_string(batch.size()) + " operations");
  }
  if (!replies) fail_with(replies.error());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    completions.push_back({batch[i].token, replies ? std::move((*replies)[i])
                                                   : Result<Reply>(fail(replies.error()))});
  }
  {
    const std::lock_guard lock(mutex);
    ++statistics.commits;
    statistics.operations += batch.size();
    statistics.commit.add(took_us);
    for (const Posted& posted : batch) statistics.wait.add(since_us(posted.at));
  }
  deliver(std::move(completions));
}

void LedgerThread::State::finish_read(Result<Reply> reply) {
  std::vector<Completion> one;
  one.push_back({replays.front().token, std::move(reply)});
  replays.pop_front();
  {
    const std::lock_guard lock(mutex);
    ++statistics.operations;
  }
  deliver(std::move(one));
}

// Reads one slice of the oldest stream read. Reads are served one after the other, so that at most
// one is partly gathered in memory.
void LedgerThread::State::read_slice() {
  Replay& replay = replays.front();
  if (failure) return finish_read(fail(*failure));
  ReadStream slice = replay.wanted;
  slice.max_bytes = std::min(slice.max_bytes, options.read_slice_bytes);
  const Operation operation = slice;
  auto replies = apply(std::span(&operation, 1));
  {
    const std::lock_guard lock(mutex);
    ++statistics.reads;
  }
  if (!replies) {
    fail_with(replies.error());
    return finish_read(fail(replies.error()));
  }
  Result<Reply>& reply = replies->front();
  if (!reply) {
    // The entries before a damaged one are a valid answer; the next read reports the damage.
    return finish_read(replay.got ? Result<Reply>(*std::move(replay.got)) : std::move(reply));
  }
  auto& got = std::get<ReadStreamReply>(*reply);
  const std::size_t count = got.entries.size();
  const std::uint64_t bytes = entry_bytes(got);
  // A slice holds at least one entry, which may have more bytes than are still wanted.
  if (replay.got && bytes > replay.wanted.max_bytes) return finish_read(*std::move(replay.got));
  if (count != 0) replay.wanted.from = got.entries.back().number + 1;
  if (!replay.got) {
    replay.got = std::move(got);
  } else if (!got.trimmed) {
    replay.got->high = got.high;
    std::move(got.entries.begin(), got.entries.end(), std::back_inserter(replay.got->entries));
  }
  replay.wanted.max_entries -= static_cast<std::uint32_t>(count);
  const bool full = bytes >= replay.wanted.max_bytes || replay.wanted.max_entries == 0;
  replay.wanted.max_bytes -= std::min(bytes, replay.wanted.max_bytes);
  const bool caught_up = count == 0 || replay.wanted.from > replay.got->high;
  if (full || caught_up) finish_read(*std::move(replay.got));
}

void LedgerThread::State::keep_house() {
  if (failure) return;
  const Status status = ledger->idle();
  if (!status && !may_try_again(status.error())) {
    fail_with(status.error());
    wake();
  }
}

void LedgerThread::State::deliver(std::vector<Completion> completions) {
  {
    const std::lock_guard lock(mutex);
    for (Completion& completion : completions) {
      const auto* read =
          completion.reply ? std::get_if<ReadStreamReply>(&*completion.reply) : nullptr;
      if (read != nullptr) outbox_bytes += entry_bytes(*read);
      outbox.push_back(std::move(completion));
    }
  }
  wake();
}

void LedgerThread::State::fail_with(const Error& error) {
  const std::lock_guard lock(mutex);
  if (!failure) failure = error;
}

LedgerThread::LedgerThread(std::unique_ptr<Ledger> ledger, std::function<void()> wake,
                           LedgerThreadOptions options)
    : state_(std::make_unique<State>()) {
  state_->ledger = std::move(ledger);
  state_->wake = std::move(wake);
  state_->options = std::move(options);
  if (!state_->wake) state_->wake = [] {};
  if (!state_->options.now_us) state_->options.now_us = system_now_us;
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

LedgerThread::~LedgerThread() {
  stop();
}

Status LedgerThread::post(std::uint64_t token, Operation operation) {
  std::vector<Operation> one;
  one.push_back(std::move(operation));
  return post(token, std::move(one));
}

Status LedgerThread::post(std::uint64_t token, std::vector<Operation>&& operations) {
  std::uint64_t bytes = 0;
  for (const Operation& op : operations) bytes += body_bytes(op);
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    if (s.failure) return fail(*s.failure);
    if (s.stopping) return fail(Code::draining, "the ledger thread has been stopped");
    const std::size_t waiting = s.inbox.size() + operations.size();
    const bool too_many =
        waiting > s.options.inbox_operations || s.inbox_bytes + bytes > s.options.inbox_bytes;
    if (too_many && !s.inbox.empty()) {  // an empty inbox accepts more than its limit
      return fail(Code::overloaded,
                  std::to_string(s.inbox.size()) + " operations already wait for the ledger",
                  "wait a little and send again");
    }
    const auto now = Steady::now();
    for (Operation& op : operations) s.inbox.push_back({token, std::move(op), now});
    s.inbox_bytes += bytes;
  }
  s.arrived.notify_one();
  return {};
}

std::vector<Completion> LedgerThread::take() {
  std::vector<Completion> out;
  bool was_full = false;
  {
    const std::lock_guard lock(state_->mutex);
    out.swap(state_->outbox);
    was_full = std::exchange(state_->outbox_bytes, 0) >= state_->options.outbox_bytes;
  }
  if (was_full) state_->arrived.notify_one();
  return out;
}

void LedgerThread::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->arrived.notify_one();
  state_->stopped.notify_one();
  if (state_->thread.joinable()) state_->thread.join();
}

std::optional<Error> LedgerThread::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

LedgerStatistics LedgerThread::statistics() const {
  const std::lock_guard lock(state_->mutex);
  LedgerStatistics out = state_->statistics;
  out.waiting = static_cast<std::uint32_t>(state_->inbox.size());
  return out;
}

}  // namespace millrace::broker
