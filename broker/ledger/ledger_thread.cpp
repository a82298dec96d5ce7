#include "broker/ledger/ledger_thread.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "broker/ledger/ledger_inbox.hpp"
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

std::uint64_t entry_bytes(const ReadStreamReply& reply) {
  std::uint64_t bytes = 0;
  for (const Entry& entry : reply.entries) bytes += entry.body.size();
  return bytes;
}

// A stream read in progress, with the entries gathered so far.
struct Replay {
  std::uint64_t token = 0;
  std::uint32_t place = 0;
  ReadStream wanted;  // what is still wanted: each slice moves `from` on and lowers the limits
  std::optional<ReadStreamReply> got;
};

std::vector<std::unique_ptr<Ledger>> one_handle(std::unique_ptr<Ledger> ledger) {
  std::vector<std::unique_ptr<Ledger>> out;
  out.push_back(std::move(ledger));
  return out;
}

}  // namespace

struct LedgerThread::State {
  std::vector<std::unique_ptr<Ledger>> handles;
  std::function<void()> wake;
  LedgerThreadOptions options;

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable arrived, hurried, turn;
  LedgerInbox inbox;
  std::vector<Completion> outbox;
  std::uint64_t outbox_bytes = 0;  // of entries read
  std::optional<Error> failure;
  LedgerStatistics statistics;
  bool stopping = false;
  bool giving_up = false;       // once the ledger was tried a few more times
  bool gathering = false;       // a thread chooses its next batch
  bool reading = false;         // a thread serves the first of `replays`
  std::deque<Replay> replays;   // the thread that reads uses the first without the mutex
  std::size_t last_commit = 0;  // operations of the last batch
  std::uint64_t last_commit_us = 0;
  std::vector<std::thread> threads;

  void run(Ledger& ledger);
  LedgerBatch gather(std::unique_lock<std::mutex>& lock);
  Result<std::vector<Result<Reply>>> apply(Ledger& ledger, std::span<const Operation> operations);
  void commit(Ledger& ledger, LedgerBatch& batch);
  bool may_read() const {
    return !replays.empty() && !reading && (stopping || outbox_bytes < options.outbox_bytes);
  }
  void read_slice(Ledger& ledger);
  void finish_read(Result<Reply> reply);
  void keep_house(Ledger& ledger);
  void deliver(std::vector<Completion> completions);
  std::optional<Error> failed() const {
    const std::lock_guard lock(mutex);
    return failure;
  }
  void fail_with(const Error& error);
};

// Waits for work, then returns the operations of the next commit and moves stream reads to
// `replays`. Returns nothing if there are only stream reads to serve, or nothing came for idle_ms.
// Producers that shared the last commit were answered together and are likely to come together
// again: this waits a moment for as many, so that they share the next sync too. An operation that
// came alone does not wait; what arrives during its sync shares the next one.
LedgerBatch LedgerThread::State::gather(std::unique_lock<std::mutex>& lock) {
  arrived.wait_for(lock, std::chrono::milliseconds(options.idle_ms),
                   [&] { return inbox.ready() || may_read() || (stopping && inbox.empty()); });
  if (!inbox.ready()) return {};
  const std::uint64_t part_us = last_commit_us * options.commit_wait_percent / 100;
  const auto close_at = inbox.oldest() + std::chrono::microseconds(std::min<std::uint64_t>(
                                             options.commit_wait_us, part_us));
  const std::size_t enough = std::min<std::size_t>(last_commit, options.commit_operations);
  arrived.wait_until(lock, close_at, [&] {
    return inbox.operations() >= enough || inbox.bytes() >= options.commit_bytes || stopping ||
           may_read();
  });
  LedgerBatch batch = inbox.take({options.commit_operations, options.commit_bytes});
  for (Posted& posted : batch.reads) {
    auto& read = std::get<ReadStream>(posted.operation);
    replays.push_back({posted.token, posted.place, std::move(read), std::nullopt});
  }
  if (!batch.operations.empty()) last_commit = batch.operations.size();
  return batch;
}

void LedgerThread::State::run(Ledger& ledger) {
  std::unique_lock lock(mutex);
  while (true) {
    turn.wait(lock, [this] { return !gathering; });
    gathering = true;
    LedgerBatch batch = gather(lock);
    gathering = false;
    turn.notify_one();
    const bool committing = !batch.operations.empty();
    if (!committing) inbox.done(batch);  // it may hold reads
    const bool read = may_read();
    const bool served = replays.empty() || reading;
    if (!committing && !read && stopping && inbox.empty() && served) return;
    reading |= read;
    lock.unlock();
    if (committing) commit(ledger, batch);
    if (read) read_slice(ledger);
    if (committing || !read) keep_house(ledger);
    lock.lock();
    if (committing) inbox.done(batch);
    if (read) reading = false;
    if (committing || read) arrived.notify_one();  // others may wait for what this batch held up
  }
}

