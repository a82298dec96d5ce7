#pragma once
// A thread with a session that takes the batches of one tenant on their way, the oldest first and
// several at once. It ends when none is left, or when its key may not go on; another one goes on
// from what is on disk.
// Thread safety: any thread; the destructor waits for what is being written.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "http/batches/batch_run.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/keys/key_file.hpp"

namespace millrace::http {

struct BatchWorkerOptions {
  std::string endpoint;  // of the broker's clients
  KeyPair key;           // empty: the broker has no keys
  std::string tenant;
  bool may_remove = false;  // the key may remove streams
};

class BatchWorker {
 public:
  static constexpr std::size_t runs_at_once = 8;

  static Result<std::unique_ptr<BatchWorker>> start(const BatchParts& parts,
                                                    BatchWorkerOptions options);
  ~BatchWorker();
  BatchWorker(const BatchWorker&) = delete;
  BatchWorker& operator=(const BatchWorker&) = delete;

  // There is a new batch, or one has changed. False: the worker is over, and does not see it.
  bool wake();

 private:
  BatchWorker(const BatchParts& parts, BatchWorkerOptions options,
              std::unique_ptr<net::Waker> waker)
      : parts_(parts), options_(std::move(options)), waker_(std::move(waker)) {}
  void run();
  Status serve();
  bool may_leave();

  const BatchParts& parts_;
  const BatchWorkerOptions options_;
  const std::unique_ptr<net::Waker> waker_;
  std::atomic<bool> stopping_ = false;
  std::mutex over_mutex_;  // of over_ and what it is decided by
  bool over_ = false;
  std::thread thread_;
};

}  // namespace millrace::http
