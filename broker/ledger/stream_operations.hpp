#pragma once
// The operations of the ledger on streams, their entries and cursors: reading, naming, and keeping
// only so much. ledger.hpp says what holds for all operations. Thread safety: plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/ledger/retention.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

// Reads entries of a stream from number `from` on; `from` 0 starts after the named cursor. If the
// first number wanted is no longer kept, the reply has no entries and `trimmed` is set. With
// max_entries 0 the reply has the numbers only. A stream without any entry yet has first 1, high 0.
// Refused: epoch_changed, ledger_corrupt (the first entry wanted is damaged).
struct ReadStream {
  std::string tenant, stream;
  std::string epoch;  // empty: any
  std::uint64_t from = 1;
  std::string cursor;
  std::uint32_t max_entries = limits::fetch_entries;
  std::uint64_t max_bytes = limits::fetch_bytes;  // of bodies; the first entry may exceed it
};
struct ReadStreamReply {
  std::string epoch;
  std::uint64_t first = 1, high = 0;
  bool trimmed = false;
  std::vector<Entry> entries;
};

// A stream as it is listed. `set` has the limits that were given to it.
struct StreamInfo {
  std::string stream;
  std::uint64_t first = 1, high = 0;  // first number kept, last number written
  std::uint64_t bytes = 0;            // of the bodies that are stored
  std::uint64_t cursors = 0;
  StreamLimits set{};
};
struct StreamReply {
  std::string epoch;
  StreamInfo stream;
};

// Streams whose names come after `after`, in order, without reserved ones and without those that
// hold neither entries nor cursors nor limits of their own.
struct ListStreams {
  std::string tenant, after;
  std::uint32_t max_streams = limits::listed;
};
struct ListStreamsReply {
  std::string epoch;
  std::vector<StreamInfo> streams;
  bool more = false;  // further ones come after the last of these
};
struct GetStream {  // refused: not_found
  std::string tenant, stream;
};

// Moves a cursor forward, and makes it where it does not exist. A smaller number changes nothing,
// but renews the cursor's age. Refused: not_found (no such stream), invalid_value (past the
// stream's end), limit_exceeded (limits::cursors_per_stream).
struct MoveCursor {
  std::string tenant, stream, cursor;
  std::uint64_t number = 0;
};
struct MoveCursorReply {
  std::uint64_t number = 0;  // the cursor's number now
};

struct ListCursors {  // of one stream, by name; refused: not_found (no such stream)
  std::string tenant, stream;
};
struct CursorInfo {
  std::string cursor;
  std::uint64_t number = 0;   // last number that its reader has acknowledged
  std::int64_t moved_us = 0;  // when it was last moved or renewed, Unix time
};
struct ListCursorsReply {
  std::vector<CursorInfo> cursors;
};
// Each of these answers with a StreamReply. None takes longer for a longer stream: `Retain` deletes
// what is no longer kept. Refused: not_found; invalid_value (a reserved stream).
//
// Makes `first` the first number kept; a smaller one changes nothing. The records of jobs stay, so
// that their ids stay known. Refused also: invalid_value (past the stream's next number).
struct TrimStream {
  std::string tenant, stream;
  std::uint64_t first = 0;
};
struct RemoveCursor {
  std::string tenant, stream, cursor;
};
// Removes a stream's entries, cursors and limits. Its numbers go on where they ended: a reader that
// comes back is told `trimmed`, and takes no new entry for one it knows.
struct RemoveStream {
  std::string tenant, stream;
};
// Sets all limits of a stream; absent ones are the defaults. The stream need not exist yet.
struct KeepStream {
  std::string tenant, stream;
  StreamLimits set;
};

// Deletes what is no longer kept, of all tenants: one step of at most `max_rows` entries and jobs.
// A pass over all streams takes several steps, each of which begins where the one before ended.
// A job that is forgotten leaves the counts of its batch; a batch goes with its last job.
struct StreamPlace {
  std::string tenant, stream;
};
struct Retain {
  RetentionPolicy policy;
  StreamPlace after{};  // the first step of a pass has none
  std::uint32_t max_rows = limits::retention_rows;
};
struct RetainReply {
  bool more = false;                                 // the pass goes on
  StreamPlace after{};                               // of its next step
  std::uint64_t entries = 0, jobs = 0, cursors = 0;  // deleted
};

}  // namespace millrace::broker
