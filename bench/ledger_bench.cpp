// Measures how much the SQLite ledger does on this machine's disk, compared with the cost of the
// disk's fsync.
//
//   ledger_bench [FOLDER] [SECONDS]      (a folder on the disk to be measured; 2 s a figure)
//
// Prints one JSON object: the fsync latency of the bare disk; durable submits per second through
// the ledger's thread in messages of 1000 jobs, of 100, and of one job with 64 and with one in
// flight, each with its commits (one fsync each), its commit latency and the % of what the fsync
// alone would allow at the same jobs per commit; the latency of claims with a long queue, of
// claims that look ahead for prompts that begin alike, and of renewals; jobs claimed and ended per
// second.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "broker/ledger/ledger_thread.hpp"
#include "broker/ledger/sqlite_ledger.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {
namespace {

using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

// Times appends of 4 KiB, each synced: the least that a commit can cost.
std::vector<double> fsync_us(const std::string& folder) {
  const std::string path = folder + "/fsync";
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  const std::string page(4096, 'x');
  std::vector<double> out;
  for (int i = 0; i < 200; ++i) {
    if (::write(file, page.data(), page.size()) != static_cast<ssize_t>(page.size())) break;
    const auto start = Steady::now();
    if (::fdatasync(file) != 0) break;
    out.push_back(seconds_since(start) * 1e6);
  }
  ::close(file);
  std::filesystem::remove(path);
  return out;
}

Operation submit(std::uint64_t n) {
  SubmitJob op;
  op.tenant = default_tenant;
  op.id = "job-" + std::to_string(n * 0x9e3779b97f4a7c15u);  // unordered, like a hash
  op.hash = op.id;
  op.body.assign(600, 'b');
  op.model = "*";
  op.stream = "results";
  op.batch = "batch";
  return op;
}

// A ledger with its thread, and a way to wait for its answers.
class Bench {
 public:
  explicit Bench(const std::string& path) {
    SqliteLedgerOptions options;
    options.publish = [](const EndingJob&, const Outcome& outcome) {
      return Published{outcome.result, outcome.state};
    };
    auto ledger = open_sqlite_ledger(path, std::move(options));
    if (!ledger) {
      std::fprintf(stderr, "%s\n", ledger.error().text().c_str());
      std::exit(1);
    }
    thread_ = std::make_unique<LedgerThread>(*std::move(ledger), [this] {
      const std::lock_guard lock(mutex_);
      woken_.notify_one();
    });
  }

  std::vector<Completion> wait() {
    std::vector<Completion> out;
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [&] {
      out = thread_->take();
      return !out.empty();
    });
    for (const Completion& completion : out) {
      if (!completion.reply) {
        std::fprintf(stderr, "%s\n", completion.reply.error().text().c_str());
        std::exit(1);
      }
    }
    return out;
  }

  Reply ask(Operation operation) {
    (void)thread_->post(0, std::move(operation));
    return *std::move(wait().at(0).reply);
  }

  // Keeps `in_flight` messages of `per_message` jobs queued for the ledger, for `seconds`.
  void submits(const char* name, std::uint64_t per_message, std::uint64_t in_flight, double seconds,
               double fsync) {
    const LedgerStatistics before = thread_->statistics();
    const auto start = Steady::now();
    std::uint64_t sent = 0, answered = 0;
    while (true) {
      const bool more = seconds_since(start) < seconds;
      while (more && sent - answered + per_message <= per_message * in_flight) {
        std::vector<Operation> message;
        for (std::uint64_t i = 0; i < per_message; ++i) message.push_back(submit(next_++));
        if (!thread_->post(1, std::move(message))) break;
        sent += per_message;
      }
      if (!more && sent == answered) break;
      answered += wait().size();
    }
    report(name, before, answered, seconds_since(start), fsync);
  }

  void ends(std::uint64_t jobs, double fsync) {
    const LedgerStatistics before = thread_->statistics();
    const auto start = Steady::now();
    std::uint64_t done = 0;
    while (done < jobs) {
      Claim claim{default_tenant, "engine", "model", 256, INT64_MAX};
      const Reply claimed = ask(claim);
      std::vector<Operation> finishes;
      for (const ClaimedJob& job : std::get<ClaimReply>(claimed).jobs) {
        finishes.emplace_back(Finish{job.lease, JobState::completed, Body(2000, 'r'), "engine"});
      }
      if (finishes.empty()) break;
      std::size_t waiting = finishes.size();
      done += waiting;
      (void)thread_->post(2, std::move(finishes));
      while (waiting > 0) waiting -= wait().size();
    }
    report("claim_and_finish_256", before, done, seconds_since(start), fsync);
  }

