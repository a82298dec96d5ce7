// Measures what retention costs the commits of a ledger under a steady load, and whether its files
// stop growing.
//
//   retention_bench [FOLDER] [SECONDS] [JOBS_PER_SECOND] [KEEP_SECONDS]
//
// Jobs are kept by their age, results by their bytes: as many as come in KEEP_SECONDS.
// Each hundredth of a second brings a message of new jobs, a claim, and the ends of the jobs of the
// claim before, with results of 1,100 bytes. The run is repeated without retention, in a folder of
// its own, for a quarter of the time: what a commit takes there is what the disk and the ledger
// take anyway. Prints one JSON object for each: the time of a commit (apply), of the housekeeping
// after it (idle) and from posting an operation to its completion, in ms, the share of commits
// that take more than three times the median, and the size of the files in MiB in each tenth of
// the run. Beside them stands the disk's own fdatasync of 4 KiB, before and after.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/must.hpp"
#include "broker/core/retention_pace.hpp"
#include "broker/ledger/ledger_thread.hpp"
#include "broker/ledger/sqlite_ledger.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {
namespace {

using Steady = std::chrono::steady_clock;
using bench::must;

constexpr int beats_per_second = 100;
constexpr std::uint64_t result_bytes = 1'100;

double ms_since(Steady::time_point start) {
  return std::chrono::duration<double, std::milli>(Steady::now() - start).count();
}

struct Times {
  std::vector<double> ms;
  double at(double q) {
    if (ms.empty()) return 0;
    std::sort(ms.begin(), ms.end());
    return ms[std::min(ms.size() - 1,
                       static_cast<std::size_t>(q * static_cast<double>(ms.size())))];
  }
  double share_above(double limit) const {
    const auto above = std::count_if(ms.begin(), ms.end(), [&](double x) { return x > limit; });
    return ms.empty() ? 0 : static_cast<double>(above) / static_cast<double>(ms.size());
  }
  std::string text() {
    char out[200];
    std::snprintf(out, sizeof out,
                  "{\"p50\": %.3f, \"p99\": %.3f, \"p99.9\": %.3f, \"most\": %.3f, \"count\": %zu}",
                  at(0.5), at(0.99), at(0.999), at(1), ms.size());
    return out;
  }
};

std::string sync_text(const std::string& folder) {
  const std::string path = folder + "/sync";
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  const std::string page(4096, 'x');
  Times times;
  for (int i = 0; i < 500; ++i) {
    const auto start = Steady::now();
    if (::write(file, page.data(), page.size()) != static_cast<ssize_t>(page.size())) break;
    if (::fdatasync(file) != 0) break;
    times.ms.push_back(ms_since(start));
  }
  ::close(file);
  std::filesystem::remove(path);
  return times.text();
}

// Times every call.
class TimedLedger final : public Ledger {
 public:
  TimedLedger(std::unique_ptr<Ledger> to, Times& apply, Times& idle)
      : to_(std::move(to)), apply_(apply), idle_(idle) {}
  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                           std::int64_t now_us) override {
    const auto start = Steady::now();
    auto replies = to_->apply(operations, now_us);
    apply_.ms.push_back(ms_since(start));
    return replies;
  }
  Status idle() override {
    const auto start = Steady::now();
    Status done = to_->idle();
    idle_.ms.push_back(ms_since(start));
    return done;
  }

 private:
  std::unique_ptr<Ledger> to_;
  Times &apply_, &idle_;
};

struct Load {
  std::string folder;
  double seconds = 600;
  std::uint64_t jobs_per_second = 1'000, keep_s = 60;  // 0: keeps everything
};

class Run {
 public:
  explicit Run(const Load& load) : load_(load) {
    std::filesystem::create_directories(load_.folder);
    SqliteLedgerOptions options;
    options.publish = [](const EndingJob&, const Outcome& outcome) {
      return Published{outcome.result, outcome.state};
    };
    auto ledger = must(open_sqlite_ledger(load_.folder + "/ledger", std::move(options)));
    thread_ = std::make_unique<LedgerThread>(
        std::make_unique<TimedLedger>(std::move(ledger), apply_, idle_), [] {});
  }

  void go() {
    const auto start = Steady::now();
    const auto beats = static_cast<std::uint64_t>(load_.seconds * beats_per_second);
    for (std::uint64_t beat = 0; beat < beats; ++beat) {
      std::this_thread::sleep_until(start + beat * std::chrono::milliseconds(10));
      take();
      post();
      if (beat % (beats / 10) == beats / 10 - 1) sizes_.push_back(files_mib());
    }
    thread_->stop();
  }
  std::string text() {
    std::string sizes;
    for (const double mib : sizes_) {
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(static_cast<int>(mib));
    }
    const double median = apply_.at(0.5);
    char share[100];
    std::snprintf(share, sizeof share, "%.5f", apply_.share_above(3 * median));
    return "\"jobs\": " + std::to_string(ended_) +
           ", \"deleted_rows\": " + std::to_string(deleted_) + ", \"apply_ms\": " + apply_.text() +
           ", \"share_above_3x\": " + share + ", \"idle_ms\": " + idle_.text() +
           ", \"posted_to_completed_ms\": " + wait_.text() + ", \"files_mib\": [" + sizes + "]";
  }

