// Measures durable submits: how many jobs a second a broker acknowledges, through real sockets, the
// SQLite ledger and its syncs. Prints one JSON object.
//
//   build/bin/broker_bench [--jobs 50000] [--per-message 500] [--producers 2] [--in-flight 4]
//                          [--prompt-bytes 600] [--ledger DIR]
//
// An acknowledgement comes after the commit that holds the job. The program also prints the latency
// from send to acknowledgement, the latency of the ledger's commits, the syncs (one a commit) a
// second, and the time of a bare write and fdatasync of 256 KiB in the same folder.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "broker/server/server.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/codec.hpp"

namespace {

using namespace millrace;

struct Settings {
  std::uint64_t jobs = 50'000;
  std::uint32_t per_message = 500, producers = 2, in_flight = 4, prompt_bytes = 600;
  std::string folder;
};

double seconds_now() {
  static const SystemClock clock;
  return static_cast<double>(clock.monotonic_us()) * 1e-6;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto index = static_cast<std::size_t>(p * static_cast<double>(values.size() - 1));
  return values[index];
}

// One connection that keeps `in_flight` messages unanswered.
class Producer {
 public:
  Producer(const Settings& settings, std::uint32_t index, std::uint64_t jobs)
      : settings_(settings), index_(index), left_(jobs) {}

