#pragma once
// Moves pages between the KV pool and the disk tier, beside the engine's steps:
//
//   offer ─▶ device read ─▶ segment file         fetch ─▶ segment file ─▶ device write ─▶ fetched
//
// A transfer is enqueued between two steps and looked at again when a later step has come back, so
// that nothing is waited for. A page is read by nobody before its write has come back.
// Thread safety: the engine's owner thread.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/kv/page_store.hpp"
#include "engine/core/prefix/disk_tier.hpp"
#include "engine/core/prefix/page_transport.hpp"

namespace millrace::engine {

class DiskPages final : public PageStore {
 public:
  // What the prefix tree holds of a path's beginning, now.
  using Held = std::function<std::vector<PageId>(std::span<const TokenId>)>;
  // A fetch is over: so many of its pages, from the first on, are there.
  struct Fetched {
    std::uint64_t ticket = 0;
    std::uint32_t pages = 0;
  };

  // The transport must outlive this.
  DiskPages(std::unique_ptr<DiskTier> tier, const PageKind& kind, PageTransport& transport);
  ~DiskPages() override;
  DiskPages(const DiskPages&) = delete;
  DiskPages& operator=(const DiskPages&) = delete;

  std::uint32_t find(std::span<const TokenId> tokens, std::uint32_t known) override;
  void fetch(std::uint64_t ticket, std::span<const TokenId> tokens, std::uint32_t first,
             std::span<const PageId> pages) override;
  void offer(std::span<const TokenId> tokens) override;

  // Between two steps, before the next one is planned: enqueues the reads of what was offered, and
  // the writes of what has come from the disk. What a plan asks for is so never written before the
  // step of that plan, which may still copy from a page that the plan gave away for it.
  void enqueue(const Held& held);
  std::uint64_t enqueued() const { return enqueued_; }  // transfers so far
  // The first `transfers` of them are done: a step enqueued after them has come back.
  std::vector<Fetched> complete(std::uint64_t transfers);
  // Nothing else is under way: waits until something has come from disk or device.
  std::vector<Fetched> wait(const Held& held);
  std::uint64_t unwritten_bytes() const { return tier_->unwritten_bytes(); }
  bool fetching() const { return !fetches_.empty(); }
  // Enqueues all that was offered and waits for it, before the pages go.
  void flush(const Held& held);

 private:
  struct Fetch {
    std::vector<SegmentIndex::Piece> pieces;
    std::vector<PageId> pages;
    std::size_t asked = 0, arrived = 0, completed = 0;  // pieces
    std::uint32_t written = 0;                          // pages on the device
    std::uint32_t enqueued = 0;                         // pages whose write is enqueued
    bool unread = false, lost = false;  // a piece could not be read, or written to the device
  };
  struct Transfer {
    std::vector<DeviceEvent> events;
    std::vector<char> bytes;
    SegmentIndex::Number saved = 0;  // read for this segment, or else ...
    std::uint64_t ticket = 0;        // ... written for this fetch
    std::uint32_t pages = 0;
  };
  void ask(std::uint64_t ticket, Fetch& fetch);
  void arrive(DiskTier::Loaded loaded);
  // A path that is being saved, as far as that was tried.
  struct Offered {
    Tokens path;
    std::uint32_t tried = 0;  // pages
  };
  bool save_next(const Held& held);
  void tell_too_long(const Offered& offered, std::uint32_t kept);
  void finish(Transfer& transfer);

  std::unique_ptr<DiskTier> tier_;
  PageKind kind_;
  PageTransport* transport_;
  std::uint32_t most_pages_;  // of a segment
  std::deque<Offered> offered_;
  bool told_too_long_ = false;
  std::map<std::uint64_t, Fetch> fetches_;
  std::deque<Transfer> transfers_;
  std::uint64_t enqueued_ = 0, completed_ = 0;
};

}  // namespace millrace::engine
