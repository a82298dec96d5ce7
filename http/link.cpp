#include "http/link.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "client/link/session.hpp"
#include "client/link/socket.hpp"
#include "schemas/base/log.hpp"

namespace millrace::http {
namespace {

constexpr std::int64_t last_wait_us = 1'000 * us_per_ms;

// Lets the loop go on with work that other threads have posted.
class Posted final : public client::EventHandler {
 public:
  explicit Posted(std::function<void()> work) : work_(std::move(work)) {}
  Status tick() override {
    work_();
    return {};
  }

 private:
  std::function<void()> work_;
};

}  // namespace

Result<std::unique_ptr<Link>> Link::start(LinkOptions options) {
  MILLRACE_ASSIGN(auto waker, net::Waker::create());
  std::unique_ptr<Link> link(new Link(std::move(options), std::move(waker)));
  link->used_us_ = link->clock_.monotonic_us();
  link->thread_ = std::thread([self = link.get()] { self->run(); });
  return link;
}

Link::~Link() {
  stopping_ = true;
  waker_->wake();
  if (thread_.joinable()) thread_.join();
}

void Link::post(Work work) {
  used_us_ = clock_.monotonic_us();
  {
    const std::scoped_lock lock(mutex_);
    if (!end_) {
      in_use_ = true;
      work_.push_back(std::move(work));
      if (work_.size() == 1) waker_->wake();
      return;
    }
  }
  work(nullptr, *end_);  // it does not change any more
}

std::vector<Link::Work> Link::take_work() {
  waker_->drain();
  const std::scoped_lock lock(mutex_);
  return std::exchange(work_, {});
}

void Link::do_work(client::Session& session, Desk& desk) {
  // Work waits while the session is being made, but not for a broker that stays away.
  const bool away = session.away_ms() > options_.away_ms;
  if (!away && (!session.ready() || !desk.placed())) return waker_->drain();
  for (const Work& work : take_work()) {
    if (away) {
      work(nullptr, {Code::unreachable, "the broker does not answer", "try again in a while", {}});
    } else if (desk.no_reader()) {
      work(nullptr, *desk.no_reader());
    } else {
      work(&desk, {});
    }
  }
  const std::scoped_lock lock(mutex_);
  in_use_ = !work_.empty() || desk.following();
}

Status Link::serve() {
  MILLRACE_ASSIGN(auto socket, client::BrokerSocket::open(options_.key, waker_->descriptor()));
  client::SessionOptions session_options;
  session_options.endpoint = options_.endpoint;
  session_options.name = "http-" + std::to_string(::getpid());
  session_options.key = options_.key;
  MILLRACE_ASSIGN(auto session,
                  client::Session::open(std::move(session_options), clock_, std::move(socket)));
  Desk desk(*session, clock_, options_.stream);
  Posted posted([&] { do_work(*session, desk); });
  client::EventLoop loop(*session, clock_, {});
  // What was asked last, such as to cancel jobs, is answered before the end.
  std::int64_t end_us = 0;
  const Status served = loop.run({&posted, &desk}, [&] {
    if (!stopping_) return false;
    if (end_us == 0) end_us = clock_.monotonic_us() + last_wait_us;
    if (clock_.monotonic_us() >= end_us || !session->ready()) return true;
    const std::scoped_lock lock(mutex_);
    return work_.empty() && !desk.asking();
  });
  const Error error = served ? Error{Code::draining, "the server stops", {}, {}} : served.error();
  {
    const std::scoped_lock lock(mutex_);
    end_ = error;
  }
  desk.end(error);
  return served;
}

void Link::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "http-session");
  const Status served = serve();
  if (!served) log_warn("a session of the HTTP face has ended", served.error());
  {
    const std::scoped_lock lock(mutex_);
    if (!end_) end_ = served ? Error{Code::draining, "the server stops", {}, {}} : served.error();
  }
  for (const Work& work : take_work()) work(nullptr, *end_);
  in_use_ = false;
  over_ = true;
}

}  // namespace millrace::http
