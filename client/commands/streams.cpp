// `millrace streams`: lists and shows streams, sets what they keep, trims and removes them.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "client/commands/list_output.hpp"
#include "client/commands/stream_lists.hpp"
#include "client/commands/times.hpp"
#include "schemas/base/command_units.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/json_fields.hpp"

namespace millrace::client {
namespace {

struct Flags {
  BrokerFlags broker;
  std::string stream;
  std::uint64_t below = 0;  // trim
  KeepLimits set;           // keep
  bool reset = false;
  ListFlags list;
};

std::string results_text(const StreamState& stream) {
  if (stream.high < stream.first) {
    return "no results, the next one is number " + std::to_string(stream.first);
  }
  const std::uint64_t results = stream.high + 1 - stream.first;
  return count_text(results, "result") + ", numbers " + std::to_string(stream.first) + " to " +
         std::to_string(stream.high);
}

// "30 days (the broker's limit)"
std::string limit_text(const std::string& value, bool set) {
  return value + (set ? "" : " (the broker's limit)");
}

std::string row_text(const StreamState& stream) {
  return "stream " + stream.stream + ": " + results_text(stream) + ", " + size_text(stream.bytes) +
         ", cursors " + std::to_string(stream.cursors);
}

void print_stream(const StreamState& stream) {
  std::printf("%s\n", printable_name(row_text(stream)).c_str());
}

void print_limits(const StreamState& stream) {
  const KeepLimits& limits = stream.applied;
  const std::uint64_t bytes = limits.bytes.value_or(0);
  std::printf(
      "  keeps results for %s\n  keeps %s\n  keeps cursors for %s\n",
      limit_text(age_text(limits.age_s.value_or(0)), stream.set.age_s.has_value()).c_str(),
      limit_text(bytes == 0 ? "any number of bytes" : "at most " + size_text(bytes),
                 stream.set.bytes.has_value())
          .c_str(),
      limit_text(age_text(limits.cursor_age_s.value_or(0)), stream.set.cursor_age_s.has_value())
          .c_str());
}

std::string json_text(const StreamState& stream) {
  std::string line;
  JsonWriter out(line);
  out.begin_object();
  write_fields(out, stream);
  out.end_object();
  return line;
}

void print_json(const StreamState& stream) {
  std::printf("%s\n", json_text(stream).c_str());
}

int list(const Flags& flags, bool json) {
  const auto streams = ask_streams(flags.broker, json);
  if (!streams) {
    return report_error(streams.error(), json);
  }
  ListOutput out(flags.list, json, {"STREAM", "FIRST", "LAST", "BYTES", "CURSORS"});
  for (const StreamState& stream : *streams) {
    out.row({.id = stream.stream,
             .text = row_text(stream),
             .cells = {stream.stream, std::to_string(stream.first), std::to_string(stream.high),
                       std::to_string(stream.bytes), std::to_string(stream.cursors)},
             .json = json_text(stream)});
  }
  out.finish("no stream");
  return exit_all_done;
}

int show(const Flags& flags, bool json) {
  const auto stream = ask_stream(flags.broker, flags.stream, json);
  if (!stream) {
    return report_error(stream.error(), json);
  }
  const auto cursors = ask_cursors(flags.broker, flags.stream, json);
  if (!cursors) {
    return report_error(cursors.error(), json);
  }
  if (json) {
    print_json(*stream);
  } else {
    print_stream(*stream);
    print_limits(*stream);
  }
  for (const CursorState& cursor : *cursors) {
    print_cursor(*stream, cursor, json);
  }
  return exit_all_done;
}

// Sends a change and prints the stream as it is then.
int change(const Flags& flags, Message message, bool json) {
  const auto changed = ask_broker<StreamChanged>(flags.broker, std::move(message), json);
  if (!changed) {
    return report_error(changed.error(), json);
  }
  if (json) {
    print_json(changed->stream);
  } else {
    print_stream(changed->stream);
    print_limits(changed->stream);
  }
  return exit_all_done;
}

// Limits that are not given stay as they are, because the message sets all of them.
int keep(const Flags& flags, bool json) {
  KeepLimits set;
  if (!flags.reset) {
    const auto stream = ask_stream(flags.broker, flags.stream, json);
    if (stream) {
      set = stream->set;
    } else if (stream.error().code != Code::not_found) {
      return report_error(stream.error(), json);
    }
  }
  set.age_s = flags.set.age_s ? flags.set.age_s : set.age_s;
  set.bytes = flags.set.bytes ? flags.set.bytes : set.bytes;
  set.cursor_age_s = flags.set.cursor_age_s ? flags.set.cursor_age_s : set.cursor_age_s;
  return change(flags, Keep{flags.stream, set}, json);
}

int trim(const Flags& flags, bool json) {
  return change(flags, Trim{flags.stream, flags.below}, json);
}

int remove(const Flags& flags, bool json) {
  const auto removed = ask_broker<StreamChanged>(flags.broker, Remove{flags.stream, ""}, json);
  if (!removed) {
    return report_error(removed.error(), json);
  }
  if (json) {
    print_json(removed->stream);
  } else {
    std::printf("removed stream %s; its next result is number %llu\n",
                printable_name(flags.stream).c_str(), wide(removed->stream.high + 1));
  }
  return exit_all_done;
}

struct Verb {
  CLI::App* command;
  std::shared_ptr<Flags> flags;
};

Verb add_verb(CLI::App& group, Invocation& invocation, const char* name, const char* about,
              int (*run)(const Flags&, bool), bool named = true) {
  Verb verb{group.add_subcommand(name, about), std::make_shared<Flags>()};
  if (named) {
    verb.command->add_option("stream", verb.flags->stream, "name of the stream")->required();
  }
  add_broker_flags(*verb.command, verb.flags->broker);
  verb.command->callback([&invocation, run, flags = verb.flags] {
    invocation.action = [&invocation, run, flags] { return run(*flags, invocation.json); };
  });
  return verb;
}

}  // namespace

void add_streams_command(CLI::App& app, Invocation& invocation) {
  auto* group = app.add_subcommand(
      "streams",
      "List streams of results, set what they keep, trim and remove them.\n\n"
      "A stream keeps results by their age and bytes; a cursor that has not passed them holds them "
      "up to twice as long.\n\n"
      "Examples:\n"
      "  millrace streams ls\n"
      "  millrace streams keep results --age 7d --bytes 2G\n"
      "  millrace streams trim results --below 1000");
  group->require_subcommand(1);
  const Verb lists =
      add_verb(*group, invocation, "ls", "List the streams that hold results, cursors or limits.",
               list, false);
  add_list_flags(*lists.command, lists.flags->list);
  add_verb(*group, invocation, "show", "Show a stream, what it keeps, and its cursors.", show);
  const Verb keeps = add_verb(*group, invocation, "keep",
                              "Set how much a stream keeps.\n\n"
                              "What is not given stays as it is. 0 is without limit.",
                              keep);
  Flags& wanted = *keeps.flags;
  takes_duration(*keeps.command->add_option("--age", wanted.set.age_s, "results, for this long"));
  takes_size(*keeps.command->add_option("--bytes", wanted.set.bytes, "results, up to this size"));
  takes_duration(*keeps.command->add_option("--cursor-age", wanted.set.cursor_age_s,
                                            "cursors that are not moved, for this long"));
  keeps.command->add_flag("--reset", wanted.reset, "take the broker's limits where none is given");
  const Verb trims = add_verb(*group, invocation, "trim",
                              "Drop the results below a number, whoever has read them.", trim);
  trims.command->add_option("--below", trims.flags->below, "first number to keep")
      ->type_name("N")
      ->required()
      ->check(CLI::Range(std::uint64_t{1}, most_number));
  add_verb(*group, invocation, "rm",
           "Remove a stream's results, cursors and limits. Its numbers go on where they ended.",
           remove);
}

}  // namespace millrace::client
