#include "http/batches/batch_worker.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "client/link/session.hpp"
#include "client/link/socket.hpp"
#include "schemas/base/log.hpp"

namespace millrace::http {
namespace {

constexpr std::int64_t look_us = 200 * us_per_ms;     // between two looks for new batches
constexpr std::int64_t pause_us = 5'000 * us_per_ms;  // before a batch is tried again
constexpr std::int64_t last_answer_us = 1'000 * us_per_ms;

// The runs of a worker. What goes wrong with one stops this one alone, and for a while.
class Runs final : public client::EventHandler {
 public:
  Runs(const BatchParts& parts, const BatchWorkerOptions& options, client::Session& session,
       net::Waker& waker)
      : parts_(parts), options_(options), session_(session), waker_(waker) {}

  bool idle() const { return runs_.empty() && none_left_; }
  void settle() {
    for (const auto& run : runs_) {
      if (goes_on(*run)) judge(*run, run->settle());
    }
  }

  Status tick() override {
    waker_.drain();
    const std::int64_t now_us = parts_.clock.monotonic_us();
    if (now_us - looked_us_ >= look_us) look(now_us);
    for (const auto& run : runs_) {
      if (goes_on(*run)) judge(*run, run->tick());
    }
    std::erase_if(runs_, [&](const auto& run) { return !goes_on(*run); });
    return {};
  }
  bool busy() const override {
    return std::ranges::any_of(runs_, [](const auto& run) { return run->busy(); });
  }
  void rang(const std::string& stream) override {
    for (const auto& run : runs_) run->rang(stream);
  }
  Result<bool> take(Envelope& answer) override {
    for (const auto& run : runs_) {
      if (!goes_on(*run)) continue;
      const auto taken = run->take(answer);
      if (!taken) {
        judge(*run, fail(taken.error()));
        return true;
      }
      if (*taken) return true;
    }
    return false;
  }

 private:
  // What failed is not used again: nobody knows what of it reached the disk.
  bool goes_on(const BatchRun& run) const { return !run.over() && !paused_.contains(run.id()); }
  void look(std::int64_t now_us) {
    looked_us_ = now_us;
    std::erase_if(paused_, [&](const auto& one) { return one.second <= now_us; });
    const auto ids = parts_.batches.unfinished(options_.tenant);
    none_left_ = ids.empty();
    // A check holds the names of all lines, so that there is one at a time.
    bool checking =
        std::ranges::any_of(runs_, [&](const auto& run) { return is_unchecked(run->id()); });
    for (const std::string& id : ids) {
      if (runs_.size() >= BatchWorker::runs_at_once) return;
      const bool runs =
          std::ranges::any_of(runs_, [&](const auto& run) { return run->id() == id; });
      if (runs || paused_.contains(id)) continue;
      const bool unchecked = is_unchecked(id);
      if (unchecked && std::exchange(checking, true)) continue;
      runs_.push_back(std::make_unique<BatchRun>(parts_, session_, id, options_.may_remove));
    }
  }
  bool is_unchecked(const std::string& id) const {
    const auto batch = parts_.batches.find(id);
    return batch && !openai::is_over(batch->object.status) && !batch->object.in_progress_s;
  }
  void judge(const BatchRun& run, const Status& status) {
    if (status) return;
    log_warn("the batch " + run.id() + " pauses, and goes on from what is on disk", status.error());
    paused_[run.id()] = parts_.clock.monotonic_us() + pause_us;
  }

  const BatchParts& parts_;
  const BatchWorkerOptions& options_;
  client::Session& session_;
  net::Waker& waker_;
  std::vector<std::unique_ptr<BatchRun>> runs_;
  std::map<std::string, std::int64_t> paused_;  // until when
  std::int64_t looked_us_ = 0;
  bool none_left_ = false;
};

}  // namespace

Result<std::unique_ptr<BatchWorker>> BatchWorker::start(const BatchParts& parts,
                                                        BatchWorkerOptions options) {
  MILLRACE_ASSIGN(auto waker, net::Waker::create());
  std::unique_ptr<BatchWorker> worker(new BatchWorker(parts, std::move(options), std::move(waker)));
  worker->thread_ = std::thread([self = worker.get()] { self->run(); });
  return worker;
}

BatchWorker::~BatchWorker() {
  stopping_ = true;
  waker_->wake();
  if (thread_.joinable()) thread_.join();
}

bool BatchWorker::wake() {
  const std::scoped_lock lock(over_mutex_);
  if (over_) return false;
  waker_->wake();
  return true;
}

// A batch whose wake came when nothing seemed to be left is seen here; a later wake is refused.
bool BatchWorker::may_leave() {
  const std::scoped_lock lock(over_mutex_);
  over_ = parts_.batches.unfinished(options_.tenant).empty();
  return over_;
}

Status BatchWorker::serve() {
  MILLRACE_ASSIGN(auto socket, client::BrokerSocket::open(options_.key, waker_->descriptor()));
  client::SessionOptions session_options;
  session_options.endpoint = options_.endpoint;
  session_options.name = "batches-" + std::to_string(::getpid());
  session_options.key = options_.key;
  MILLRACE_ASSIGN(auto session, client::Session::open(std::move(session_options), parts_.clock,
                                                      std::move(socket)));
  Runs runs(parts_, options_, *session, *waker_);
  client::EventLoop loop(*session, parts_.clock, {});
  std::int64_t idle_us = 0;  // since when nothing is left to do
  const Status served = loop.run({&runs}, [&] {
    if (stopping_) return true;
    if (!runs.idle()) {
      idle_us = 0;
      return false;
    }
    if (idle_us == 0) idle_us = parts_.clock.monotonic_us();
    // What was asked last, such as to close a batch, is answered before the end.
    const bool late = parts_.clock.monotonic_us() - idle_us > last_answer_us;
    return (late || session->unanswered() == 0) && may_leave();
  });
  runs.settle();
  return served;
}

void BatchWorker::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  if (const Status served = serve(); !served) {
    log_warn("the batches of a tenant wait for another session", served.error());
  }
  const std::scoped_lock lock(over_mutex_);
  over_ = true;
}

}  // namespace millrace::http
