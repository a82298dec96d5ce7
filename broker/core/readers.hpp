#pragma once
// Serves fetches in turns: each reader gets one answer before any gets its next, and a reader that
// does not read its answers gets no more until it does. So whatever readers ask for, few answers
// are in memory at a time, and who reads does not wait for who does not. Thread safety: none.
#include <cstdint>
#include <deque>
#include <map>

#include "broker/core/outbox.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

class Readers {
 public:
  Readers(Outbox& out, Sessions& sessions) : out_(out), sessions_(sessions) {}

  // Answers with Data or Trimmed when its turn has come, or with Refused: overloaded, and the
  // errors of ReadStream.
  void fetch(const Asker& asker, Fetch fetch);
  // Whether answers to this peer wait because it does not read.
  void stalled(const Peer& peer, bool on);
  void tick();  // forgets readers whose sessions have ended

 private:
  struct Asked {
    Asker asker;
    Fetch fetch;
  };
  struct Reader {
    std::deque<Asked> waiting;
    bool in_turn = false;  // it is in `turns_`, or the ledger reads for it
    bool stalled = false;
  };
  void serve();
  void read(Asked asked);
  void queue(const Peer& peer, Reader& reader);  // gives it a turn if it can use one
  // The most bytes of one answer: a fair share of what all readers may leave unread.
  std::uint64_t share_bytes() const;

  Outbox& out_;
  Sessions& sessions_;
  std::map<Peer, Reader> readers_;
  std::deque<Peer> turns_;
  std::uint32_t reads_ = 0;  // with the ledger now
};

}  // namespace millrace::broker
