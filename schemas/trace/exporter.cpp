#include "schemas/trace/exporter.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "schemas/base/clock.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/random_id.hpp"
#include "schemas/trace/otlp.hpp"
#include "schemas/trace/post.hpp"

namespace millrace::trace {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t last_posts_us = 2'000 * us_per_ms;  // at the end of the program
constexpr std::int64_t tell_again_us = 60'000 * us_per_ms;
constexpr int most_posts = 5;  // of one batch
constexpr std::uint64_t first_pause_ms = 500, longest_pause_ms = 30'000;
constexpr std::size_t told_bytes = 300;  // of an answer, in the log

bool is_success(long status) {
  return status >= 200 && status < 300;
}

// Whether the same batch may be taken a little later.
bool may_try_again(long status) {
  return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

// Growing pauses, of random length so that many programs do not come back at the same moment.
std::uint64_t pause_ms(int posts, std::uint64_t asked_ms) {
  const std::uint64_t longest = std::min(longest_pause_ms, first_pause_ms << posts);
  const std::uint64_t pause = longest / 2 + random_bits() % (longest / 2 + 1);
  return std::clamp(asked_ms, pause, std::max(pause, longest_pause_ms));
}

class OwnExporter final : public Exporter {
 public:
  explicit OwnExporter(Settings settings) : settings_(std::move(settings)) {}
  ~OwnExporter() override;

  Status begin();
  const Sampler& sampler() const override { return settings_.sampler; }
  void add(Span span) override;
  ExportCounts counts() const override { return {sent_.load(), dropped_.load(), failures_.load()}; }

 private:
  void run();
  std::vector<Span> next_batch();
  void deliver(const std::vector<Span>& batch);
  bool pause(std::uint64_t ms);  // false: the time is up
  void taken(std::size_t spans, const Posted& posted);
  void lost(std::size_t spans, const Posted& posted);
  void tell_overflow();

  const Settings settings_;
  const SystemClock clock_;
  std::unique_ptr<Post> post_;
  std::atomic<std::uint64_t> sent_ = 0, dropped_ = 0, failures_ = 0;
  std::atomic<std::int64_t> until_us_ = std::numeric_limits<std::int64_t>::max();
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Span> queue_;
  std::uint64_t overflowed_ = 0;  // dropped since the log said so
  bool stopping_ = false;
  // The thread's own: whether the log has said that the receiver takes nothing, and when it has
  // said that spans found no room.
  bool losing_ = false;
  std::int64_t told_us_ = -tell_again_us;
  std::thread thread_;
};

Status OwnExporter::begin() {
  MILLRACE_ASSIGN(post_, Post::open(settings_, until_us_));
  thread_ = std::thread([this] { run(); });
  return {};
}

OwnExporter::~OwnExporter() {
  until_us_ = clock_.monotonic_us() + last_posts_us;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void OwnExporter::add(Span span) {
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= settings_.queue_spans || stopping_) {
      ++overflowed_;
      ++dropped_;
      return;
    }
    queue_.push_back(std::move(span));
    full = queue_.size() == settings_.batch_spans;
  }
  if (full) changed_.notify_one();
}

// Waits for a whole batch, or for as long as spans may wait. Empty: the program ends, and nothing
// is left.
std::vector<Span> OwnExporter::next_batch() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait_for(lock, milliseconds(settings_.delay_ms),
                      [this] { return stopping_ || queue_.size() >= settings_.batch_spans; });
    if (!queue_.empty() || stopping_) break;
  }
  std::vector<Span> batch;
  const std::size_t spans = std::min<std::size_t>(queue_.size(), settings_.batch_spans);
  for (std::size_t i = 0; i < spans; ++i) {
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

void OwnExporter::run() {
  while (true) {
    const std::vector<Span> batch = next_batch();
    tell_overflow();
    if (batch.empty()) return;
    deliver(batch);
  }
}

void OwnExporter::deliver(const std::vector<Span>& batch) {
  const std::string body = otlp_json(settings_.resource, batch);
  for (int posts = 1;; ++posts) {
    const Posted posted = post_->send(body);
    if (is_success(posted.status)) return taken(batch.size(), posted);
    ++failures_;
    if (!may_try_again(posted.status) || posts == most_posts ||
        !pause(pause_ms(posts, posted.wait_ms))) {
      return lost(batch.size(), posted);
    }
  }
}

bool OwnExporter::pause(std::uint64_t ms) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, milliseconds(ms), [this] { return stopping_; });
}

void OwnExporter::taken(std::size_t spans, const Posted& posted) {
  const Partly partly = read_answer(posted.body);
  const std::uint64_t rejected = std::min<std::uint64_t>(partly.rejected, spans);
  sent_ += spans - rejected;
  dropped_ += rejected;
  if (rejected > 0 || !partly.message.empty()) {
    log_warn("the receiver of spans did not take all of a batch",
             {{"rejected", rejected}, {"said", partly.message.substr(0, told_bytes)}});
  }
  if (std::exchange(losing_, false)) log_info("spans are delivered again");
}

void OwnExporter::lost(std::size_t spans, const Posted& posted) {
  dropped_ += spans;
  if (std::exchange(losing_, true)) return;
  log_warn("spans are not delivered, and dropped until the receiver takes them",
           {{"url", without_password(settings_.url)},
            {"status", posted.status},
            {"error", posted.error},
            {"said", posted.body.substr(0, told_bytes)}});
}

void OwnExporter::tell_overflow() {
  const std::int64_t now_us = clock_.monotonic_us();
  std::uint64_t spans = 0;
  if (now_us - told_us_ >= tell_again_us) {
    const std::lock_guard lock(mutex_);
    spans = std::exchange(overflowed_, 0);
  }
  if (spans > 0) {
    told_us_ = now_us;
    log_warn("spans were dropped, because as many as may wait for the receiver did",
             {{"spans", spans}});
  }
}

}  // namespace

Result<std::shared_ptr<Exporter>> Exporter::start(Settings settings) {
  if (settings.url.empty()) return nullptr;
  log_info("spans of traces are sent", {{"to", without_password(settings.url)}});
  auto exporter = std::make_shared<OwnExporter>(std::move(settings));
  MILLRACE_TRY(exporter->begin());
  return std::shared_ptr<Exporter>(std::move(exporter));
}

}  // namespace millrace::trace