// Tries again while the ledger is unavailable.
Result<std::vector<Result<Reply>>> LedgerThread::State::apply(
    Ledger& ledger, std::span<const Operation> operations) {
  std::uint32_t pause_ms = options.retry_ms, tries_at_stop = 0;
  for (bool away = false;; away = true) {
    auto replies = ledger.apply(operations, options.now_us());
    if (replies || !may_try_again(replies.error())) {
      if (away && replies) log_info("the ledger answers again");
      return replies;
    }
    if (!away) {
      log_warn("the ledger is unavailable and is tried again", {{"what", replies.error().message}});
    }
    std::unique_lock lock(mutex);
    ++statistics.retries;
    if (giving_up && ++tries_at_stop > options.retries_at_stop) {
      return fail(Error{Code::ledger_unavailable,
                        "the ledger did not answer until the end: " + replies.error().message,
                        "what was not acknowledged may not be stored: send it again",
                        limits::retry_start_ms});
    }
    const bool was_giving_up = giving_up;
    hurried.wait_for(lock, std::chrono::milliseconds(pause_ms),
                     [&] { return giving_up != was_giving_up; });
    pause_ms = std::min(2 * pause_ms, options.retry_most_ms);
  }
}

void LedgerThread::State::commit(Ledger& ledger, LedgerBatch& batch) {
  auto& posted = batch.operations;
  std::vector<Operation> operations;
  operations.reserve(posted.size());
  for (Posted& one : posted) operations.push_back(std::move(one.operation));
  std::vector<Completion> completions;
  completions.reserve(posted.size());
  if (const auto known = failed()) {
    for (const Posted& one : posted) completions.push_back({one.token, one.place, fail(*known)});
    deliver(std::move(completions));
    return;
  }
  const auto start = Steady::now();
  auto replies = apply(ledger, operations);
  const std::uint64_t took_us = since_us(start);
  if (replies && replies->size() != posted.size()) {
    replies = fail(Code::internal, "the ledger answered " + std::to_string(replies->size()) +
                                       " of " + std::to_string(posted.size()) + " operations");
  }
  if (!replies) fail_with(replies.error());
  for (std::size_t i = 0; i < posted.size(); ++i) {
    completions.push_back(
        {posted[i].token, posted[i].place,
         replies ? std::move((*replies)[i]) : Result<Reply>(fail(replies.error()))});
  }
  {
    const std::lock_guard lock(mutex);
    ++statistics.commits;
    statistics.operations += posted.size();
    statistics.commit.add(took_us);
    statistics.batch.add(posted.size());
    if (const std::uint64_t us = ledger.sync_us(); us > 0) statistics.sync.add(us);
    last_commit_us = took_us;
    for (const Posted& one : posted) statistics.wait.add(since_us(one.at));
  }
  deliver(std::move(completions));
}

void LedgerThread::State::finish_read(Result<Reply> reply) {
  std::vector<Completion> one;
  {
    const std::lock_guard lock(mutex);
    one.push_back({replays.front().token, replays.front().place, std::move(reply)});
    replays.pop_front();
    ++statistics.operations;
  }
  deliver(std::move(one));
}

// Reads one slice of the oldest stream read. Reads are served one after the other, so that at most
// one is partly gathered in memory.
void LedgerThread::State::read_slice(Ledger& ledger) {
  Replay* first = nullptr;
  {
    const std::lock_guard lock(mutex);
    first = &replays.front();
  }
  Replay& replay = *first;
  if (const auto known = failed()) return finish_read(fail(*known));
  ReadStream slice = replay.wanted;
  slice.max_bytes = std::min(slice.max_bytes, options.read_slice_bytes);
  const Operation operation = slice;
  auto replies = apply(ledger, std::span(&operation, 1));
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

void LedgerThread::State::keep_house(Ledger& ledger) {
  if (failed()) return;
  const Status status = ledger.idle();
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

LedgerThread::LedgerThread(std::vector<std::unique_ptr<Ledger>> handles, std::function<void()> wake,
                           LedgerThreadOptions options)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.handles = std::move(handles);
  s.wake = std::move(wake);
  s.options = std::move(options);
  if (!s.wake) s.wake = [] {};
  if (!s.options.now_us) s.options.now_us = system_now_us;
  for (const auto& handle : s.handles) {
    s.threads.emplace_back([&s, ledger = handle.get()] { s.run(*ledger); });
  }
}

LedgerThread::LedgerThread(std::unique_ptr<Ledger> ledger, std::function<void()> wake,
                           LedgerThreadOptions options)
    : LedgerThread(one_handle(std::move(ledger)), std::move(wake), std::move(options)) {}

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
    const std::size_t waiting = s.inbox.operations() + operations.size();
    const bool too_many =
        waiting > s.options.inbox_operations || s.inbox.bytes() + bytes > s.options.inbox_bytes;
    if (too_many && !s.inbox.empty()) {  // an empty inbox accepts more than its limit
      return fail(
          Error{Code::overloaded,
                std::to_string(s.inbox.operations()) + " operations already wait for the ledger",
                "wait a little and send again", limits::retry_commit_ms});
    }
    s.inbox.push(token, std::move(operations), Steady::now());
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
  give_up_soon();
  for (std::thread& thread : state_->threads) {
    if (thread.joinable()) thread.join();
  }
}

void LedgerThread::give_up_soon() {
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->giving_up, true)) return;
  }
  state_->hurried.notify_all();
  for (const auto& handle : state_->handles) handle->give_up_soon();
}

std::optional<Error> LedgerThread::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

LedgerStatistics LedgerThread::statistics() const {
  const std::lock_guard lock(state_->mutex);
  LedgerStatistics out = state_->statistics;
  out.waiting = static_cast<std::uint32_t>(state_->inbox.operations());
  return out;
}

}  // namespace millrace::broker
