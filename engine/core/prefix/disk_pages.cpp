#include "engine/core/prefix/disk_pages.hpp"

#include <algorithm>
#include <utility>

#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

// Limits a segment of pages, and so the bytes that are read from the device before a step. A state
// is read at once.
constexpr std::uint64_t most_segment_bytes = 8 * limits::MiB;

// A segment is at most one part in so many of the tier, so that old pages are removed bit by bit.
constexpr std::uint64_t least_segments = 8;

// Pieces of a fetch that are read ahead.
constexpr std::size_t most_asked = 8;

// Most paths that wait to be saved. Others are offered again when they are used next.
constexpr std::size_t most_offered = 256;

}  // namespace

DiskPages::DiskPages(std::unique_ptr<SegmentTier> tier, const PageKind& kind,
                     PageTransport& transport, std::size_t groups)
    : tier_(std::move(tier)),
      kind_(kind),
      transport_(&transport),
      groups_(groups),
      most_pages_(static_cast<std::uint32_t>(std::max<std::uint64_t>(
          1, std::min(most_segment_bytes, tier_->most_bytes() / least_segments) /
                 std::max<std::uint64_t>(1, kind.page_bytes)))) {}

// The device still writes into the transfers' bytes.
DiskPages::~DiskPages() {
  for (const Transfer& transfer : transfers_) {
    static_cast<void>(transport_->wait(transfer.events));
  }
}

std::uint32_t DiskPages::find(std::span<const TokenId> tokens, std::uint32_t known) {
  return tier_->find(tokens, known);
}

void DiskPages::fetch(std::uint64_t ticket, std::span<const TokenId> tokens, std::uint32_t first,
                      std::span<const PageId> pages, PageId state) {
  Fetch& fetch = fetches_[ticket];
  fetch.pieces = tier_->index().pieces(tokens, first);
  fetch.pages.assign(pages.begin(), pages.end());
  fetch.state = state;
  ask(ticket, fetch);
}

void DiskPages::ask(std::uint64_t ticket, Fetch& fetch) {
  while (fetch.asked < fetch.pieces.size() && fetch.asked < fetch.arrived + most_asked) {
    tier_->load(ticket, fetch.pieces[fetch.asked++]);
  }
}

void DiskPages::offer(std::span<const TokenId> tokens) {
  const auto whole = tokens.first(tokens.size() / kind_.page_tokens * kind_.page_tokens);
  SegmentIndex& index = tier_->index();
  const bool saved =
      index.first_missing(whole) * kind_.page_tokens == whole.size() && index.has_state(whole);
  if (saved || offered_.size() >= most_offered) return;
  const auto same = [&](const Offered& other) { return std::ranges::equal(other.path, whole); };
  if (std::ranges::any_of(offered_, same)) return;
  offered_.push_back({.path = Tokens(whole.begin(), whole.end())});
}

void DiskPages::enqueue(const Held& held) {
  for (SegmentTier::Loaded& loaded : tier_->take()) arrive(std::move(loaded));
  while (!offered_.empty() && tier_->accepts()) {
    if (save_next(held)) return;  // one a step
  }
}

// Saves the next part of the first offered path, or leaves it until there is room. False: no part
// of it is left to save. No part is tried twice: one that is missing again was lost on the way, and
// may be offered again.
bool DiskPages::save_next(const Held& held) {
  Offered& offered = offered_.front();
  const HeldPages here = held(offered.path);
  const auto known = static_cast<std::uint32_t>(here.pages.size() / groups_);
  const auto part = next_part(offered, known);
  const auto place = part ? reserve(offered, *part, known) : SegmentTier::Place();
  if (place.later) return true;
  if (place.number == 0) {
    if (part) tell_too_long(offered, part->first);
    offered_.pop_front();
    return false;
  }
  offered.tried = part->end;
  offered.tried_state = part->is_state();
  if (read(place.number, here, *part)) return true;
  offered_.pop_front();
  return false;
}

