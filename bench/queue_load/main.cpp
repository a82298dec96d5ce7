// Puts one kind of load on a broker and prints what it measured as one line of JSON.
//
//   build/bin/queue_load submit tcp://127.0.0.1:5570 --clients 64 --per-message 1 --in-flight 1
//   build/bin/queue_load work tcp://127.0.0.1:5571 --jobs 100000
//
// bench/queue runs all of them, each against a broker process of its own.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/queue_load/loads.hpp"

namespace {

using namespace millrace::bench;

// Declares the command `name` with its endpoint and key; `options` adds those of the load.
template <class Load, class Options>
void declare(CLI::App& app, const char* name, const char* help, Load& load, Place& place,
             Options options) {
  CLI::App& command = *app.add_subcommand(name, help);
  command.add_option("endpoint", place.endpoint, "the broker's endpoint for clients or engines")
      ->required();
  command.add_option("--key", place.key, "file of the key");
  options(command);
  command.callback([&] { std::printf("%s\n", run(place, load).c_str()); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Puts load on a broker and prints what it measured", "queue_load"};
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  Place place;
  SubmitLoad submit;
  declare(app, "submit", "stores jobs", submit, place, [&](CLI::App& command) {
    command.add_option("--jobs", submit.jobs)->check(CLI::PositiveNumber);
    command.add_option("--clients", submit.clients)->check(CLI::Range(1u, 1'000u));
    command.add_option("--per-message", submit.per_message)->check(CLI::Range(1u, 10'000u));
    command.add_option("--in-flight", submit.in_flight, "messages of a client")
        ->check(CLI::Range(1u, 64u));
    command.add_option("--prompt-bytes", submit.prompt_bytes)->check(CLI::Range(32u, 1'000'000u));
    command.add_option("--per-second", submit.per_second, "messages; 0: as many as it can");
    command.add_option("--first", submit.first, "number of the first client");
  });
  WorkLoad work;
  declare(app, "work", "takes jobs and ends them at once", work, place, [&](CLI::App& command) {
    command.add_option("--jobs", work.jobs)->check(CLI::PositiveNumber);
    command.add_option("--capacity", work.capacity)->check(CLI::Range(1u, 4'096u));
    command.add_option("--result-bytes", work.result_bytes);
    command.add_option("--per-second", work.per_second, "ends; 0: as many as it can");
  });
  HandOutLoad hand_out;
  declare(app, "hand-out", "wants one job at a time", hand_out, place, [&](CLI::App& command) {
    command.add_option("--jobs", hand_out.jobs)->check(CLI::PositiveNumber);
  });
  FollowLoad follow;
  declare(app, "follow", "reads a stream as it grows", follow, place, [&](CLI::App& command) {
    command.add_option("--results", follow.results)->check(CLI::PositiveNumber);
    command.add_option("--stream", follow.stream);
  });
  ReplayLoad replay;
  declare(app, "replay", "reads a stream from its beginning", replay, place,
          [&](CLI::App& command) {
            command.add_option("--stream", replay.stream);
            command.add_option("--cursor", replay.cursor, "acknowledged after each answer");
          });
  CLI11_PARSE(app, argc, argv);
  return 0;
}
