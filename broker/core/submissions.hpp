#pragma once
// Accepts new jobs: decodes and checks each once, gives it an id, has it stored, and acknowledges
// it only after the commit that holds it. Jobs from the client endpoint get an answer each. The
// push endpoint is one-way: a refused job is written to the stream `rejected` instead. Pushed jobs
// for which there is no room (a full disk or queue) are kept and tried again; meanwhile no more are
// read from their socket, so that their producers wait. Thread safety: none.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/doorbell.hpp"
#include "broker/core/engine_table.hpp"
#include "broker/core/models.hpp"
#include "broker/core/outbox.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

inline constexpr const char* rejected_stream = "rejected";

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
        on_ready_(std::move(on_ready)) {}

  // Answers with Submitted after the commit, or with Refused: limit_exceeded, overloaded.
  void submit(const Asker& asker, Submit submit);
  void push(const std::string& tenant, Submit submit);
  void reject(const std::string& tenant, const std::string& job, const std::string& custom_id,
              Error error);
  // False while the jobs that wait for their commit have reached their limit.
  bool has_room() const { return jobs_ < config_.pending_jobs && bytes_ < config_.pending_bytes; }
  // False: leave pushed jobs in their socket, so that their producers have to wait.
  bool takes_push() const { return has_room() && kept_.empty(); }
  void tick();   // tries the kept jobs again
  void drain();  // writes the kept jobs to `rejected`
  bool idle() const { return jobs_ == 0; }

 private:
  struct Pending;  // one message
  void begin(const Asker& asker, Submit submit);
  void ask_known(const std::shared_ptr<Pending>& pending);
  void store(const std::shared_ptr<Pending>& pending);
  void stored(Pending& pending, const std::vector<std::size_t>& asked, Replies replies);
  void tell_room(const Error* full, bool stored);
  void answer(Pending& pending);
  void keep_or_answer(const std::shared_ptr<Pending>& pending);

  static constexpr std::int64_t try_again_us = 1'000'000;

  Outbox& out_;
  const CoreConfig& config_;
  Sessions& sessions_;
  Models& models_;
  const EngineTable& engines_;
  Doorbell& doorbell_;
  std::function<void(const std::string& tenant, std::uint64_t jobs)> on_ready_;
  std::uint64_t jobs_ = 0, bytes_ = 0;  // of messages that are not yet answered, and rejections
  std::vector<std::shared_ptr<Pending>> kept_;
  std::int64_t kept_us_ = 0;  // when the first of them was kept
  bool draining_ = false;
  std::optional<Code> full_;  // why the last job was refused, while there is no room
};

}  // namespace millrace::broker
