#include "engine/core/device/program_helper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <memory>

#include "engine/core/device/context.hpp"
#include "engine/core/device/helper_program.hpp"
#include "engine/core/device/select.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint64_t longest_text = std::uint64_t{64} << 20;
// No program takes so long; a helper that does hangs in its driver.
constexpr int patience_ms = 120'000;

// A broken socket gives false, not SIGPIPE.
bool send_bytes(int socket, const void* bytes, std::size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t sent = ::send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_bytes(int socket, void* bytes, std::size_t size, int limit_ms) {
  auto* at = static_cast<char*>(bytes);
  while (size > 0) {
    pollfd ready{.fd = socket, .events = POLLIN, .revents = 0};
    const int polled = ::poll(&ready, 1, limit_ms);
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return false;
    const ssize_t got = ::recv(socket, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_text(int socket, std::string_view text) {
  const std::uint64_t size = text.size();
  return send_bytes(socket, &size, sizeof size) && send_bytes(socket, text.data(), text.size());
}

// A limit of -1 waits as long as the other side lives.
std::optional<std::string> receive_text(int socket, int limit_ms) {
  std::uint64_t size = 0;
  if (!receive_bytes(socket, &size, sizeof size, limit_ms) || size > longest_text) {
    return std::nullopt;
  }
  std::string text(size, '\0');
  if (!receive_bytes(socket, text.data(), size, limit_ms)) return std::nullopt;
  return text;
}

constexpr std::string_view yes = "yes", no = "no";

// Starts `program` with a socket as its standard input; -1 if that fails.
pid_t spawn(const std::string& program, int socket) {
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return -1;
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = program, flag(program_helper_flag);
  const std::array<char*, 3> arguments{name.data(), flag.data(), nullptr};
  pid_t process = -1;
  const int error =
      ::posix_spawn(&process, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? process : -1;
}

}  // namespace

std::unique_ptr<ProgramHelper> ProgramHelper::start(const std::string& program,
                                                    const BuildTarget& target) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return nullptr;
  const pid_t process = spawn(program, ends[1]);
  ::close(ends[1]);
  if (process < 0) {
    ::close(ends[0]);
    return nullptr;
  }
  std::unique_ptr<ProgramHelper> helper(new ProgramHelper(ends[0], process));
  const DeviceInfo& info = *target.info;
  const std::string device =
      std::to_string(info.platform_index) + ":" + std::to_string(info.device_index);
  if (!send_text(ends[0], device) || !send_text(ends[0], target.cache->folder())) return nullptr;
  return helper;
}

ProgramHelper::~ProgramHelper() {
  ::close(socket_);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool ProgramHelper::build(const ProgramSource& source) {
  if (lost_) return false;
  const bool sent = send_text(socket_, source.spec.name) &&
                    send_text(socket_, source.spec.completed ? yes : no) &&
                    send_text(socket_, source.text);
  const auto answer = sent ? receive_text(socket_, patience_ms) : std::nullopt;
  if (!answer) {
    lost_ = true;
    ::kill(process_, SIGKILL);
  }
  return answer == yes;
}

int run_program_helper() {
  constexpr int socket = STDIN_FILENO, no_limit = -1;
  const auto device = receive_text(socket, no_limit), folder = receive_text(socket, no_limit);
  if (!device || !folder) return 1;
  const auto found = find_devices();
  if (!found) return 1;
  const auto chosen = choose_device(*found, *device);
  if (!chosen) return 1;
  const auto context = context_for(chosen->device, chosen->info.name, nullptr);
  if (!context) return 1;
  const ProgramCache cache(*folder);
  const BuildTarget target{context->get(), chosen->device, &chosen->info, &cache};
  for (;;) {
    const auto name = receive_text(socket, no_limit), completed = receive_text(socket, no_limit);
    auto text = receive_text(socket, no_limit);
    if (!name || !completed || !text) return 0;
    ProgramSpec spec{.name = *name, .completed = *completed == yes};
    const auto built = build_program(target, source_of(target, std::move(spec), *std::move(text)));
    if (!send_text(socket, built ? yes : no)) return 0;
  }
}

}  // namespace millrace::engine
