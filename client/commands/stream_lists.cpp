#include "client/commands/stream_lists.hpp"

#include <cstdio>
#include <utility>

#include "client/commands/times.hpp"
#include "schemas/json_fields.hpp"

namespace millrace::client {
Result<std::vector<StreamState>> ask_streams(const BrokerFlags& broker, bool json) {
  std::vector<StreamState> all;
  for (bool more = true; more;) {
    const std::string after = all.empty() ? "" : all.back().stream;
    MILLRACE_ASSIGN(StreamsAnswer answer,
                    ask_broker<StreamsAnswer>(broker, StreamsRequest{"", after}, json));
    more = answer.more && !answer.streams.empty();
    for (StreamState& stream : answer.streams) {
      all.push_back(std::move(stream));
    }
  }
  return all;
}

Result<StreamState> ask_stream(const BrokerFlags& broker, const std::string& stream, bool json) {
  MILLRACE_ASSIGN(StreamsAnswer answer,
                  ask_broker<StreamsAnswer>(broker, StreamsRequest{stream, ""}, json));
  if (answer.streams.size() != 1) {
    return fail(Code::internal, "the broker answered " + std::to_string(answer.streams.size()) +
                                    " streams instead of one");
  }
  return std::move(answer.streams.front());
}

Result<std::vector<CursorState>> ask_cursors(const BrokerFlags& broker, const std::string& stream,
                                             bool json) {
  MILLRACE_ASSIGN(CursorsAnswer answer,
                  ask_broker<CursorsAnswer>(broker, CursorsRequest{stream}, json));
  return std::move(answer.cursors);
}

ListRow cursor_row(const StreamState& stream, const CursorState& cursor) {
  const std::uint64_t behind = stream.high - std::min(stream.high, cursor.number);
  std::string line;
  JsonWriter out(line);
  out.begin_object().field("stream", stream.stream);
  write_fields(out, cursor);
  out.field("behind", behind).end_object();
  return {.id = cursor.cursor,
          .text = "cursor " + cursor.cursor + " of stream " + stream.stream + ": at " +
                  std::to_string(cursor.number) + ", " + std::to_string(behind) +
                  " behind, last moved " + time_text(cursor.moved_us),
          .cells = {stream.stream, cursor.cursor, std::to_string(cursor.number),
                    std::to_string(behind), time_text(cursor.moved_us)},
          .json = std::move(line)};
}

void print_cursor(const StreamState& stream, const CursorState& cursor, bool json) {
  const ListRow row = cursor_row(stream, cursor);
  std::printf("%s\n", json ? row.json.c_str() : printable_name(row.text).c_str());
}

}  // namespace millrace::client
