#include <map>
#include <nlohmann/json.hpp>

#include "bench/queue_load/loads.hpp"
#include "schemas/codec.hpp"

namespace millrace::bench {
namespace {

class Producer {
 public:
  Producer(net::Context& context, const Place& place, const SubmitLoad& load, std::uint32_t number,
           std::uint64_t jobs)
      : load_(load),
        name_("p" + std::to_string(number) + "-"),
        left_(jobs),
        link_(context, place, client_hello()) {}

  // The first message is due then, and one every so often after it. 0 s: as fast as answers come.
  void pace(double first, double every_s) {
    due_ = first;
    every_s_ = every_s;
  }
  bool done() const { return left_ == 0 && sent_.empty(); }
  Link& link() { return link_; }

  // Sends what may be in flight and takes the answers that have come.
  void turn(std::vector<double>& latencies_ms) {
    send_due();
    while (auto answer = link_.receive()) {
      const auto* submitted = std::get_if<Submitted>(&answer->message);
      if (submitted == nullptr) continue;
      for (const auto& job : submitted->answers) {
        if (job.error) die(*job.error);
        if (job.known) die("the broker knows job " + job.job + " already: use a new ledger");
      }
      latencies_ms.push_back(1e3 * (seconds_now() - sent_.at(answer->id)));
      sent_.erase(answer->id);
      answered_ = seconds_now();
      send_due();
    }
  }

 private:
  void send_due() {
    while (left_ > 0 && sent_.size() < load_.in_flight && (every_s_ == 0 || due_ <= seconds_now()))
      send();
  }

  // A message that had to wait for the answer to an earlier one counts from when it was due.
  void send() {
    Submit submit;
    for (std::uint32_t i = 0; i < load_.per_message && left_ > 0; ++i, --left_) {
      Job job;
      job.id = name_ + std::to_string(left_);
      job.model = "*";
      job.request.prompt = std::string(load_.prompt_bytes - job.id.size(), 'x') + job.id;
      submit.jobs.push_back(encode_job(job));
    }
    const double now = seconds_now();
    const double begin = every_s_ != 0 && answered_ > due_ ? due_ : now;
    sent_[link_.send(std::move(submit))] = begin;
    due_ += every_s_;
  }

  const SubmitLoad& load_;
  std::string name_;
  std::uint64_t left_;
  double due_ = 0, every_s_ = 0;  // time of the next message; from it to the one after it
  double answered_ = 0;           // time of the last answer
  std::map<std::uint64_t, double> sent_;
  Link link_;
};

}  // namespace

std::string run(const Place& place, const SubmitLoad& load) {
  net::Context context;
  std::vector<std::unique_ptr<Producer>> producers;
  net::Poller poller;
  for (std::uint32_t i = 0; i < load.clients; ++i) {
    const std::uint64_t share = load.jobs / load.clients + (i < load.jobs % load.clients ? 1 : 0);
    producers.push_back(std::make_unique<Producer>(context, place, load, load.first + i, share));
    poller.add(producers.back()->link().socket());
  }
  std::vector<double> latencies_ms;
  const double begin = seconds_now();
  for (std::uint32_t i = 0; i < load.clients && load.per_second != 0; ++i) {
    producers[i]->pace(begin + 1.0 * i / load.per_second, 1.0 * load.clients / load.per_second);
  }
  for (std::size_t left = producers.size(); left > 0;) {
    left = 0;
    for (auto& producer : producers) {
      producer->turn(latencies_ms);
      if (!producer->done()) ++left;
    }
    const bool paced = load.per_second != 0;
    const bool came = left == 0 || must(poller.wait(paced ? 1 : 60'000));
    if (!came && !paced) die("the broker does not answer");
  }
  const double seconds = seconds_now() - begin;
  return nlohmann::json{{"load", "submit"},
                        {"jobs", load.jobs},
                        {"seconds", seconds},
                        {"per_second", static_cast<double>(load.jobs) / seconds},
                        {"p50_ms", percentile(latencies_ms, 0.5)},
                        {"p99_ms", percentile(latencies_ms, 0.99)}}
      .dump();
}

}  // namespace millrace::bench