  Status run(net::Context& context, const std::string& endpoint) {
    MILLRACE_ASSIGN(auto socket, net::Socket::open(context, net::Kind::dealer));
    MILLRACE_TRY(socket.connect(endpoint));
    net::Poller poller;
    poller.add(socket);
    poller.watch_writable(0, true);
    MILLRACE_TRY(poller.wait(5'000));
    poller.watch_writable(0, false);
    Hello hello;
    hello.name = "bench";
    MILLRACE_TRY(socket.send_frame(encode({next_id_++, hello})));
    while (left_ > 0 || !sent_.empty()) {
      while (welcome_ && left_ > 0 && sent_.size() < settings_.in_flight) {
        MILLRACE_TRY(send(socket));
      }
      MILLRACE_ASSIGN(const bool any, poller.wait(10'000));
      if (!any) return fail(Code::timed_out, "the broker does not answer");
      MILLRACE_TRY(receive(socket));
    }
    return {};
  }
  const std::vector<double>& latencies_ms() const { return latencies_ms_; }

 private:
  Status send(net::Socket& socket) {
    Submit submit;
    const auto count = std::min<std::uint64_t>(left_, settings_.per_message);
    for (std::uint64_t i = 0; i < count; ++i) {
      Job job;
      job.id = "p" + std::to_string(index_) + "-" + std::to_string(left_ - i);
      job.custom_id = job.id;
      job.model = "*";
      job.batch = "bench";
      job.request.prompt = std::string(settings_.prompt_bytes, 'x') + job.id;
      submit.jobs.push_back(encode_job(job));
    }
    left_ -= count;
    sent_[next_id_] = seconds_now();
    return socket.send_frame(encode({next_id_++, std::move(submit)}));
  }

  Status receive(net::Socket& socket) {
    while (true) {
      MILLRACE_ASSIGN(auto received, socket.receive());
      if (!received) return {};
      MILLRACE_ASSIGN(const auto envelope, decode_envelope(received->back()));
      if (std::holds_alternative<Welcome>(envelope.message)) welcome_ = true;
      if (const auto* refused = std::get_if<Refused>(&envelope.message)) {
        return fail(refused->error);
      }
      const auto* answer = std::get_if<Submitted>(&envelope.message);
      if (answer == nullptr) continue;
      for (const auto& job : answer->answers) {
        if (job.error) return fail(*job.error);
      }
      latencies_ms_.push_back(1e3 * (seconds_now() - sent_[envelope.id]));
      sent_.erase(envelope.id);
    }
  }

  const Settings& settings_;
  std::uint32_t index_;
  std::uint64_t left_, next_id_ = 1;
  bool welcome_ = false;
  std::map<std::uint64_t, double> sent_;
  std::vector<double> latencies_ms_;
};

// Measures the disk's limit: appends and syncs `bytes` bytes repeatedly.
Result<std::vector<double>> bare_syncs_ms(const std::string& folder, std::size_t bytes) {
  const std::string path = folder + "/sync-probe";
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (file < 0) return fail(Code::io_error, "cannot write " + path);
  const std::string block(bytes, 'x');
  std::vector<double> times_ms;
  Status status;
  for (int i = 0; i < 100 && status; ++i) {
    const double start = seconds_now();
    if (::write(file, block.data(), block.size()) < 0 || ::fdatasync(file) != 0) {
      status = fail(Code::io_error, "cannot sync " + path);
    }
    times_ms.push_back(1e3 * (seconds_now() - start));
  }
  ::close(file);
  ::unlink(path.c_str());
  MILLRACE_TRY(std::move(status));
  return times_ms;
}

Result<nlohmann::json> measure(const Settings& settings) {
  broker::ServerOptions options;
  options.ledger.folder = settings.folder;
  options.clients = "tcp://127.0.0.1:*";
  options.engines = "tcp://127.0.0.1:*";
  options.doorbell = "";
  MILLRACE_ASSIGN(auto server, broker::BrokerServer::start(std::move(options)));
  net::Context context;
  std::vector<Producer> producers;
  producers.reserve(settings.producers);
  std::vector<Status> statuses(settings.producers);
  for (std::uint32_t i = 0; i < settings.producers; ++i) {
    producers.emplace_back(settings, i, settings.jobs / settings.producers);
  }
  const double start = seconds_now();
  {
    std::vector<std::jthread> threads;
    threads.reserve(settings.producers);
    for (std::uint32_t i = 0; i < settings.producers; ++i) {
      threads.emplace_back([&, i] { statuses[i] = producers[i].run(context, server->clients()); });
    }
  }
  const double took = seconds_now() - start;
  for (auto& status : statuses) MILLRACE_TRY(std::move(status));
  MILLRACE_TRY(server->stop());
  const auto statistics = server->statistics();
  const auto& commit = statistics.ledger.commit;
  std::vector<double> latencies_ms;
  for (const auto& producer : producers) {
    const auto& own = producer.latencies_ms();
    latencies_ms.insert(latencies_ms.end(), own.begin(), own.end());
  }
  const auto jobs = statistics.core.submitted;
  MILLRACE_ASSIGN(const auto bare, bare_syncs_ms(settings.folder, std::size_t{256} * 1024));
  return nlohmann::json{
      {"benchmark", "durable_submits"},
      {"jobs", jobs},
      {"jobs_per_message", settings.per_message},
      {"producers", settings.producers},
      {"messages_in_flight", settings.in_flight},
      {"prompt_bytes", settings.prompt_bytes},
      {"seconds", took},
      {"jobs_per_second", static_cast<double>(jobs) / took},
      {"acknowledge_ms",
       {{"p50", percentile(latencies_ms, 0.5)}, {"p99", percentile(latencies_ms, 0.99)}}},
      {"commit_ms",
       {{"p50", static_cast<double>(commit.quantile_us(0.5)) * 1e-3},
        {"p99", static_cast<double>(commit.quantile_us(0.99)) * 1e-3},
        {"mean", commit.count == 0 ? 0.0
                                   : static_cast<double>(commit.sum_us) * 1e-3 /
                                         static_cast<double>(commit.count)}}},
      {"commits", statistics.ledger.commits},
      {"syncs_per_second", static_cast<double>(statistics.ledger.commits) / took},
      {"bare_256KiB_write_and_sync_ms",
       {{"p50", percentile(bare, 0.5)}, {"p99", percentile(bare, 0.99)}}}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Durable submits a second, through real sockets and the SQLite ledger"};
  Settings settings;
  settings.folder = (std::filesystem::current_path() / "broker-bench-ledger").string();
  app.add_option("--jobs", settings.jobs)->check(CLI::Range(1u, 10'000'000u));
  app.add_option("--per-message", settings.per_message)->check(CLI::Range(1u, 10'000u));
  app.add_option("--producers", settings.producers)->check(CLI::Range(1u, 64u));
  app.add_option("--in-flight", settings.in_flight)->check(CLI::Range(1u, 64u));
  app.add_option("--prompt-bytes", settings.prompt_bytes)->check(CLI::Range(1u, 1'000'000u));
  app.add_option("--ledger", settings.folder, "a new folder, removed afterwards");
  CLI11_PARSE(app, argc, argv);
  if (std::filesystem::exists(settings.folder)) {
    std::fprintf(stderr, "%s exists: name a new folder\n", settings.folder.c_str());
    return 2;
  }
  const auto result = measure(settings);
  std::error_code ignored;
  std::filesystem::remove_all(settings.folder, ignored);
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    return 1;
  }
  std::printf("%s\n", result->dump(2).c_str());
  return 0;
}