  // A long queue could only slow down the look-up of a claim, not its commit.
  void claims(int rounds) {
    claims("claim_16", Claim{default_tenant, "engine", "model", 16, INT64_MAX}, rounds);
  }
  // The prompts of these jobs begin in one of 40 ways. Of these the engine holds ten and others the
  // rest; or others hold all, so that each claim looks ahead as far as it may.
  void claims_ahead(int rounds) {
    std::vector<Operation> jobs;
    for (std::uint64_t i = 0; i < 5'000; ++i) {
      SubmitJob job = std::get<SubmitJob>(submit(next_++));
      job.tenant = "ahead";
      job.prefix = 1 + i * 0x9e3779b97f4a7c15u % 40;
      jobs.push_back(std::move(job));
    }
    std::size_t waiting = jobs.size();
    (void)thread_->post(1, std::move(jobs));
    while (waiting > 0) waiting -= wait().size();
    std::vector<std::uint64_t> any(40);
    std::iota(any.begin(), any.end(), 1);
    Claim claim{"ahead", "engine", "model", 16, INT64_MAX};
    claim.prefixes.any = std::make_shared<const std::vector<std::uint64_t>>(any);
    claims("claim_16_all_elsewhere", claim, rounds);
    claim.prefixes.own.assign(any.begin(), any.begin() + 10);
    claims("claim_16_a_quarter_own", claim, rounds);
  }
  void claims(const char* name, const Claim& claim, int rounds) {
    std::vector<double> us;
    for (int i = 0; i < rounds; ++i) {
      const auto start = Steady::now();
      const Reply reply = ask(claim);
      us.push_back(seconds_since(start) * 1e6);
      std::vector<LeaseId> leases;
      for (const ClaimedJob& job : std::get<ClaimReply>(reply).jobs) leases.push_back(job.lease);
      ask(GiveBack{leases, Blame::none, ""});
    }
    const Reply count = ask(Count{claim.tenant, ""});
    std::printf("  \"%s\": {\"queued\": %llu, \"p50_us\": %.0f, \"p99_us\": %.0f},\n", name,
                static_cast<unsigned long long>(std::get<CountReply>(count).counts.queued),
                quantile(us, 0.5), quantile(us, 0.99));
  }

  // A heartbeat of an engine that holds 256 leases.
  void renewals(int rounds) {
    std::vector<LeaseId> leases;
    const Reply reply = ask(Claim{default_tenant, "engine", "model", 256, INT64_MAX});
    for (const ClaimedJob& job : std::get<ClaimReply>(reply).jobs) leases.push_back(job.lease);
    std::vector<double> us;
    for (int i = 0; i < rounds; ++i) {
      const auto start = Steady::now();
      ask(Renew{"engine", leases, 1'000'000 + i});
      us.push_back(seconds_since(start) * 1e6);
    }
    ask(GiveBack{leases, Blame::none, ""});
    std::printf("  \"renew_256\": {\"leases\": %zu, \"p50_us\": %.0f, \"p99_us\": %.0f},\n",
                leases.size(), quantile(us, 0.5), quantile(us, 0.99));
  }

 private:
  static void report(const char* name, const LedgerStatistics& before, std::uint64_t jobs,
                     double seconds, double fsync, const LedgerStatistics& after) {
    LatencyHistogram commit = after.commit, wait = after.wait;
    for (std::size_t i = 0; i < commit.buckets.size(); ++i) {
      commit.buckets[i] -= before.commit.buckets[i];
      wait.buckets[i] -= before.wait.buckets[i];
    }
    commit.count -= before.commit.count;
    wait.count -= before.wait.count;
    const auto commits = static_cast<double>(after.commits - before.commits);
    const double rate = static_cast<double>(jobs) / seconds;
    const double possible = 1e6 / fsync * static_cast<double>(jobs) / commits;
    std::printf(
        "  \"%s\": {\"jobs_per_s\": %.0f, \"syncs_per_s\": %.0f, \"jobs_per_commit\": %.1f, "
        "\"commit_p50_us\": %llu, \"commit_p99_us\": %llu, \"wait_p50_us\": %llu, "
        "\"wait_p99_us\": %llu, \"percent_of_fsync_limit\": %.0f},\n",
        name, rate, commits / seconds, static_cast<double>(jobs) / commits,
        static_cast<unsigned long long>(commit.quantile_us(0.5)),
        static_cast<unsigned long long>(commit.quantile_us(0.99)),
        static_cast<unsigned long long>(wait.quantile_us(0.5)),
        static_cast<unsigned long long>(wait.quantile_us(0.99)), 100 * rate / possible);
    std::fflush(stdout);
  }
  void report(const char* name, const LedgerStatistics& before, std::uint64_t jobs, double seconds,
              double fsync) {
    report(name, before, jobs, seconds, fsync, thread_->statistics());
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  std::unique_ptr<LedgerThread> thread_;
  std::uint64_t next_ = 1;
};

}  // namespace
}  // namespace millrace::broker

int main(int argc, char** argv) {
  using namespace millrace::broker;
  const std::string base = argc > 1 ? argv[1] : std::filesystem::temp_directory_path().string();
  const double seconds = argc > 2 ? std::stod(argv[2]) : 2;
  const std::string folder = base + "/ledger-bench-" + millrace::random_id();
  std::filesystem::create_directories(folder);
  std::vector<double> syncs = fsync_us(folder);
  const double fsync = quantile(syncs, 0.5);
  std::printf("{\n  \"fsync\": {\"p50_us\": %.0f, \"p99_us\": %.0f},\n", fsync,
              quantile(syncs, 0.99));
  {
    Bench bench(folder + "/ledger");
    bench.submits("submit_bulk_1000", 1000, 4, seconds, fsync);
    bench.submits("submit_bulk_100", 100, 8, seconds, fsync);
    bench.submits("submit_single_64", 1, 64, seconds, fsync);
    bench.submits("submit_single_1", 1, 1, seconds, fsync);
    bench.claims(100);
    bench.claims_ahead(100);
    bench.renewals(200);
    bench.ends(20'000, fsync);
  }
  std::printf("  \"ledger_bytes\": %llu\n}\n",
              static_cast<unsigned long long>(std::filesystem::file_size(folder + "/ledger")));
  std::filesystem::remove_all(folder);
}