// The next part that is not saved of the `known` pages that the tree has, and of the state after
// them; none if it was tried.
std::optional<DiskPages::Part> DiskPages::next_part(const Offered& offered, std::uint32_t known) {
  const std::uint32_t first = tier_->index().first_missing(offered.path);
  if (first < known) {
    if (first < offered.tried) return std::nullopt;
    return Part{first, std::min(first + most_pages_, known)};
  }
  const auto path = std::span(offered.path).first(std::size_t{known} * kind_.page_tokens);
  if (known == 0 || offered.tried_state || tier_->index().has_state(path)) return std::nullopt;
  return Part{known, known};
}

SegmentTier::Place DiskPages::reserve(const Offered& offered, const Part& part,
                                      std::uint32_t known) {
  const auto tokens = [&](std::uint32_t pages) {
    return std::span(offered.path).first(std::size_t{pages} * kind_.page_tokens);
  };
  if (kind_.state_bytes > 0 && !tier_->holds(tokens(known), part.first)) return {};
  Tokens path(tokens(part.end).begin(), tokens(part.end).end());
  if (part.is_state()) return tier_->reserve_state(std::move(path));
  return tier_->reserve(std::move(path), part.first);
}

// Enqueues the read of a part from the device.
bool DiskPages::read(SegmentIndex::Number number, const HeldPages& from, const Part& part) {
  Transfer transfer;
  transfer.saved = number;
  transfer.pages = part.end - part.first;
  transfer.bytes.resize(part.is_state() ? kind_.state_bytes : transfer.pages * kind_.page_bytes);
  auto events = part.is_state() ? transport_->read_state(from.state, transfer.bytes)
                                : transport_->read_pages(
                                      ids(from.pages, part.first, transfer.pages), transfer.bytes);
  if (!events) {
    log_warn("pages cannot be saved", events.error());
    tier_->abandon(number);
    return false;
  }
  transfer.events = *std::move(events);
  transfers_.push_back(std::move(transfer));
  ++enqueued_;
  return true;
}

void DiskPages::tell_too_long(const Offered& offered, std::uint32_t kept) {
  if (std::exchange(told_too_long_, true)) return;
  if (kind_.state_bytes > 0) {
    log_warn("a prefix and the state after it are too large for --prefix-disk: it is not kept",
             {{"tokens", offered.path.size()}, {"state_bytes", kind_.state_bytes}});
    return;
  }
  log_warn("a prefix is too long for --prefix-disk: only its beginning is kept",
           {{"tokens", offered.path.size()}, {"kept", std::size_t{kept} * kind_.page_tokens}});
}

// Pieces arrive in the order in which they were requested.
void DiskPages::arrive(SegmentTier::Loaded loaded) {
  Fetch& fetch = fetches_.at(loaded.ticket);
  ++fetch.arrived;
  if (loaded.bytes.empty()) fetch.unread = true;
  Transfer transfer;
  transfer.ticket = loaded.ticket;
  if (!fetch.unread) {
    transfer.bytes = std::move(loaded.bytes);
    if (auto events = write(fetch, loaded.piece, transfer.bytes)) {
      transfer.events = *std::move(events);
      transfer.state = loaded.piece.state;
      transfer.pages = transfer.state ? 0 : loaded.piece.count;
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

Result<std::vector<DeviceEvent>> DiskPages::write(const Fetch& fetch,
                                                  const SegmentIndex::Piece& piece,
                                                  std::span<const char> bytes) {
  if (piece.state) return transport_->write_state(fetch.state, bytes);
  return transport_->write_pages(ids(fetch.pages, fetch.enqueued, piece.count), bytes);
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
    out.push_back({transfer.ticket, found->second.written, found->second.has_state});
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
  if (fetch.lost) return;
  fetch.written += transfer.pages;
  if (!transfer.state) return;
  // It is the last to come. Pages of no bytes are in no piece.
  fetch.has_state = true;
  fetch.written = static_cast<std::uint32_t>(fetch.pages.size() / groups_);
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
