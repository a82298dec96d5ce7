#pragma once
// A Unix socket in front of a PostgreSQL server, which cuts a connection in its next COMMIT: before
// the server hears of it, or before the client hears of it. Thread safety: any thread.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace millrace::test {

class CuttingSocket {
 public:
  enum class Cut : std::uint8_t { nothing, request, answer };

  // `server` is the folder of the server's socket.
  explicit CuttingSocket(std::string server);
  ~CuttingSocket();
  CuttingSocket(const CuttingSocket&) = delete;
  CuttingSocket& operator=(const CuttingSocket&) = delete;

  const std::string& folder() const { return folder_; }  // of this socket
  void cut_next(Cut cut) { next_ = cut; }

 private:
  void accept_all();
  void forward(int client);

  const std::string server_, folder_;
  int listening_ = -1;
  std::atomic<Cut> next_ = Cut::nothing;
  std::atomic<bool> ending_ = false;
  std::mutex mutex_;  // guards `connections_`
  std::vector<std::thread> connections_;
  std::thread accepting_;
};

}  // namespace millrace::test
