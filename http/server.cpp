#include "http/server.hpp"

#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "http/address.hpp"
#include "http/server_connections.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/net/poller.hpp"

namespace millrace::http {
namespace {

// Connections that libmicrohttpd may hold above our limit, while it closes those that make room.
constexpr std::uint32_t spare_connections = 64;
constexpr rlim_t other_descriptors = 256;  // of the program, besides the connections
constexpr int tick_ms = 1'000;
// Whoever does not read that the server stops is cut off after this time.
constexpr std::int64_t last_words_us = 1'000 * us_per_ms;
constexpr std::uint64_t certificate_bytes = 1024 * 1024;

// Escapes stay as they are: a path is cut at its slashes first, and resolved then.
std::size_t keep_escapes(void* /*context*/, MHD_Connection* /*handle*/, char* text) {
  return std::char_traits<char>::length(text);
}

void log_of_library(void* /*context*/, const char* format, va_list values) {
  if (!log_enabled(LogLevel::debug)) return;
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, values);
  log_debug("the HTTP library reports", {{"what", text.data()}});
}

// Lets the process have as many descriptors as the connections need, or lowers the limit.
void fit_descriptors(ServerLimits& limits) {
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0) return;
  const rlim_t wanted = limits.connections + spare_connections + limits.files + other_descriptors;
  if (most.rlim_cur < wanted) {
    most.rlim_cur = std::min<rlim_t>(wanted, most.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &most);
  }
  if (most.rlim_cur < wanted) {
    limits.connections = static_cast<std::uint32_t>(std::max<rlim_t>(16, most.rlim_cur / 2));
    log_warn("the limit of open files allows fewer HTTP connections",
             {{"connections", limits.connections}});
  }
}

class MicroServer final : public Server {
 public:
  MicroServer(ServerOptions options, Routes routes, std::unique_ptr<net::Waker> waker)
      : options_(std::move(options)),
        routes_(std::move(routes)),
        waker_(std::move(waker)),
        inbox_(std::make_shared<Inbox>([wake = waker_.get()] { wake->wake(); })),
        connections_(options_, routes_, inbox_) {}
  ~MicroServer() override {
    stop(0);
    inbox_->close();
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
    if (epoll_ >= 0) ::close(epoll_);
  }

  Status begin();
  void stop(std::uint32_t wait_ms) override;
  const std::string& url() const override { return url_; }
  ServerCounts counts() const override { return connections_.counts(); }

 private:
  Status start_library(Listener& listener);
  Status watch(int descriptor, std::uint32_t events, void* context);
  void run();
  void wait();
  bool step_of_stop();
  void notify(MHD_Connection* handle, void** context, MHD_ConnectionNotificationCode what);

  static MHD_Result on_request(void* self, MHD_Connection* handle, const char* url,
                               const char* method, const char* version, const char* data,
                               std::size_t* bytes, void** context);
  static void on_ended(void* self, MHD_Connection* handle, void** context,
                       MHD_RequestTerminationCode how);
  static void on_notice(void* self, MHD_Connection* handle, void** context,
                        MHD_ConnectionNotificationCode what) {
    static_cast<MicroServer*>(self)->notify(handle, context, what);
  }

  ServerOptions options_;
  const Routes routes_;
  const std::unique_ptr<net::Waker> waker_;
  const std::shared_ptr<Inbox> inbox_;
  Connections connections_;
  std::string certificate_, key_;
  std::string url_;
  MHD_Daemon* daemon_ = nullptr;
  int epoll_ = -1;
  std::int64_t ticked_us_ = 0;
  bool quiet_ = false;  // takes no connections any more
  bool refused_all_ = false, closed_all_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> stop_by_us_ = 0;
  std::mutex time_mutex_;  // of stop_by_us_ and stopping_ together
  std::mutex stop_mutex_;  // of the end of the thread
  std::thread thread_;
};

Connection* connection_of(MHD_Connection* handle) {
  const auto* info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info == nullptr ? nullptr : static_cast<Connection*>(info->socket_context);
}

