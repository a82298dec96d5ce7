#include "engine/core/prefix/shared_tier.hpp"

#include <utility>

#include "schemas/base/clock.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

// Limit of bytes in memory. Pages that are not saved because of it are offered again when they are
// used next.
constexpr std::uint64_t most_unwritten_shared_bytes = 64 * limits::MiB;

std::int64_t monotonic_us() {
  return SystemClock().monotonic_us();
}

}  // namespace

Result<std::unique_ptr<SharedTier>> SharedTier::open(std::unique_ptr<SegmentStore> store,
                                                     const SharedTierOptions& options) {
  MILLRACE_TRY(check_limit(options.kind, options.bytes));
  std::unique_ptr<SharedTier> tier(new SharedTier(std::move(store), options));
  tier->thread_->wait_for_listing(options.patience_ms);
  tier->take();
  return tier;
}

SharedTier::SharedTier(std::unique_ptr<SegmentStore> store, const SharedTierOptions& options)
    : SegmentTier(options.kind, options.bytes),
      options_(options),
      thread_(std::make_shared<StoreThread>(std::move(store), options)),
      runs_([thread = thread_] { thread->run(); }) {}

// A thread that hangs in a call of the store keeps what it needs, and the program may end.
SharedTier::~SharedTier() {
  if (thread_->stop(options_.last_writes_ms)) {
    runs_.join();
    return;
  }
  log_warn("the prefix store does not answer: what was to be saved is lost");
  runs_.detach();
}

std::uint32_t SharedTier::find(std::span<const TokenId> tokens, std::uint32_t known) {
  thread_->want_listing();
  if (!usable_ || silent_) return known;
  const std::int64_t now = monotonic_us();
  const auto pages = static_cast<std::uint32_t>(tokens.size() / kind().page_tokens);
  for (const SegmentIndex::Number number : index_.holders(tokens, pages)) {
    Entry& entry = entries_.at(number);
    const bool lately = entry.touched_us != 0 &&
                        now - entry.touched_us < std::int64_t{options_.touch_ms} * us_per_ms;
    if (lately || !index_.is_readable(number)) continue;
    entry.touched_us = now;
    thread_->touch(entry.name);
  }
  return index_.find(tokens, known);
}

SegmentIndex::Number SharedTier::enter(const Segment& segment) {
  const std::string name = segment_name(segment);
  // A later segment may have taken over all its pages and be gone.
  if (const auto known = numbers_.find(name); known != numbers_.end()) forget(known->second);
  const SegmentIndex::Number number = next_++;
  index_.add(number, segment);
  entries_[number] = {name};
  numbers_[name] = number;
  return number;
}

void SharedTier::forget(SegmentIndex::Number number) {
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) return;
  index_.remove(number);
  numbers_.erase(entry->second.name);
  entries_.erase(entry);
}

void SharedTier::save(SegmentIndex::Number number, std::vector<char> bytes) {
  const Segment& segment = index_.segment(number);
  std::set<std::string> kept;
  for (const SegmentIndex::Number holder : index_.holders(segment.path, segment.first_page)) {
    kept.insert(entries_.at(holder).name);
  }
  thread_->save(number, segment, std::move(bytes), std::move(kept));
}

bool SharedTier::accepts() const {
  return !has_failed() && thread_->unwritten_bytes() < most_unwritten_shared_bytes;
}

bool SharedTier::has_failed() const {
  return !usable_ || silent_ || monotonic_us() < no_saves_until_us_;
}

void SharedTier::load(std::uint64_t ticket, const SegmentIndex::Piece& piece) {
  if (reads_.empty()) answered_us_ = monotonic_us();
  reads_.push_back({ticket, piece, {}});
  // A segment that was removed since it was found is asked for, too: answers keep their order.
  const bool there = index_.contains(piece.segment);
  thread_->load(there ? index_.segment(piece.segment) : Segment(), piece.skip, piece.count);
}

std::vector<SegmentTier::Loaded> SharedTier::take() {
  std::vector<Loaded> out;
  for (StoreThread::Answer& answer : thread_->take()) {
    answered_us_ = monotonic_us();
    silent_ = false;
    if (auto* const loaded = std::get_if<StoreThread::Loaded>(&answer)) {
      take(*loaded, out);
    } else if (const auto* const saved = std::get_if<StoreThread::Saved>(&answer)) {
      take(*saved);
    } else if (const auto* const found = std::get_if<StoreThread::Found>(&answer)) {
      take(*found);
    } else if (const auto* const gone = std::get_if<StoreThread::Gone>(&answer)) {
      take(*gone);
    } else {
      usable_ = std::get<StoreThread::Usable>(answer).usable;
    }
  }
  if (!reads_.empty() &&
      monotonic_us() - answered_us_ > std::int64_t{options_.patience_ms} * us_per_ms) {
    give_up_reads(out);
  }
  return out;
}

void SharedTier::take(StoreThread::Loaded& loaded, std::vector<Loaded>& out) {
  if (given_up_ > 0) {
    --given_up_;
    return;
  }
  Loaded read = std::move(reads_.front());
  reads_.pop_front();
  if (loaded.gone) forget(read.piece.segment);
  read.bytes = std::move(loaded.bytes);
  out.push_back(std::move(read));
}

void SharedTier::take(const StoreThread::Saved& saved) {
  if (saved.failed) {
    no_saves_until_us_ = monotonic_us() + std::int64_t{options_.pause_ms} * us_per_ms;
  }
  if (!saved.written) {
    forget(saved.number);
  } else if (const auto entry = entries_.find(saved.number); entry != entries_.end()) {
    entry->second.touched_us = monotonic_us();
    index_.finished(saved.number);
  }
}

void SharedTier::take(const StoreThread::Found& found) {
  if (numbers_.contains(segment_name(found.segment))) return;  // this engine is writing it
  index_.finished(enter(found.segment));
}

void SharedTier::take(const StoreThread::Gone& gone) {
  const auto known = numbers_.find(gone.name);
  if (known != numbers_.end() && index_.is_readable(known->second)) forget(known->second);
}

void SharedTier::give_up_reads(std::vector<Loaded>& out) {
  log_warn("the prefix store does not answer: what it was asked for is computed",
           {{"reads", reads_.size()}, {"waited_ms", options_.patience_ms}});
  given_up_ += reads_.size();
  for (Loaded& read : reads_) out.push_back(std::move(read));
  reads_.clear();
  silent_ = true;
}

}  // namespace millrace::engine
