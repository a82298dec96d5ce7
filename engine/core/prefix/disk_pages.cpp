#include "engine/core/prefix/disk_pages.hpp"

#include <algorithm>
#include <utility>

#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

// Limits a segment, and the bytes that are read from the device before a step.
constexpr std::uint64_t most_segment_bytes = 8 * limits::MiB;

// A segment is at most one part in so many of the tier, so that old pages are removed bit by bit.
constexpr std::uint64_t least_segments = 8;

// Pieces of a fetch that are read ahead.
constexpr std::size_t most_asked = 8;

// Most paths that wait to be saved. Others are offered again when they are used next.
constexpr std::size_t most_offered = 256;

}  // namespace

DiskPages::DiskPages(std::unique_ptr<DiskTier> tier, const PageKind& kind, PageTransport& transport,
                     std::size_t groups)
    : tier_(std::move(tier)),
      kind_(kind),
      transport_(&transport),
      groups_(groups),
      most_pages_(static_cast<std::uint32_t>(std::max<std::uint64_t>(
          1,
          std::min(most_segment_bytes, tier_->most_bytes() / least_segments) / kind.page_bytes))) {}

// The device still writes into the transfers' bytes.
DiskPages::~DiskPages() {
  for (const Transfer& transfer : transfers_) {
    static_cast<void>(transport_->wait(transfer.events));
  }
}

std::uint32_t DiskPages::find(std::span<const TokenId> tokens, std::uint32_t known) {
  for (const auto& piece : tier_->index().find(tokens, known)) known += piece.count;
  return known;
}

void DiskPages::fetch(std::uint64_t ticket, std::span<const TokenId> tokens, std::uint32_t first,
                      std::span<const PageId> pages) {
  Fetch& fetch = fetches_[ticket];
  fetch.pieces = tier_->index().find(tokens, first);
  fetch.pages.assign(pages.begin(), pages.end());
  ask(ticket, fetch);
}

void DiskPages::ask(std::uint64_t ticket, Fetch& fetch) {
  while (fetch.asked < fetch.pieces.size() && fetch.asked < fetch.arrived + most_asked) {
    tier_->load(ticket, fetch.pieces[fetch.asked++]);
  }
}

void DiskPages::offer(std::span<const TokenId> tokens) {
  const auto whole = tokens.first(tokens.size() / kind_.page_tokens * kind_.page_tokens);
  const bool saved = tier_->index().first_missing(whole) * kind_.page_tokens == whole.size();
  if (saved || offered_.size() >= most_offered) return;
  const auto same = [&](const Offered& other) { return std::ranges::equal(other.path, whole); };
  if (std::ranges::any_of(offered_, same)) return;
  offered_.push_back({.path = Tokens(whole.begin(), whole.end())});
}

void DiskPages::enqueue(const Held& held) {
  for (DiskTier::Loaded& loaded : tier_->take()) arrive(std::move(loaded));
  while (!offered_.empty() && tier_->accepts()) {
    if (save_next(held)) return;  // one a step
  }
}

// Saves the next part of the first offered path, or leaves it until there is room. False: no part
// of it is left to save. No part is tried twice: one that is missing again was lost on the way, and
// may be offered again.
bool DiskPages::save_next(const Held& held) {
  Offered& offered = offered_.front();
  const std::vector<PageId> pages = held(offered.path);
  const auto known = static_cast<std::uint32_t>(pages.size() / groups_);
  const std::uint32_t first = tier_->index().first_missing(offered.path);
  if (first >= known || first < offered.tried) {
    offered_.pop_front();
    return false;
  }
  const std::uint32_t end = std::min(first + most_pages_, known);
  const auto tokens = std::span(offered.path).first(std::size_t{end} * kind_.page_tokens);
  const auto [number, later] = tier_->reserve(Tokens(tokens.begin(), tokens.end()), first);
  if (later) return true;
  if (number == 0) {
    tell_too_long(offered, first);
    offered_.pop_front();
    return false;
  }
  offered.tried = end;
  Transfer transfer;
  transfer.pages = end - first;
  transfer.bytes.resize(transfer.pages * kind_.page_bytes);
  auto events = transport_->read_pages(ids(pages, first, transfer.pages), transfer.bytes);
  if (!events) {
    log_warn("pages cannot be saved", events.error());
    tier_->abandon(number);
    offered_.pop_front();
    return false;
  }
  transfer.events = *std::move(events);
  transfer.saved = number;
  transfers_.push_back(std::move(transfer));
  ++enqueued_;
  return true;
}

void DiskPages::tell_too_long(const Offered& offered, std::uint32_t kept) {
  if (std::exchange(told_too_long_, true)) return;
  log_warn("a prefix is too long for --prefix-disk: only its beginning is kept",
           {{"tokens", offered.path.size()}, {"kept", std::size_t{kept} * kind_.page_tokens}});
}

// Pieces arrive in the order in which they were requested.
void DiskPages::arrive(DiskTier::Loaded loaded) {
  Fetch& fetch = fetches_.at(loaded.ticket);
  ++fetch.arrived;
  if (loaded.bytes.empty()) fetch.unread = true;
  Transfer transfer;
  transfer.ticket = loaded.ticket;
  if (!fetch.unread) {
    const auto pages = ids(fetch.pages, fetch.enqueued, loaded.piece.count);
    transfer.bytes = std::move(loaded.bytes);
    if (auto events = transport_->write_pages(pages, transfer.bytes)) {
      transfer.events = *std::move(events);
      transfer.pages = loaded.piece.count;
      fetch.enqueued += transfer.pages;
    } else {
      log_warn("pages from disk cannot be written to the device", events.error());
      fetch.unread = true;
    }
  }
  if (fetch.unread) fetch.pieces.resize(fetch.asked);  // requests no more
  ask(loaded.ticket, fetch);
  transfers_.push_back(std::move(transfer));
  ++enqueued_;
}

std::vector<DiskPages::Fetched> DiskPages::complete(std::uint64_t transfers) {
  std::vector<Fetched> out;
  for (; completed_ < transfers; ++completed_) {
    Transfer transfer = std::move(transfers_.front());
    transfers_.pop_front();
    finish(transfer);
    if (transfer.saved != 0) continue;
    const auto found = fetches_.find(transfer.ticket);
    if (++found->second.completed < found->second.pieces.size()) continue;
    out.push_back({transfer.ticket, found->second.written});
    fetches_.erase(found);
  }
  return out;
}

void DiskPages::finish(Transfer& transfer) {
  const Status status = transport_->wait(transfer.events);
  if (!status) log_warn("pages were lost on the way to or from the disk", status.error());
  if (transfer.saved != 0) {
    if (status) {
      tier_->save(transfer.saved, std::move(transfer.bytes));
    } else {
      tier_->abandon(transfer.saved);
    }
    return;
  }
  Fetch& fetch = fetches_.at(transfer.ticket);
  if (!status) fetch.lost = true;
  if (!fetch.lost) fetch.written += transfer.pages;
}

std::vector<DiskPages::Fetched> DiskPages::wait(const Held& held) {
  if (transfers_.empty()) tier_->wait();
  enqueue(held);
  return complete(enqueued_);
}

void DiskPages::flush(const Held& held) {
  while (!offered_.empty() && !tier_->has_failed()) {
    const std::uint64_t before = enqueued_;
    enqueue(held);
    const bool waits = enqueued_ == before && !offered_.empty();
    complete(enqueued_);
    if (waits) tier_->wait();  // until the thread has written some of it
  }
}

}  // namespace millrace::engine
