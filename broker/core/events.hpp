#pragma once
// The events that the broker's state machine takes and the actions that it returns. Nothing here
// knows sockets, threads or clocks: the server and the simulator use the same values.
// Thread safety: plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "broker/core/config.hpp"
#include "broker/ledger/ledger.hpp"
#include "schemas/keys/grants.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

// The time by two clocks, in microseconds. The monotonic clock, whose origin is arbitrary, measures
// how long something has been silent; the Unix clock gives the time that people and the ledger see.
struct Now {
  std::int64_t mono_us = 0;
  std::int64_t unix_us = 0;
};

enum class Endpoint : std::uint8_t { client, engine, push };

// One connection to the broker. `route` is the ROUTER's routing id; it is empty for `push`, which
// is one-way.
struct Peer {
  Endpoint endpoint = Endpoint::client;
  std::string route;
  friend bool operator==(const Peer&, const Peer&) = default;
  friend bool operator<(const Peer& a, const Peer& b) {
    return std::tie(a.endpoint, a.route) < std::tie(b.endpoint, b.route);
  }
};

// ---- events
struct Start {};   // the first event, exactly once
struct Received {  // a frame that decoded
  Peer peer;
  Envelope envelope;
  std::uint64_t bytes = 0;  // of the frame
  std::string key{};        // the public key of its connection; empty: there are no keys
};
struct Malformed {  // a frame that did not decode
  Peer peer;
  std::uint64_t id = 0;  // 0 where it could not be read
  Error error;
  std::string key{};  // as in Received
};
struct PeerGone {  // the peer cannot be reached
  Peer peer;
  bool unread = false;  // it does not read its answers, and those that waited for it were dropped
};
struct Stalled {  // answers to this client wait because it does not read; or no longer
  Peer peer;
  bool on = true;
};
struct Completed {  // the durable answer to a LedgerRequest: one reply for each operation
  std::uint64_t ticket = 0;
  std::vector<Result<Reply>> replies;
};
struct Tick {};          // comes a few times a second
struct Drain {           // begins an orderly stop
  bool engines = false;  // tells the engines to leave as well
  bool at_once = false;  // waits for commits, but not for leased jobs
};
struct CutShort {};     // the owner must end the broker now, whatever has no answer yet
struct GrantsChanged {  // replaces CoreConfig::grants; sessions of keys that changed end
  std::vector<Grant> grants;
};
struct Retune {  // replaces the part of CoreConfig that may change
  CoreTuning tuning;
};
struct EngineDied {    // the supervisor saw an engine process end
  std::string engine;  // its instance id or name; empty: all engines
};
using Event = std::variant<Start, Received, Malformed, PeerGone, Stalled, Completed, Tick, Drain,
                           CutShort, GrantsChanged, Retune, EngineDied>;

// ---- actions
struct LedgerRequest {
  std::uint64_t ticket = 0;
  std::vector<Operation> operations;
};
struct Outgoing {
  Peer peer;
  Envelope envelope;
};
// What comes before the stream's name in a topic of the doorbell: without keys nothing, with keys
// the tenant, so that nobody hears of the streams of others.
inline std::string doorbell_prefix(const std::string& tenant, bool keyed) {
  return keyed ? tenant + "/" : "";
}
struct Ring {  // a doorbell announcement: the stream's last number, after its commit
  std::string tenant, stream, epoch;
  std::uint64_t high = 0;
};
// An `audit` note says what an administrator did; the log holds it at every level.
enum class NoteLevel : std::uint8_t { info, warning, error, audit };
struct Note {  // a line for the log
  NoteLevel level = NoteLevel::info;
  std::string text;
};
// What happens to a job between its submission and its end, for those that trace jobs. Told only
// where CoreConfig::tell_jobs is set. `given_back` also where it runs again after an engine's
// error; `partial` for the first text of a lease alone.
enum class JobStep : std::uint8_t { leased, given_back, partial, ended };
struct JobNews {
  JobStep step = JobStep::leased;
  std::string tenant, job;
  std::string engine{};              // of `leased`: its name
  std::uint32_t attempt = 0;         // of `leased`
  std::optional<FinishReply> end{};  // of `ended`
};
struct Actions {
  std::vector<LedgerRequest> ledger;
  std::vector<Outgoing> messages;
  std::vector<Ring> rings;
  std::vector<Note> notes;
  std::vector<EngineInfo> joined;  // engines that said hello
  std::vector<std::string> hung;   // names of hung engines: the owner should end their processes
  std::vector<JobNews> jobs{};
};

}  // namespace millrace::broker
