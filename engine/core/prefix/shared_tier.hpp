#pragma once
// Segments in a store that several engines share (segment_store.hpp), behind the prefix tree. The
// index is what a thread has found there (store_thread.hpp); it may be some seconds old, and a read
// shows what is true.
//
// The store is never a reason to wait for long, or to fail: where it is away, full, slow or
// damaged, prompts are computed, and the log says why. A read without an answer is given up. The
// limit is kept by all engines together: files that were used longest ago go first, whichever
// engine wrote them. Thread safety: one owner thread.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/prefix/segment_tier.hpp"
#include "engine/core/prefix/store_thread.hpp"

namespace millrace::engine {

class SharedTier final : public SegmentTier {
 public:
  // Waits for the store's contents, for as long as for a read. Errors: invalid_value if the limit
  // is too small for one page and the state after it.
  static Result<std::unique_ptr<SharedTier>> open(std::unique_ptr<SegmentStore> store,
                                                  const SharedTierOptions& options);
  ~SharedTier() override;  // waits until everything saved is written, but not for long

  std::uint32_t find(std::span<const TokenId> tokens, std::uint32_t known) override;
  void save(SegmentIndex::Number number, std::vector<char> bytes) override;
  void abandon(SegmentIndex::Number number) override { forget(number); }
  bool accepts() const override;
  std::uint64_t unwritten_bytes() const override { return thread_->unwritten_bytes(); }
  bool has_failed() const override;
  void load(std::uint64_t ticket, const SegmentIndex::Piece& piece) override;
  std::vector<Loaded> take() override;
  void wait() override { thread_->wait(most_wait_ms); }

 private:
  struct Entry {
    std::string name;
    std::int64_t touched_us = 0;  // when this engine recorded a use; 0: never
  };
  SharedTier(std::unique_ptr<SegmentStore> store, const SharedTierOptions& options);
  bool make_room(std::uint64_t, const std::set<SegmentIndex::Number>&) override { return true; }
  SegmentIndex::Number enter(const Segment& segment) override;
  void forget(SegmentIndex::Number number);
  void take(StoreThread::Loaded& loaded, std::vector<Loaded>& out);
  void take(const StoreThread::Saved& saved);
  void take(const StoreThread::Found& found);
  void take(const StoreThread::Gone& gone);
  void give_up_reads(std::vector<Loaded>& out);

  SharedTierOptions options_;
  std::shared_ptr<StoreThread> thread_;
  std::thread runs_;
  std::map<SegmentIndex::Number, Entry> entries_;
  std::map<std::string, SegmentIndex::Number> numbers_;
  SegmentIndex::Number next_ = 1;
  std::deque<Loaded> reads_;      // without an answer, in their order
  std::uint64_t given_up_ = 0;    // answers to come to reads that were given up
  std::int64_t answered_us_ = 0;  // when the last answer came, or the first read was asked
  bool usable_ = true;
  bool silent_ = false;                 // reads were given up, and nothing has come since
  std::int64_t no_saves_until_us_ = 0;  // a write has failed
};

}  // namespace millrace::engine
