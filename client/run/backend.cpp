#include "client/run/backend.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "broker/server/server.hpp"
#include "client/run/broker_options.hpp"
#include "client/run/engine_text.hpp"
#include "engine/supervise/fleet.hpp"
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
  broker::BrokerServer& broker() override { return *server_; }
  Status tick() override;
  void engine_silent(const std::string& name) override { fleet_->silent(name); }
  std::uint32_t engine_starts() const override { return fleet_->starts(); }
  std::uint32_t engines() const override { return static_cast<std::uint32_t>(fleet_->size()); }
  bool engine_met() override;
  void stop() override;

 private:
  Status begin_broker(const BackendOptions& options);
  Status begin_engines(const BackendOptions& options, Env& env, const Clock& clock);
  void meet_engines();

  SocketFolder sockets_;
  RunObserver& observer_;

  // The broker's thread adds to these.
  std::mutex mutex_;
  std::vector<EngineInfo> joined_;
  std::vector<std::string> hung_;  // names

  std::set<std::string> met_;  // engines that have joined, and the observer was told
  std::unique_ptr<broker::BrokerServer> server_;
  std::unique_ptr<File> log_;
  std::optional<supervise::Fleet> fleet_;
  std::unique_ptr<Session> session_;
};

Status EmbeddedBackend::begin(const BackendOptions& options, Env& env, const Clock& clock) {
  MILLRACE_TRY(begin_broker(options));
  MILLRACE_TRY(begin_engines(options, env, clock));
  SessionOptions session;
  session.endpoint = server_->clients();
  session.name = "run-" + std::to_string(::getpid());
  MILLRACE_ASSIGN(session_, Session::open(std::move(session), clock));
  return {};
}

Status EmbeddedBackend::begin_broker(const BackendOptions& options) {
  broker::ServerOptions server = broker_options(options);
  server.clients = sockets_.endpoint(socket_names[0]);
  server.engines = sockets_.endpoint(socket_names[1]);
  server.doorbell = sockets_.endpoint(socket_names[2]);
  server.traces = options.traces;
  server.engine_joined = [this](const EngineInfo& engine) {
    const std::lock_guard lock(mutex_);
    joined_.push_back(engine);
  };
  server.engine_hung = [this](const std::string& name) {
    const std::lock_guard lock(mutex_);
    hung_.push_back(name);
  };
  MILLRACE_ASSIGN(server_, broker::BrokerServer::start(std::move(server)));
  return {};
}

Status EmbeddedBackend::begin_engines(const BackendOptions& options, Env& env, const Clock& clock) {
  const std::string log_path = options.folder + "/engine.log";
  MILLRACE_ASSIGN(log_, env.open(log_path, OpenMode::replace));
  supervise::FleetOptions fleet;
  fleet.program =
      options.engine.empty() ? supervise::sibling_program(engine_program) : options.engine;
  fleet.arguments = options.arguments;
  fleet.arguments.insert(fleet.arguments.end(), {"--broker", server_->engines()});
  fleet.device = options.device;
  fleet.devices = options.devices;
  fleet.name = options.service ? "serve" : "run";
  if (options.service) fleet.patience = supervise::Patience::service;
  fleet.log_path = options.folder_stays ? log_path : "";
  supervise::FleetHooks hooks;
  hooks.died = [this](const std::string& name) { server_->engine_died(name); };
  hooks.trouble = [this](const std::string& event, const Error& error) {
    observer_.trouble(event, error);
  };
  hooks.log = [this](const std::string& lines) { return log_->append(lines); };
  fleet_.emplace(std::move(fleet), clock, std::move(hooks));
  MILLRACE_TRY(fleet_->start());
  if (fleet_->size() > 1) {
    observer_.note("engines_start",
                   std::to_string(fleet_->size()) + " engines start, one a device");
  }
  return {};
}

Status EmbeddedBackend::tick() {
  if (!server_->running()) {
    MILLRACE_TRY(server_->wait());
    return fail(Code::internal, "the embedded broker stopped without an error", "report it");
  }
  meet_engines();
  return fleet_->tick();
}

// Carries out what the broker's thread has told.
void EmbeddedBackend::meet_engines() {
  std::vector<EngineInfo> joined;
  std::vector<std::string> hung;
  {
    const std::lock_guard lock(mutex_);
    joined.swap(joined_);
    hung.swap(hung_);
  }
  for (const EngineInfo& engine : joined) {
    fleet_->joined(engine.name);
    if (!met_.insert(engine.name).second) continue;
    const std::string about = fleet_->size() > 1 ? engine.name + ": " : "";
    observer_.note("engine_ready", about + ready_text(engine.engine));
  }
  for (const std::string& name : hung) fleet_->hung(name);
}

bool EmbeddedBackend::engine_met() {
  if (met_.empty()) meet_engines();
  return !met_.empty();
}

void EmbeddedBackend::stop() {
  session_.reset();
  if (fleet_) {
    meet_engines();  // an engine may have joined and ended all jobs since the last tick
    fleet_->stop();
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