MHD_Result MicroServer::on_request(void* self, MHD_Connection* handle, const char* url,
                                   const char* method, const char* /*version*/, const char* data,
                                   std::size_t* bytes, void** context) {
  auto& connections = static_cast<MicroServer*>(self)->connections_;
  Connection* const connection = connection_of(handle);
  if (connection == nullptr) return MHD_NO;
  if (*context == nullptr) {
    *context = connection;
    return connections.begin(*connection, url, method) ? MHD_YES : MHD_NO;
  }
  if (*bytes > 0) {
    connections.receive(*connection, data, std::exchange(*bytes, 0));
    return MHD_YES;
  }
  return connections.proceed(*connection) ? MHD_YES : MHD_NO;
}

void MicroServer::on_ended(void* self, MHD_Connection* /*handle*/, void** context,
                           MHD_RequestTerminationCode how) {
  if (*context == nullptr) return;  // its head was not complete
  static_cast<MicroServer*>(self)->connections_.ended(*static_cast<Connection*>(*context),
                                                      how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
  *context = nullptr;
}

void MicroServer::notify(MHD_Connection* handle, void** context,
                         MHD_ConnectionNotificationCode what) {
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    if (*context == nullptr) return;
    auto& connection = *static_cast<Connection*>(*context);
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.descriptor, nullptr);
    connections_.closed(connection);
    *context = nullptr;
    return;
  }
  const int descriptor =
      MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  Connection& connection = connections_.opened(handle, descriptor);
  *context = &connection;
  // libmicrohttpd does not look at a suspended connection, so its end is watched for here.
  if (const auto watched = watch(descriptor, EPOLLRDHUP | EPOLLET, &connection); !watched) {
    log_error("a connection is not watched", watched.error());
  }
}

Status MicroServer::watch(int descriptor, std::uint32_t events, void* context) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = context;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0) return {};
  return fail(Code::io_error,
              "epoll_ctl failed: " + std::error_code(errno, std::generic_category()).message());
}

Status MicroServer::start_library(Listener& listener) {
  const auto& limits = options_.limits;
  unsigned flags = MHD_USE_EPOLL | MHD_USE_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
  std::vector<MHD_OptionItem> items = {
      {MHD_OPTION_CONNECTION_LIMIT, limits.connections + spare_connections, nullptr},
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<intptr_t>(limits.header_bytes), nullptr},
      {MHD_OPTION_CONNECTION_TIMEOUT, std::max<std::uint32_t>(1, limits.idle_ms / 1'000), nullptr},
      {MHD_OPTION_LISTEN_SOCKET, listener.descriptor(), nullptr},
      {MHD_OPTION_STRICT_FOR_CLIENT, 1, nullptr},
      {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, nullptr},
      {MHD_OPTION_UNESCAPE_CALLBACK, reinterpret_cast<intptr_t>(&keep_escapes), nullptr},
      {MHD_OPTION_NOTIFY_COMPLETED, reinterpret_cast<intptr_t>(&on_ended), this},
      {MHD_OPTION_NOTIFY_CONNECTION, reinterpret_cast<intptr_t>(&on_notice), this}};
  if (!certificate_.empty()) {
    flags |= MHD_USE_TLS;
    items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, certificate_.data()});
    items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, key_.data()});
    char* const priorities = const_cast<char*>("NORMAL:-VERS-TLS1.0:-VERS-TLS1.1");
    items.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, priorities});
  }
  items.push_back({MHD_OPTION_END, 0, nullptr});
  daemon_ =
      MHD_start_daemon(flags, 0, nullptr, nullptr, &on_request, this, MHD_OPTION_EXTERNAL_LOGGER,
                       &log_of_library, nullptr, MHD_OPTION_ARRAY, items.data(), MHD_OPTION_END);
  if (daemon_ == nullptr && !certificate_.empty()) {
    return fail(Code::usage,
                "the certificate " + options_.certificate + " and the key " + options_.key +
                    " cannot be used",
                "give two PEM files that belong together");
  }
  if (daemon_ == nullptr) return fail(Code::io_error, "the HTTP server cannot be started");
  listener.release();  // the library closes it
  return {};
}

