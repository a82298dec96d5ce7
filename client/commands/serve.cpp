// `millrace serve`: a broker, an engine and the HTTP face in one command.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "broker/server/metrics_server.hpp"
#include "client/commands/command.hpp"
#include "client/commands/engine_flags.hpp"
#include "client/commands/run_console.hpp"
#include "client/commands/serve_tokens.hpp"
#include "client/run/backend.hpp"
#include "http/face.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/command_units.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/trace/exporter.hpp"

namespace millrace::client {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t last_answers_ms = 10'000;  // for the answers under way at the end

struct Flags {
  EngineChoice engine;
  http::FaceOptions face;
  std::string folder, allow_origin, traces;
  std::uint64_t timeout_s = 600;
};

constexpr const char* about =
    "Serve a model over HTTP, with OpenAI's API.\n\n"
    "The command starts its own broker and engine; Ctrl-C ends them. At the address of --http, the "
    "path /v1 is OpenAI's API (a client's base_url), / is a live page for browsers, and /metrics "
    "is "
    "for Prometheus.\n\n"
    "Example:\n"
    "  millrace serve --model M.gguf";

// Where the state of a model is kept if no folder is named. Models of one file name have folders of
// their own.
std::string default_folder(const std::string& model) {
  const char* const state = std::getenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  fs::path place = state != nullptr && *state != '\0' ? fs::path(state)
                   : home != nullptr                  ? fs::path(home) / ".local" / "state"
                                                      : fs::temp_directory_path();
  fs::path file(model);
  if (!file.has_filename()) file = file.parent_path();  // a folder with a slash at its end
  std::error_code error;
  fs::path whole = fs::weakly_canonical(file, error);
  if (error) whole = file;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string name = file.filename().string() + "-";
  const std::uint64_t hash = hash64(whole.string());
  for (int shift = 60; shift >= 32; shift -= 4) name += digits[(hash >> shift) & 15];
  return (place / "millrace" / "serve" / name).string();
}

// Lets the face tell tokens' texts. A model whose tokenizer cannot be used is the engine's to
// refuse.
void know_tokens(Flags& flags) {
  const auto loaded = load_texts(flags.engine.flags.model);
  if (!loaded) return;
  flags.face.token_bytes = [texts = *loaded](TokenId id) -> std::optional<std::string> {
    if (id >= texts->tokenizer.vocabulary_size()) return std::nullopt;
    return std::string(texts->tokenizer.token_bytes(id));
  };
  flags.face.more_routes = [texts = *loaded](http::Routes& routes) {
    add_token_routes(routes, texts);
  };
}

Status serve(Flags& flags, RunConsole& console) {
  const SystemClock clock;
  const auto env = posix_env();
  const worker::EngineFlags& engine = flags.engine.flags;
  if (flags.folder.empty()) flags.folder = default_folder(engine.model);
  if (const Status usable = http::check_face(flags.face); !usable) {
    if (usable.error().code != Code::unauthorized) return usable;
    return fail(Code::unauthorized,
                "--http " + flags.face.listen +
                    ": other machines could reach it, and `millrace serve` has no keys",
                "listen on 127.0.0.1, or start `millrace-broker --http " + flags.face.listen +
                    " --keys DIR` and an engine instead");
  }
  MILLRACE_TRY(env->make_directories(flags.folder));
  const auto lock = env->lock(flags.folder + "/lock");
  if (!lock && lock.error().code == Code::output_in_use) {
    return fail(Code::ledger_in_use, "another `millrace serve` uses the folder " + flags.folder,
                "stop it, or give this one another --folder and --http");
  }
  if (!lock) return fail(lock.error());
  BackendOptions options;
  options.folder = flags.folder;
  options.engine = flags.engine.program;
  options.arguments = {"--model", engine.model};
  for (const auto& word : flags.engine.arguments()) options.arguments.push_back(word);
  // The engine has its part of the environment's variables by itself.
  if (!flags.traces.empty())
    options.arguments.insert(options.arguments.end(), {"--traces", flags.traces});
  MILLRACE_ASSIGN(auto traces,
                  trace::read_settings(flags.traces, {"millrace-serve", MILLRACE_VERSION}));
  MILLRACE_ASSIGN(options.traces, trace::Exporter::start(std::move(traces)));
  flags.face.traces = options.traces;
  options.device = engine.device;
  options.devices = engine.devices;
  options.step_limit_s = engine.step_limit_s;
  options.service = true;
  MILLRACE_ASSIGN(auto backend, Backend::start(options, *env, clock, console));
  flags.face.endpoint = backend->session().endpoint();
  flags.face.files = flags.folder + "/http";
  flags.face.metrics = broker::metrics_handler(backend->broker());
  know_tokens(flags);
  MILLRACE_ASSIGN(auto face, http::Face::start(flags.face));
  const std::string& url = face->url();
  console.places("listening", "listening on " + url + " (the model is being loaded)",
                 {{"api", "OpenAI's API (base_url)", url + "/v1"},
                  {"page", "live page", url + "/"},
                  {"metrics", "metrics for Prometheus", url + "/metrics"}});
  EventLoop loop(backend->session(), clock, {});
  Status served = loop.run({backend.get()}, [] { return interrupted(); });
  console.note("stopping", "stopping: requests under way get ten seconds");
  face->stop(last_answers_ms);
  backend->stop();
  return served;
}

int run(Flags& flags, bool json) {
  remember_interrupts("Requests with an Idempotency-Key go on with the next start.", json);
  ::signal(SIGPIPE, SIG_IGN);
  if (const Status usable = flags.engine.check(); !usable) {
    return report_error(usable.error(), json);
  }
  flags.face.allow_origins = http::split_origins(flags.allow_origin);
  flags.face.timeout_ms = flags.timeout_s * 1'000;
  const SystemClock clock;
  RunConsole console(json, clock, stdout);
  const Status served = serve(flags, console);
  return served ? exit_all_done : report_error(served.error(), json);
}

}  // namespace

void add_serve_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand("serve", about);
  auto flags = std::make_shared<Flags>();
  command->add_option("--http", flags->face.listen, "HOST:PORT to listen on; 0 is a free port")
      ->type_name("ADDR")
      ->capture_default_str();
  const auto rare = [&](const char* name, auto& value, const char* type, const char* text) {
    return command->add_option(name, value, at_length(text))->type_name(type);
  };
  rare("--http-cert", flags->face.certificate, "FILE", "certificate for HTTPS, a PEM file");
  rare("--http-key", flags->face.key, "FILE", "key of the certificate, a PEM file");
  rare("--http-allow-origin", flags->allow_origin, "URLS",
       "web pages that may use it, with commas between them; * for all");
  auto* files = rare("--http-files-size", flags->face.tenant_files_bytes, "SIZE",
                     "bytes of files that are kept, uploads and results of batches, like 64M or "
                     "10G; an upload beyond them is refused; 0 keeps any number");
  takes_size(*files->default_str(size_text(flags->face.tenant_files_bytes)));
  rare("--http-timeout", flags->timeout_s, "S",
       "a request that is not answered by then fails, and its job ends")
      ->check(CLI::Range(1, 31'536'000))
      ->capture_default_str();
  rare("--traces", flags->traces, "URL",
       "URL that takes spans of traces by OTLP over HTTP, like http://127.0.0.1:4318 [none]; "
       "OpenTelemetry's environment variables count, too");
  rare("--folder", flags->folder, "DIR",
       "where jobs, results and files are kept [~/.local/state/millrace/serve/MODEL]");
  add_engine_flags(*command, flags->engine, true);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
