#include "client/run/backend.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "broker/server/server.hpp"
#include "client/run/engine_text.hpp"
#include "client/run/supervisor.hpp"
#include "schemas/base/net/local_endpoint.hpp"

namespace millrace::client {
namespace {

namespace fs = std::filesystem;

constexpr const char* engine_program = "millrace-engine";
constexpr std::array socket_names{"clients.ipc", "engines.ipc", "doorbell.ipc"};
constexpr std::size_t longest_name = std::string_view("doorbell.ipc").size();

// The folder of the sockets: the run's folder, or a temporary private folder if that path is too
// long for a socket address.
class SocketFolder {
 public:
  static Result<SocketFolder> make(const std::string& folder) {
    std::error_code error;
    const fs::path absolute = fs::absolute(folder, error);
    if (!error && absolute.string().size() + 1 + longest_name <= net::ipc_path_bytes) {
      return SocketFolder(absolute.string(), false);
    }
    std::string pattern = (fs::temp_directory_path(error) / "millrace-XXXXXX").string();
    if (error || ::mkdtemp(pattern.data()) == nullptr) {
      return fail(Code::io_error, "cannot make a folder for sockets at " + pattern,
                  "set TMPDIR to a folder that you may write to");
    }
    return SocketFolder(pattern, true);
  }
  SocketFolder(SocketFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), own_(std::exchange(other.own_, false)) {}
  SocketFolder& operator=(SocketFolder&&) = delete;
  ~SocketFolder() {
    std::error_code ignored;
    if (own_) {
      fs::remove_all(path_, ignored);
    } else if (!path_.empty()) {
      for (const char* name : socket_names) {
        fs::remove(fs::path(path_) / name, ignored);
      }
    }
  }
  std::string endpoint(const std::string& name) const { return "ipc://" + path_ + "/" + name; }

 private:
  SocketFolder(std::string path, bool own) : path_(std::move(path)), own_(own) {}
  std::string path_;
  bool own_;
};

class EmbeddedBackend final : public Backend {
 public:
  EmbeddedBackend(SocketFolder sockets, RunObserver& observer)
      : sockets_(std::move(sockets)), observer_(observer) {}
  ~EmbeddedBackend() override { stop(); }

  Status begin(const BackendOptions& options, Env& env, const Clock& clock);
  Session& session() override { return *session_; }
  Status tick() override;
  void engine_silent() override { supervisor_->hung(); }
  std::uint32_t engine_starts() const override { return supervisor_->starts(); }
  void stop() override;

 private:
  SocketFolder sockets_;
  RunObserver& observer_;
  void meet_engine();

  // The broker's thread sets these.
  std::mutex mutex_;
  std::optional<EngineInfo> joined_;
  std::atomic<bool> hung_{false};

  bool met_ = false;  // an engine has joined, and the observer was told
  std::unique_ptr<broker::BrokerServer> server_;
  std::optional<Supervisor> supervisor_;
  std::unique_ptr<Session> session_;
};

Status EmbeddedBackend::begin(const BackendOptions& options, Env& env, const Clock& clock) {
  broker::ServerOptions server;
  server.ledger.folder = options.folder;
  server.clients = sockets_.endpoint(socket_names[0]);
  server.engines = sockets_.endpoint(socket_names[1]);
  server.doorbell = sockets_.endpoint(socket_names[2]);
  server.core.previous_engines_are_gone = true;  // an engine dies with its run
  server.core.hang_ms = hang_ms(options.step_limit_s);
  server.core.match_kv = false;  // no other engine could run a job that this one cannot
  server.core.fingerprint = options.fingerprint;
  server.engine_joined = [this](const EngineInfo& engine) {
    const std::lock_guard lock(mutex_);
    joined_ = engine;
  };
  server.engine_hung = [this](const std::string&) { hung_ = true; };
  MILLRACE_ASSIGN(server_, broker::BrokerServer::start(std::move(server)));

  SupervisorOptions engine;
  engine.program = options.engine.empty() ? sibling_program(engine_program) : options.engine;
  engine.arguments = options.arguments;
  engine.arguments.insert(engine.arguments.end(), {"--broker", server_->engines()});
  engine.log_path = options.folder + "/engine.log";
  engine.log_stays = options.folder_stays;
  supervisor_.emplace(std::move(engine), env, clock, observer_,
                      [this] { server_->engine_died(""); });
  MILLRACE_TRY(supervisor_->start());
  SessionOptions session;
  session.endpoint = server_->clients();
  session.name = "run-" + std::to_string(::getpid());
  MILLRACE_ASSIGN(session_, Session::open(std::move(session), clock));
  return {};
}

Status EmbeddedBackend::tick() {
  if (!server_->running()) {
    MILLRACE_TRY(server_->wait());
    return fail(Code::internal, "the embedded broker stopped without an error", "report it");
  }
  meet_engine();
  if (hung_.exchange(false)) {
    supervisor_->hung();
  }
  return supervisor_->tick();
}

void EmbeddedBackend::meet_engine() {
  const std::lock_guard lock(mutex_);
  if (!joined_) {
    return;
  }
  supervisor_->joined();
  if (!std::exchange(met_, true)) {
    observer_.note("engine_ready", ready_text(joined_->engine));
  }
  joined_.reset();
}

void EmbeddedBackend::stop() {
  session_.reset();
  meet_engine();  // the engine may have joined and ended all jobs since the last tick
  if (supervisor_) {
    supervisor_->stop();
  }
  if (server_) {
    if (const Status stopped = server_->stop(); !stopped) {
      observer_.trouble("broker_stop", stopped.error());
    }
    server_.reset();
  }
}

}  // namespace

Result<std::unique_ptr<Backend>> Backend::start(const BackendOptions& options, Env& env,
                                                const Clock& clock, RunObserver& observer) {
  MILLRACE_ASSIGN(SocketFolder sockets, SocketFolder::make(options.folder));
  auto backend = std::make_unique<EmbeddedBackend>(std::move(sockets), observer);
  MILLRACE_TRY(backend->begin(options, env, clock));
  return backend;
}

}  // namespace millrace::client