 private:
  void post_one(Operation operation) {
    const std::uint64_t token = next_token_++;
    posted_[token] = Steady::now();
    must(thread_->post(token, std::move(operation)));
  }
  void post() {
    for (std::uint64_t i = 0; i < load_.jobs_per_second / beats_per_second; ++i) {
      SubmitJob op;
      op.tenant = default_tenant;
      op.id = "job-" + std::to_string(next_job_++ * 0x9e3779b97f4a7c15u);  // unordered, like a hash
      op.hash = op.id;
      op.body.assign(600, 'b');
      op.model = "*";
      op.stream = "results";
      op.batch = "batch-" + std::to_string(next_job_ / 100'000);
      post_one(std::move(op));
    }
    Claim claim{default_tenant, "engine", "model",
                static_cast<std::uint32_t>(load_.jobs_per_second / beats_per_second), INT64_MAX};
    post_one(std::move(claim));
    if (load_.keep_s != 0 && now_us() >= pace_.next_us() && !retaining_) {
      pace_.pass_begins(now_us());
      retain({});
    }
  }
  // As the broker does: the next step when the one before is on disk.
  void retain(StreamPlace after) {
    const auto age_us = static_cast<std::int64_t>(load_.keep_s) * 1'000'000;
    retaining_ = true;
    const std::uint64_t bytes = load_.keep_s * load_.jobs_per_second * result_bytes;
    post_one(Retain{{{0, bytes, age_us}, age_us}, std::move(after), pace_.rows()});
  }
  void take() {
    for (Completion& done : thread_->take()) {
      if (!done.reply) bench::die(done.reply.error());
      const auto posted = posted_.extract(done.token);
      wait_.ms.push_back(ms_since(posted.mapped()));
      if (auto* claimed = std::get_if<ClaimReply>(&*done.reply)) {
        for (const ClaimedJob& job : claimed->jobs) {
          ++ended_;
          post_one(
              Finish{job.lease, JobState::completed, std::string(result_bytes, 'r'), "engine"});
        }
      } else if (auto* step = std::get_if<RetainReply>(&*done.reply)) {
        deleted_ += step->entries + step->jobs;
        retaining_ = false;
        pace_.step_ends(step->entries + step->jobs);
        step->more ? pace_.pass_goes_on(now_us()) : pace_.pass_ends(now_us());
        if (step->more) retain(step->after);
      }
    }
  }
  static std::int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(Steady::now().time_since_epoch())
        .count();
  }
  double files_mib() const {
    double bytes = 0;
    for (const char* name : {"/ledger", "/ledger-wal"}) {
      bytes += static_cast<double>(std::filesystem::file_size(load_.folder + name));
    }
    return bytes / (1 << 20);
  }

  const Load load_;
  Times apply_, idle_, wait_;
  std::unique_ptr<LedgerThread> thread_;
  std::map<std::uint64_t, Steady::time_point> posted_;
  std::vector<double> sizes_;
  std::uint64_t next_token_ = 0, next_job_ = 0, ended_ = 0, deleted_ = 0;
  RetentionPace pace_{1'000'000};
  bool retaining_ = false;
};

void measure(const char* name, const Load& load) {
  std::filesystem::create_directories(load.folder);
  const std::string before = sync_text(load.folder);
  Run run(load);
  run.go();
  std::printf(
      "{\"run\": \"%s\", \"seconds\": %.0f, %s, \"sync_before_ms\": %s, "
      "\"sync_after_ms\": %s}\n",
      name, load.seconds, run.text().c_str(), before.c_str(), sync_text(load.folder).c_str());
  std::fflush(stdout);
  std::filesystem::remove_all(load.folder);
}

}  // namespace
}  // namespace millrace::broker

int main(int argc, char** argv) {
  using namespace millrace::broker;
  Load load;
  load.folder = (argc > 1 ? argv[1] : std::string(".")) + "/retention-" + millrace::random_id();
  if (argc > 2) load.seconds = std::strtod(argv[2], nullptr);
  if (argc > 3) load.jobs_per_second = std::strtoull(argv[3], nullptr, 10);
  if (argc > 4) load.keep_s = std::strtoull(argv[4], nullptr, 10);
  if (load.seconds < 1 || load.jobs_per_second < 100 || load.keep_s == 0) {
    millrace::bench::die(
        "retention_bench [FOLDER] [SECONDS >= 1] [JOBS_PER_SECOND >= 100] "
        "[KEEP_SECONDS >= 1]");
  }
  measure("with retention", load);
  load.keep_s = 0;
  load.seconds /= 4;
  measure("without", load);
  return 0;
}
