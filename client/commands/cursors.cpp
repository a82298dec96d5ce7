// `millrace cursors`: lists and removes the named positions of readers.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "client/commands/stream_lists.hpp"

namespace millrace::client {
namespace {

struct Flags {
  BrokerFlags broker;
  std::string stream, cursor;
  ListFlags list;
};

Result<std::vector<StreamState>> streams_of(const Flags& flags, bool json) {
  if (flags.stream.empty()) {
    return ask_streams(flags.broker, json);
  }
  MILLRACE_ASSIGN(StreamState one, ask_stream(flags.broker, flags.stream, json));
  return std::vector<StreamState>{std::move(one)};
}

int list(const Flags& flags, bool json) {
  const auto streams = streams_of(flags, json);
  if (!streams) {
    return report_error(streams.error(), json);
  }
  ListOutput out(flags.list, json, {"STREAM", "CURSOR", "NUMBER", "BEHIND", "MOVED"});
  for (const StreamState& stream : *streams) {
    if (stream.cursors == 0) {
      continue;
    }
    const auto cursors = ask_cursors(flags.broker, stream.stream, json);
    if (!cursors) {
      return report_error(cursors.error(), json);
    }
    for (const CursorState& cursor : *cursors) {
      out.row(cursor_row(stream, cursor));
    }
  }
  out.finish("no cursor");
  return exit_all_done;
}

int remove(const Flags& flags, bool json) {
  const auto changed =
      ask_broker<StreamChanged>(flags.broker, Remove{flags.stream, flags.cursor}, json);
  if (!changed) {
    return report_error(changed.error(), json);
  }
  print_notice("removed", "cursor " + flags.cursor + " of stream " + flags.stream + " is removed",
               json);
  return exit_all_done;
}

}  // namespace

void add_cursors_command(CLI::App& app, Invocation& invocation) {
  auto* group = app.add_subcommand(
      "cursors",
      "List and remove the named positions of readers.\n\n"
      "A cursor holds the results that its reader has not passed, so one that nobody uses any more "
      "takes space until it expires.\n\n"
      "Examples:\n"
      "  millrace cursors ls\n"
      "  millrace cursors rm results loader");
  group->require_subcommand(1);
  auto* ls = group->add_subcommand("ls", "List cursors, with how far they are behind.");
  auto* rm = group->add_subcommand("rm", "Remove a cursor; what it held may go.");
  auto listed = std::make_shared<Flags>(), removed = std::make_shared<Flags>();
  ls->add_option("stream", listed->stream, "name of the stream [all]");
  rm->add_option("stream", removed->stream, "name of the stream")->required();
  rm->add_option("cursor", removed->cursor, "name of the cursor")->required();
  add_list_flags(*ls, listed->list);
  add_broker_flags(*ls, listed->broker);
  add_broker_flags(*rm, removed->broker);
  ls->callback([&invocation, listed] {
    invocation.action = [&invocation, listed] { return list(*listed, invocation.json); };
  });
  rm->callback([&invocation, removed] {
    invocation.action = [&invocation, removed] { return remove(*removed, invocation.json); };
  });
}

}  // namespace millrace::client
