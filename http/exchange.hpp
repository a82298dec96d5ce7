#pragma once
// One request and its answer. A handler gets it on the server's thread and may keep it: the answer
// may come later and from any thread. While it waits, the connection is suspended and costs nothing
// but its memory.
//
//   exchange->respond({.body = "{}"});                            // the whole answer, or
//   exchange->begin_stream({.type = "text/event-stream"});        // pieces of it:
//   if (!exchange->write("data: 1\n\n")) exchange->abort();       // the client reads too slowly
//   exchange->end();
//
// Only the first respond() or begin_stream() counts. What is written waits in a queue. It takes no
// more once it has been over its bound for some time: whoever writes may be faster for a while than
// the server's thread, and an event may take its time on its way, but a client that does not read
// costs little more than what the engine writes in that time.
// Thread safety: any thread may call everything.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "http/request.hpp"

namespace millrace::http {

class Exchange;
class FormReader;
struct Connection;

// Where exchanges tell the server's thread that they have something for it.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  explicit Inbox(std::function<void()> wake) : wake_(std::move(wake)) {}
  // Wakes the server's thread, at once or at the end of this thread's WakeOnce, unless it was woken
  // already and has not yet taken what waits.
  void post(std::shared_ptr<Exchange> exchange);
  std::vector<std::shared_ptr<Exchange>> take();
  void close();  // from now on nothing is woken

  // Bytes of all bodies that are kept.
  std::uint64_t held_bytes() const { return held_bytes_; }
  void hold(std::uint64_t bytes) { held_bytes_ += bytes; }
  void let_go(std::uint64_t bytes) { held_bytes_ -= bytes; }

 private:
  friend class WakeOnce;
  void wake();

  std::atomic<std::uint64_t> held_bytes_ = 0;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> waiting_;
  bool woken_ = false;  // the server's thread was woken since it took what waited
  std::function<void()> wake_;
};

// While one lives, what its thread posts wakes the server's thread only at the end: the tokens of
// many streams that came in one message cost one wake, and the two threads do not take turns.
class WakeOnce {
 public:
  WakeOnce();
  ~WakeOnce();
  WakeOnce(const WakeOnce&) = delete;
  WakeOnce& operator=(const WakeOnce&) = delete;

 private:
  friend class Inbox;
  void add(std::shared_ptr<Inbox> inbox);
  static thread_local WakeOnce* current;
  WakeOnce* const outer_;  // around this one, in the same thread
  std::vector<std::shared_ptr<Inbox>> to_wake_;
};

// Beyond `bytes` for `wait_ms`, or at once beyond `most_bytes`, a queue takes no more.
struct QueueBounds {
  std::size_t bytes = 0, most_bytes = 0;
  std::uint32_t wait_ms = 0;
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Request request, std::shared_ptr<Inbox> inbox, QueueBounds bounds);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  const Request& request() const { return request_; }
  // The body, for the handler to use and free. Until then, or the exchange's end, it counts against
  // ServerLimits::all_body_bytes. Nobody may read request().body meanwhile.
  std::string take_body();
  // The reader that has taken the form, on a route for forms; once.
  std::shared_ptr<FormReader> take_form();

  void respond(Response response);
  // Sends status and headers; the body is what is written until end().
  void begin_stream(Response head);
  // False: nothing was taken, because too much waits, the client is gone, or no stream is open. A
  // piece may be of any size: what waits before it decides.
  bool write(std::string_view bytes);
  void end();
  void abort();  // closes the connection without an end, so that the client sees that it is cut

  bool answered() const;  // respond() or begin_stream() was called
  bool gone() const;      // the connection ended before the answer did
  // Calls this once if the connection ends before the answer does: on the server's thread, or at
  // once where it has ended.
  void on_gone(std::function<void()> callback);

 private:
  friend class Connections;
  enum class Phase : std::uint8_t { waiting, responded, streaming, ended, aborted };
  static constexpr long wait_for_more = 0, at_end = -1, cut_off = -2;

  // For the server's thread.
  void add_to_body(const char* data, std::size_t bytes);
  long read(char* to, std::size_t most);  // bytes, or one of the above
  void leave();                           // the connection has ended
  // Answers in place of who has the request, who is told as if the connection had ended. Nothing
  // happens to a request that is answered.
  void refuse(Response response);
  void finish();  // the answer is sent
  bool takes_more() const;
  void post();

  Request request_;
  std::shared_ptr<FormReader> form_;
  const std::shared_ptr<Inbox> inbox_;
  const QueueBounds bounds_;
  mutable std::mutex mutex_;
  Phase phase_ = Phase::waiting;
  Response response_;
  std::string queue_;
  std::size_t read_ = 0;       // of the queue
  std::int64_t over_us_ = -1;  // since when more than bounds_.bytes wait; below 0: they do not
  bool gone_ = false;
  std::function<void()> on_gone_;

  friend class Inbox;
  std::atomic<bool> posted_ = false;
  Connection* connection_ = nullptr;  // the server's thread alone uses it
};

}  // namespace millrace::http
