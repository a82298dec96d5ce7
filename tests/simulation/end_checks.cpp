#include "tests/simulation/end_checks.hpp"

#include "schemas/codec.hpp"

namespace millrace::broker::simulation {
namespace {

// One of two killers: excused as often as it may be, halved from all jobs of an engine to one,
// which dies twice; and again, if the other was found first and closed their incident.
constexpr std::uint64_t most_deaths = 2 + 2 * (2 + 2);

}  // namespace

void EndChecks::check_stream(const std::string& tenant, std::map<std::string, int>& ends) {
  ReadStream read;
  read.tenant = tenant;
  read.stream = "results";
  read.max_entries = 1'000'000;
  const auto stream = std::get<ReadStreamReply>(*ask_(read));
  std::uint64_t number = 0;
  for (const auto& entry : stream.entries) {
    if (entry.number != ++number) violation("number " + std::to_string(entry.number));
    if (record_.tenants.at(entry.job) != tenant) violation(entry.job + " ended for " + tenant);
    ++ends[entry.job];
    check_end(entry);
  }
}

void EndChecks::check_end(const Entry& entry) {
  const auto result = decode_result(entry.body);
  if (!result) return violation("unreadable result of " + entry.job);
  if (result->job != entry.job) violation(entry.job + " has the result of " + result->job);
  outcome_.completed += result->state == JobState::completed;
  outcome_.cancelled += result->state == JobState::cancelled;
  outcome_.failed += result->state == JobState::failed;
  if (result->state == JobState::cancelled && !record_.cancelled.contains(entry.job)) {
    violation(entry.job + " was cancelled by another tenant");
  }
  const bool killer = entry.job.starts_with("kill");
  if (result->error && result->error->code == Code::ledger_corrupt) {
    ++damaged_;
  } else if (killer != (result->state == JobState::failed)) {
    violation(entry.job + " ended as " + std::string(wire_name(result->state)));
  }
}

void EndChecks::all(const std::map<std::string, std::size_t>& jobs_of,
                    const std::vector<std::unique_ptr<SimClient>>& clients, std::uint64_t flips) {
  std::map<std::string, int> ends;
  for (const auto& [tenant, jobs] : jobs_of) check_stream(tenant, ends);
  for (const auto& [job, deaths] : record_.deaths_by) {
    if (deaths > most_deaths) violation(job + " killed " + std::to_string(deaths) + " engines");
  }
  for (const auto& job : record_.acknowledged) {
    if (ends[job] != 1) violation(job + " ended " + std::to_string(ends[job]) + " times");
  }
  for (const auto& client : clients) {
    if (!client->done(jobs_of.at(client->tenant())))
      violation(client->peer().route + " did not finish");
    for (const auto& [job, times] : client->read()) {
      if (times != 1) violation(job + " was read " + std::to_string(times) + " times");
    }
  }
  if (damaged_ > flips) violation("jobs failed as damaged that were not");
  if (ends.size() != outcome_.jobs) violation(std::to_string(ends.size()) + " jobs ended");
}

}  // namespace millrace::broker::simulation