Status MicroServer::begin() {
  if (options_.certificate.empty() != options_.key.empty()) {
    return fail(Code::usage, "TLS needs a certificate and its key", "give both or neither");
  }
  if (!options_.certificate.empty()) {
    const auto env = posix_env();
    MILLRACE_ASSIGN(certificate_, read_file(*env, options_.certificate, certificate_bytes));
    MILLRACE_ASSIGN(key_, read_file(*env, options_.key, certificate_bytes));
  }
  MILLRACE_ASSIGN(const Address address, parse_address(options_.listen));
  fit_descriptors(options_.limits);
  MILLRACE_ASSIGN(Listener listener, Listener::open(address));
  url_ = (certificate_.empty() ? "http://" : "https://") + listener.authority();
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return fail(Code::io_error, "cannot make an epoll descriptor");
  MILLRACE_TRY(watch(waker_->descriptor(), EPOLLIN, waker_.get()));
  MILLRACE_TRY(start_library(listener));
  const auto* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  MILLRACE_TRY(watch(info->epoll_fd, EPOLLIN, daemon_));
  thread_ = std::thread([this] { run(); });
  return {};
}

void MicroServer::wait() {
  MHD_UNSIGNED_LONG_LONG least_ms = 0;
  int wait_ms = stopping_ ? 20 : tick_ms;
  if (MHD_get_timeout(daemon_, &least_ms) == MHD_YES && least_ms < static_cast<unsigned>(wait_ms)) {
    wait_ms = static_cast<int>(least_ms);
  }
  std::array<epoll_event, 128> events{};
  const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_ms);
  for (int i = 0; i < count; ++i) {
    void* const source = events[static_cast<std::size_t>(i)].data.ptr;
    if (source == waker_.get()) {
      waker_->drain();
    } else if (source != daemon_) {
      connections_.hung_up(*static_cast<Connection*>(source));
    }
  }
}

void MicroServer::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "http-server");
  const SystemClock clock;
  while (!step_of_stop()) {
    wait();
    connections_.take_inbox();
    MHD_run(daemon_);
    if (clock.monotonic_us() - ticked_us_ < tick_ms * us_per_ms) continue;
    ticked_us_ = clock.monotonic_us();
    connections_.close_slow();
  }
}

// True: all connections are closed.
bool MicroServer::step_of_stop() {
  if (!stopping_) return false;
  if (!std::exchange(quiet_, true)) {
    ::close(MHD_quiesce_daemon(daemon_));
    connections_.drain();
  }
  const std::int64_t late_us = SystemClock().monotonic_us() - stop_by_us_;
  if (connections_.busy() && late_us >= 0 && !std::exchange(refused_all_, true)) {
    connections_.refuse_all();
  }
  if (connections_.busy() && late_us >= last_words_us && !std::exchange(closed_all_, true)) {
    connections_.close_all();
  }
  return connections_.empty();
}

void MicroServer::stop(std::uint32_t wait_ms) {
  const std::int64_t by_us = SystemClock().monotonic_us() + std::int64_t{wait_ms} * us_per_ms;
  {
    // Another call may wait for the end; this one may give it less time.
    const std::scoped_lock lock(time_mutex_);
    stop_by_us_ = stopping_ ? std::min<std::int64_t>(stop_by_us_, by_us) : by_us;
    stopping_ = true;
  }
  waker_->wake();
  const std::scoped_lock lock(stop_mutex_);
  if (thread_.joinable()) thread_.join();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Routes routes) {
  MILLRACE_ASSIGN(auto waker, net::Waker::create());
  auto server =
      std::make_unique<MicroServer>(std::move(options), std::move(routes), std::move(waker));
  MILLRACE_TRY(server->begin());
  return server;
}

}  // namespace millrace::http
