#pragma once
// A thread with one session, for the requests of one token. Work is handed to it from any thread
// and runs there with the desk, once the session is ready.
// Thread safety: any thread.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "http/desk.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/keys/key_file.hpp"

namespace millrace::http {

struct LinkOptions {
  std::string endpoint;            // of the broker's clients
  KeyPair key;                     // empty: the broker has no keys
  std::string stream;              // of the face's jobs
  std::uint32_t away_ms = 10'000;  // a broker that is away for so long fails new requests
};

class Link {
 public:
  static Result<std::unique_ptr<Link>> start(LinkOptions options);
  ~Link();  // ends the session; those who wait are told
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Work gets the desk; none: the error says why (unreachable, unauthorized, draining).
  using Work = std::function<void(Desk* desk, const Error& error)>;
  void post(Work work);

  bool over() const { return over_; }                // it takes no work any more: start another
  bool in_use() const { return in_use_; }            // work waits, or a job is followed
  std::int64_t used_us() const { return used_us_; }  // when work was posted last, monotonic

 private:
  Link(LinkOptions options, std::unique_ptr<net::Waker> waker)
      : options_(std::move(options)), waker_(std::move(waker)) {}
  void run();
  Status serve();
  void do_work(client::Session& session, Desk& desk);
  std::vector<Work> take_work();

  const LinkOptions options_;
  const std::unique_ptr<net::Waker> waker_;
  const SystemClock clock_;
  std::mutex mutex_;
  std::vector<Work> work_;
  std::optional<Error> end_;  // why it is over
  std::atomic<bool> over_ = false, stopping_ = false, in_use_ = false;
  std::atomic<std::int64_t> used_us_ = 0;
  std::thread thread_;
};

}  // namespace millrace::http
