#include "tests/support/cutting_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "schemas/base/random_id.hpp"

namespace millrace::test {
namespace {

constexpr int look_ms = 20;  // for the end

sockaddr_un address_in(const std::string& folder) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  const std::string path = folder + "/.s.PGSQL.5432";
  path.copy(out.sun_path, sizeof out.sun_path - 1);
  return out;
}

int new_socket() {
  const int file = socket(AF_UNIX, SOCK_STREAM, 0);
  if (file < 0) throw std::runtime_error("no socket");
  return file;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string temporary_folder() {
  const auto path = std::filesystem::temp_directory_path() / ("cut-" + millrace::random_id());
  std::filesystem::create_directories(path);
  return path.string();
}

}  // namespace

CuttingSocket::CuttingSocket(std::string server)
    : server_(std::move(server)), folder_(temporary_folder()), listening_(new_socket()) {
  const sockaddr_un own = address_in(folder_);
  if (bind(listening_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      listen(listening_, 16) != 0) {
    throw std::runtime_error("no socket to listen on");
  }
  accepting_ = std::thread([this] { accept_all(); });
}

CuttingSocket::~CuttingSocket() {
  ending_ = true;
  accepting_.join();
  for (std::thread& connection : connections_) connection.join();
  close(listening_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void CuttingSocket::accept_all() {
  while (!ending_) {
    pollfd waiting{listening_, POLLIN, 0};
    if (poll(&waiting, 1, look_ms) <= 0) continue;
    const int client = accept(listening_, nullptr, nullptr);
    if (client < 0) continue;
    const std::lock_guard lock(mutex_);
    connections_.emplace_back([this, client] { forward(client); });
  }
}

// After a cut of the answer the server's side stays open: it has the whole request.
void CuttingSocket::forward(int client) {
  const int server = new_socket();
  const sockaddr_un there = address_in(server_);
  bool open = connect(server, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0;
  bool cut = false;
  std::array<char, 1 << 16> buffer{};
  while (open && !ending_) {
    std::array<pollfd, 2> ends{{{cut ? -1 : client, POLLIN, 0}, {server, POLLIN, 0}}};
    if (poll(ends.data(), ends.size(), look_ms) <= 0) continue;
    for (const pollfd& end : ends) {
      if (end.fd < 0 || end.revents == 0) continue;
      const ssize_t got = read(end.fd, buffer.data(), buffer.size());
      if (got <= 0) {
        open = false;
        break;
      }
      const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
      const bool commits =
          end.fd == client && bytes.find(std::string_view("COMMIT\0", 7)) != std::string_view::npos;
      const Cut now = commits ? next_.exchange(Cut::nothing) : Cut::nothing;
      if (now == Cut::request) {
        open = false;
        break;
      }
      if (end.fd == client) {
        open = write_all(server, bytes);
      } else if (!cut) {
        open = write_all(client, bytes);
      }
      if (now == Cut::answer) {
        cut = true;
        shutdown(client, SHUT_RDWR);
        break;
      }
    }
  }
  close(client);
  close(server);
}

}  // namespace millrace::test
