#pragma once
// What can be measured of a running broker at one moment, as plain values: what its parts have
// counted since the start, and what the ledger holds. Thread safety: plain values.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/config.hpp"
#include "broker/core/tally.hpp"
#include "broker/ledger/ledger_thread.hpp"

namespace millrace::broker {

// What the ledger holds. Only so many tenants, streams and cursors are listed, the first by name.
inline constexpr std::size_t measured_streams = 200, measured_cursors = 500;

struct StreamMeasures {
  StreamInfo stream;
  std::vector<CursorInfo> cursors;
};
struct TenantMeasures {
  std::string tenant;
  JobCounts jobs;
  std::optional<std::int64_t> oldest_us;  // as in CountReply
  BatchCounts batches;
  std::vector<ModelQueue> waiting;  // as in CountReply
  std::vector<StreamMeasures> streams;
};
struct LedgerMeasures {
  std::size_t tenants = 0;             // all that there are
  std::vector<TenantMeasures> listed;  // of these
};

struct StoreMeasures {  // in bytes
  std::uint64_t file = 0, log = 0, free = 0;
};

struct Measures {
  std::int64_t now_us = 0;  // Unix time
  CoreCounters core;
  Tally tally;
  LedgerStatistics ledger;
  LedgerMeasures held;
  std::optional<StoreMeasures> store;  // none: the ledger is in memory
  std::map<std::string, std::uint64_t>
      leased_tokens;  // by model, as the broker's engines hold them
  std::size_t client_sessions = 0, engine_sessions = 0;
  std::uint64_t dropped_messages = 0;
  std::uint64_t spans_sent = 0, spans_dropped = 0;         // of traces
  std::uint64_t refused_keys = 0, refused_handshakes = 0;  // connections
};

}  // namespace millrace::broker
