#pragma once
// What `millrace streams` and `millrace cursors` share: asking the broker for streams and cursors,
// and printing a cursor. Errors: the broker's, such as not_found. Thread safety: the main thread.
#include <string>
#include <vector>

#include "client/commands/command.hpp"
#include "client/commands/list_output.hpp"

namespace millrace::client {

Result<std::vector<StreamState>> ask_streams(const BrokerFlags& broker, bool json);  // by name
Result<StreamState> ask_stream(const BrokerFlags& broker, const std::string& stream, bool json);
Result<std::vector<CursorState>> ask_cursors(const BrokerFlags& broker, const std::string& stream,
                                             bool json);

// `stream` tells how far the cursor is behind.
ListRow cursor_row(const StreamState& stream, const CursorState& cursor);
void print_cursor(const StreamState& stream, const CursorState& cursor, bool json);

}  // namespace millrace::client
