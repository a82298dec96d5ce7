#include "broker/core/readers.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace millrace::broker {

void Readers::fetch(const Asker& asker, Fetch fetch) {
  if (!sessions_.begin(asker.peer, asker.id)) return;
  Reader& reader = readers_[asker.peer];
  reader.waiting.push_back({asker, std::move(fetch)});
  queue(asker.peer, reader);
  serve();
}

void Readers::stalled(const Peer& peer, bool on) {
  const auto found = readers_.find(peer);
  if (found == readers_.end()) return;
  found->second.stalled = on;
  queue(peer, found->second);
  serve();
}

void Readers::tick() {
  std::erase_if(readers_, [&](const auto& item) { return !sessions_.all().contains(item.first); });
}

void Readers::queue(const Peer& peer, Reader& reader) {
  if (reader.in_turn || reader.stalled || reader.waiting.empty()) return;
  reader.in_turn = true;
  turns_.push_back(peer);
}

void Readers::serve() {
  while (reads_ < limits::reads_at_once && !turns_.empty()) {
    const Peer peer = std::move(turns_.front());
    turns_.pop_front();
    const auto found = readers_.find(peer);
    if (found == readers_.end()) continue;
    Reader& reader = found->second;
    if (reader.stalled || reader.waiting.empty()) {
      reader.in_turn = false;
      continue;
    }
    Asked asked = std::move(reader.waiting.front());
    reader.waiting.pop_front();
    read(std::move(asked));
  }
}

std::uint64_t Readers::share_bytes() const {
  // Of a reader that does not read: ZeroMQ holds one answer more than its queue, the backlog holds
  // the first for which there was no room, and one was read before that showed.
  constexpr std::uint64_t answers = limits::client_high_water_mark + 3;
  return std::clamp<std::uint64_t>(limits::unread_bytes_all / (answers * readers_.size()),
                                   limits::least_fetch_bytes, limits::fetch_bytes);
}

void Readers::read(Asked asked) {
  ReadStream read;
  read.tenant = asked.asker.tenant;
  read.stream = asked.fetch.stream;
  read.epoch = std::move(asked.fetch.epoch);
  read.from = asked.fetch.from;
  read.cursor = std::move(asked.fetch.cursor);
  read.max_entries = std::clamp(asked.fetch.max_entries, 1u, limits::fetch_entries);
  read.max_bytes = std::clamp<std::uint64_t>(asked.fetch.max_bytes, 1, share_bytes());
  ++reads_;
  out_.ask_one(std::move(read),
               [this, peer = asked.asker.peer, id = asked.asker.id,
                stream = std::move(asked.fetch.stream)](Result<Reply> reply) mutable {
                 --reads_;
                 sessions_.end(peer);
                 auto* r = reply_as<ReadStreamReply>(reply);
                 if (r == nullptr) {
                   out_.refuse(peer, id, reply_error(reply));
                 } else if (r->trimmed) {
                   out_.send(peer, id, Trimmed{std::move(stream), r->epoch, r->first});
                 } else {
                   out_.send(peer, id,
                             Data{std::move(stream), std::move(r->epoch), r->first, r->high,
                                  std::move(r->entries)});
                 }
                 if (const auto found = readers_.find(peer); found != readers_.end()) {
                   found->second.in_turn = false;
                   queue(peer, found->second);
                 }
                 serve();
               });
}

}  // namespace millrace::broker
