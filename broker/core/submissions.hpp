#pragma once
// Accepts new jobs: decodes and checks each once, gives it an id, has it stored, and acknowledges
// it only after the commit that holds it. Jobs from the client endpoint get an answer each. The
// push endpoint is one-way: a refused job is written to the stream `rejected` instead. Pushed jobs
// for which there is no room (a full disk or queue) are kept and tried again; meanwhile no more are
// read from their socket, so that their producers wait. Where there are keys, all tenants push
// through this socket: there a job beyond its tenant's own limit is rejected, and holds up nobody.
// Thread safety: none.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "broker/core/doorbell.hpp"
#include "broker/core/engine_table.hpp"
#include "broker/core/models.hpp"
#include "broker/core/outbox.hpp"
#include "broker/core/pending_jobs.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

// Computes the columns that a submit would have stored beside this job's body; empty where the job
// cannot be decoded. `match_kv` false: the column of the KV policy stays empty.
JobColumns columns_of(const Body& job, bool match_kv);

class Submissions {
 public:
  Submissions(Outbox& out, const CoreConfig& config, Sessions& sessions, Models& models,
              const EngineTable& engines, Doorbell& doorbell,
              std::function<void(const std::string& tenant, std::uint64_t jobs)> on_ready)
      : out_(out),
        config_(config),
        sessions_(sessions),
        models_(models),
        engines_(engines),
        doorbell_(doorbell),
        on_ready_(std::move(on_ready)),
        jobs_(config) {}

  // Answers with Submitted after the commit, or with Refused: limit_exceeded, overloaded.
  void submit(const Asker& asker, Submit submit);
  void push(const std::string& tenant, Submit submit);
  void reject(const std::string& tenant, const std::string& job, const std::string& custom_id,
              Error error);
  // False: leave pushed jobs in their socket, so that their producers have to wait.
  bool takes_push() const { return waiting_ == 0 && jobs_.has_room(PendingJobs::push_account); }
  // Why the last new jobs found no room on the disk; empty where they did.
  const std::string& disk_full() const { return disk_full_; }
  void tick();   // tries the kept jobs again
  void drain();  // writes the kept jobs to `rejected`
  bool idle() const { return jobs_.none(); }
  void tell_unanswered() const;  // logs what keeps it from being idle

 private:
  struct Pending;  // one message
  void begin(const Asker& asker, Submit submit);
  void ask_known(const std::shared_ptr<Pending>& pending);
  void store(const std::shared_ptr<Pending>& pending);
  void stored(Pending& pending, const std::vector<std::size_t>& asked, Replies replies);
  bool keeps(const Pending& pending, Code refusal) const;
  void tell_room(const std::string& tenant, const Error* full, bool stored);
  void answer(Pending& pending);
  void keep_or_answer(const std::shared_ptr<Pending>& pending);

  static constexpr std::size_t most_told = 20;
  static constexpr std::int64_t try_again_us = 1'000'000;
  static constexpr std::int64_t tell_again_us = 3'600'000'000;

  Outbox& out_;
  const CoreConfig& config_;
  Sessions& sessions_;
  Models& models_;
  const EngineTable& engines_;
  Doorbell& doorbell_;
  std::function<void(const std::string& tenant, std::uint64_t jobs)> on_ready_;
  PendingJobs jobs_;  // of messages that are not yet answered, and rejections
  std::uint64_t last_message_ = 0;
  std::map<std::uint64_t, std::shared_ptr<const Pending>> unanswered_;
  std::vector<std::shared_ptr<Pending>> kept_;  // to be tried again
  std::size_t waiting_ = 0;                     // messages that were kept and are not yet answered
  std::int64_t kept_us_ = 0;                    // when the first of kept_ was kept
  bool draining_ = false;
  std::string disk_full_;                             // why the last jobs were refused
  std::map<std::string, std::int64_t> told_full_us_;  // when the log told of a tenant's limit
};

}  // namespace millrace::broker
