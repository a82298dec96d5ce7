#pragma once
// Moves pages and states between the pools and a tier of segments, beside the engine's steps:
//
//   offer ─▶ device read ─▶ segment file         fetch ─▶ segment file ─▶ device write ─▶ fetched
//
// A transfer is enqueued between two steps, and taken as done when a later step has come back, so
// that nothing waits. No sequence reads a page before its write has come back.
//
// Of a model with states a path is saved up to the last page after which the tree has a state:
// first its pages, then that state. So each offer saves one state at most: the one at the end of a
// system prompt, or the one from which a second sequence goes on. A fetch ends with a state.
// Thread safety: the engine's owner thread.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/kv/page_store.hpp"
#include "engine/core/prefix/page_transport.hpp"
#include "engine/core/prefix/segment_tier.hpp"

namespace millrace::engine {

class DiskPages final : public PageStore {
 public:
  // Returns what the prefix tree holds whole now of a path's beginning.
  using Held = std::function<HeldPages(std::span<const TokenId>)>;
  // The end of a fetch: the number of its pages, from the first on, that were written, and whether
  // the state after all of them was, too.
  struct Fetched {
    std::uint64_t ticket = 0;
    std::uint32_t pages = 0;
    bool state = false;
  };

  // The transport must outlive this. A page has an id in each of so many cache groups.
  DiskPages(std::unique_ptr<SegmentTier> tier, const PageKind& kind, PageTransport& transport,
            std::size_t groups = 1);
  ~DiskPages() override;
  DiskPages(const DiskPages&) = delete;
  DiskPages& operator=(const DiskPages&) = delete;

  std::uint32_t find(std::span<const TokenId> tokens, std::uint32_t known) override;
  void fetch(std::uint64_t ticket, std::span<const TokenId> tokens, std::uint32_t first,
             std::span<const PageId> pages, PageId state) override;
  void offer(std::span<const TokenId> tokens) override;

  // Call this between two steps, before the next one is planned. It enqueues the reads of offered
  // pages and the writes of pages that have come from the disk. So pages that a plan fetches are
  // never written before that plan's step, which may still copy from one of them.
  void enqueue(const Held& held);
  std::uint64_t enqueued() const { return enqueued_; }  // number of transfers so far
  // Says that the first `transfers` transfers are done, because a step that was enqueued after them
  // has come back. Returns the fetches that have ended.
  std::vector<Fetched> complete(std::uint64_t transfers);
  // Waits until something has come from disk or device. Call this when no step is running.
  std::vector<Fetched> wait(const Held& held);
  std::uint64_t unwritten_bytes() const { return tier_->unwritten_bytes(); }
  bool fetching() const { return !fetches_.empty(); }
  // Saves all offered pages and waits for that. Call this before the pages are destroyed.
  void flush(const Held& held);

 private:
  struct Fetch {
    std::vector<SegmentIndex::Piece> pieces;
    std::vector<PageId> pages;                          // one id of each group for a page
    PageId state = no_page;                             // where the state after them goes
    std::size_t asked = 0, arrived = 0, completed = 0;  // numbers of pieces
    std::uint32_t written = 0;                          // pages on the device
    std::uint32_t enqueued = 0;                         // pages whose write is enqueued
    bool unread = false, lost = false;  // a piece could not be read, or written to the device
    bool has_state = false;             // the state is on the device
  };
  struct Transfer {
    std::vector<DeviceEvent> events;
    std::vector<char> bytes;
    SegmentIndex::Number saved = 0;  // the segment that a read is for; 0: it is a write ...
    std::uint64_t ticket = 0;        // ... for this fetch
    std::uint32_t pages = 0;
    bool state = false;  // it is a state
  };
  // The ids of some pages.
  std::span<const PageId> ids(std::span<const PageId> pages, std::uint32_t first,
                              std::uint32_t count) const {
    return pages.subspan(first * groups_, count * groups_);
  }
  void ask(std::uint64_t ticket, Fetch& fetch);
  void arrive(SegmentTier::Loaded loaded);
  Result<std::vector<DeviceEvent>> write(const Fetch& fetch, const SegmentIndex::Piece& piece,
                                         std::span<const char> bytes);
  // A path that is being saved.
  struct Offered {
    Tokens path;
    std::uint32_t tried = 0;  // pages for which a save was tried
    bool tried_state = false;
  };
  // Pages [first, end) of it, or, if there are none, the state after page `end`.
  struct Part {
    std::uint32_t first = 0, end = 0;
    bool is_state() const { return first == end; }
  };
  bool save_next(const Held& held);
  std::optional<Part> next_part(const Offered& offered, std::uint32_t known);
  SegmentTier::Place reserve(const Offered& offered, const Part& part, std::uint32_t known);
  bool read(SegmentIndex::Number number, const HeldPages& from, const Part& part);
  void tell_too_long(const Offered& offered, std::uint32_t kept);
  void finish(Transfer& transfer);

  std::unique_ptr<SegmentTier> tier_;
  PageKind kind_;
  PageTransport* transport_;
  std::size_t groups_;
  std::uint32_t most_pages_;  // in a segment
  std::deque<Offered> offered_;
  bool told_too_long_ = false;
  std::map<std::uint64_t, Fetch> fetches_;
  std::deque<Transfer> transfers_;
  std::uint64_t enqueued_ = 0, completed_ = 0;
};

}  // namespace millrace::engine
