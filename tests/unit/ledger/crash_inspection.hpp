#pragma once
// Opens the ledger that a crash or a failure has left on a disk, and lists what is wrong with it.
// Thread safety: one thread.
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/ledger/ledger_tables.hpp"
#include "tests/unit/ledger/ledger_text.hpp"
#include "tests/unit/ledger/power_cut_disk.hpp"

namespace millrace::broker::test {

inline Result<std::unique_ptr<Ledger>> open_on(PowerCutDisk& disk, const Clock& clock,
                                               const DurabilitySettings& settings = {}) {
  SqliteLedgerOptions options;
  options.publish = publish;
  options.ballast_bytes = 0;
  options.env = &disk.env();
  options.clock = &clock;
  options.vfs = disk.vfs_name();
  // Small, so that the run has checkpoints, truncations of the log and pages that are given back.
  options.checkpoint_pages = 24;
  options.checkpoint_thread = false;
  options.wal_bytes = 160 * limits::KiB;
  options.spare_pages = 4;
  options.space_pause = std::chrono::milliseconds(0);
  return open_weakened_sqlite_ledger("ledger", std::move(options), settings);
}

inline std::string epoch_of(Ledger& ledger) {
  const auto reply = ask_all(ledger, {ListStreams{tenant, ""}}).front();
  return reply ? std::get<ListStreamsReply>(*reply).epoch : reply.error().text();
}

// What is known of the run at the moment of a crash.
struct Told {
  std::string before, after;  // the state as acknowledged, and with the commit under way
  std::string epoch;          // empty before the ledger was opened
  LeaseId last_lease = 0;
};

// Opens what a crash has left, and lists what is wrong with it.
class Inspection {
 public:
  Inspection(PowerCutDisk& disk, const Told& told, const RandomOperations& script)
      : disk_(disk), told_(told), script_(script) {}

  std::vector<std::string> run(std::uint64_t seed) {
    // Recovery must bear a crash itself.
    if (seed % 4 == 0) {
      disk_.cut_at(1 + seed / 4 % 16);
      (void)open_on(disk_, clock_);
      disk_.restore(seed);
    }
    {
      auto ledger = open_on(disk_, clock_);
      if (!ledger) return {"cannot be opened: " + ledger.error().text()};
      compare(**ledger);
      if (seed % 4 == 1) goes_on(**ledger);
    }
    if (seed % 4 > 1) check_tables();
    return std::move(wrong_);
  }

 private:
  void compare(Ledger& ledger) {
    const std::string text = ledger_text(ledger);
    if (!told_.epoch.empty() && epoch_of(ledger) != told_.epoch) wrong_.push_back("another epoch");
    if (text == told_.before || text == told_.after) return;
    std::istringstream found(text), before(told_.before), after(told_.after);
    for (std::string f, b, a;
         std::getline(found, f) && std::getline(before, b) && std::getline(after, a);) {
      if (f == b || f == a) continue;
      wrong_.push_back("neither '" + b + "' nor '" + a + "': '" + f + "'");
      return;
    }
    wrong_.push_back("a mixture of the states before and after a commit");
  }

  static void resume_all(Ledger& ledger, const std::string& who) {
    std::vector<Operation> resumes;
    for (const std::string& batch : RandomOperations::batches()) {  // "" is the tenant
      resumes.emplace_back(Resume{who, batch, ""});
    }
    for (const char* model : {"model", "*"}) resumes.emplace_back(Resume{who, "", model});
    (void)ledger.apply(resumes, start_us);
  }

  // Whatever is queued can be handed out, whole and under a new lease, and ended.
  void goes_on(Ledger& ledger) {
    const auto ask = [&](const Operation& op) { return ask_all(ledger, {op}).front(); };
    std::vector<LeaseId> held;
    const auto live = ask(FindLapsed{0, {}, true});
    if (!live) return wrong_.push_back(live.error().text());
    for (const auto& lease : std::get<FindLapsedReply>(*live).leases) held.push_back(lease.lease);
    (void)ask(GiveBack{held, Blame::none, ""});
    for (const std::string& who : RandomOperations::tenants()) {
      resume_all(ledger, who);
      (void)ledger.apply(std::vector<Operation>{StartJobs{who}}, start_us + 1'000'000'000);
      for (const ClaimFrom from : {ClaimFrom::jobs, ClaimFrom::suspects}) {
        for (const char* model : {"model", "rare"}) {
          Claim claims{who, "engine", model, 1'000, start_us + 1'000, from};
          claims.kv = {"f16/f16", "r5/r3"};
          while (end_claimed(ledger, claims) > 0) {
          }
        }
      }
      (void)ledger.apply(std::vector<Operation>{ExpireJobs{who}}, start_us + 1'000'000'000);
      const auto counts = ask(Count{who, ""});
      if (!counts || std::get<CountReply>(*counts).counts.queued != 0) {
        wrong_.push_back("jobs of " + who + " are queued and never handed out");
      }
    }
  }
  std::size_t end_claimed(Ledger& ledger, const Claim& claims) {
    const auto reply = ask_all(ledger, {claims}).front();
    if (!reply) return 0;
    const auto& got = std::get<ClaimReply>(*reply);
    if (!got.ended.empty()) wrong_.push_back(got.ended.front().job + " is damaged");
    std::vector<Operation> ends;
    for (const ClaimedJob& job : got.jobs) {
      if (job.lease <= told_.last_lease) wrong_.push_back(numbered("lease again: ", job.lease));
      const auto n = static_cast<std::uint32_t>(std::strtoul(job.job.c_str() + 1, nullptr, 10));
      if (job.body != script_.body_of(n)) wrong_.push_back(job.job + " has another body");
      ends.emplace_back(Finish{job.lease, JobState::completed, "late", "engine"});
    }
    for (const auto& end : ask_all(ledger, ends)) {
      if (!end) wrong_.push_back(end.error().text());
    }
    return ends.size();
  }

  void check_tables() {
    Database database;
    const Status opened = database.open("ledger", disk_.vfs_name());
    if (!opened) return wrong_.push_back(opened.error().text());
    for (std::string& rule : broken_rules(database)) wrong_.push_back(std::move(rule));
  }

  PowerCutDisk& disk_;
  const Told& told_;
  const RandomOperations& script_;
  const ManualClock clock_;
  std::vector<std::string> wrong_;
};

}  // namespace millrace::broker::test
