#pragma once
// What goes into the broker's state machine and what comes out of it. Nothing here knows sockets,
// threads or clocks: the server and the simulator both speak these values.
// Thread safety: plain values.
#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "broker/ledger/ledger.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

// Two clocks, because they answer two questions: how long something has been silent (monotonic,
// any origin), and what time it is for people and for the ledger (Unix). Both in microseconds.
struct Now {
  std::int64_t mono_us = 0;
  std::int64_t unix_us = 0;
};

enum class Endpoint : std::uint8_t { client, engine, push };

// One connection as the sockets see it. `route` is the ROUTER's routing id; empty for `push`, which
// is one-way.
struct Peer {
  Endpoint endpoint = Endpoint::client;
  std::string route;
  friend bool operator==(const Peer&, const Peer&) = default;
  friend bool operator<(const Peer& a, const Peer& b) {
    return std::tie(a.endpoint, a.route) < std::tie(b.endpoint, b.route);
  }
};

// ---- in
struct Start {};   // once, first
struct Received {  // a frame that decoded
  Peer peer;
  Envelope envelope;
  std::uint64_t bytes = 0;  // of the frame
};
struct Malformed {  // a frame that did not
  Peer peer;
  std::uint64_t id = 0;  // where it could still be read
  Error error;
};
struct PeerGone {  // a message found no route
  Peer peer;
};
struct Completed {  // the durable answer to a LedgerRequest, one reply an operation
  std::uint64_t ticket = 0;
  std::vector<Result<Reply>> replies;
};
struct Tick {};          // a few times a second
struct Drain {           // begin to stop
  bool engines = false;  // tell the engines to leave as well
  bool at_once = false;  // wait for commits, not for leased jobs
};
struct EngineDied {  // the supervisor saw the process end; its instance id or name, empty: all
  std::string engine;
};
using Event =
    std::variant<Start, Received, Malformed, PeerGone, Completed, Tick, Drain, EngineDied>;

// ---- out
struct LedgerRequest {
  std::uint64_t ticket = 0;
  std::vector<Operation> operations;
};
struct Outgoing {
  Peer peer;
  Envelope envelope;
};
struct Ring {  // doorbell: the stream's last number, after its commit
  std::string stream, epoch;
  std::uint64_t high = 0;
};
enum class NoteLevel : std::uint8_t { info, warning, error };
struct Note {  // for the log
  NoteLevel level = NoteLevel::info;
  std::string text;
};
struct Actions {
  std::vector<LedgerRequest> ledger;
  std::vector<Outgoing> messages;
  std::vector<Ring> rings;
  std::vector<Note> notes;
  std::vector<EngineInfo> joined;  // engines that said hello
  std::vector<std::string> hung;   // and of those whose process should be ended by who owns it
};

}  // namespace millrace::broker
