#include "broker/core/submissions.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "broker/core/job_cost.hpp"
#include "broker/core/prefix_key.hpp"
#include "broker/core/results.hpp"
#include "broker/core/waiting.hpp"
#include "schemas/base/kv_policy.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::broker {
namespace {

// One job of a submit message.
struct Item {
  std::optional<SubmitJob> operation;  // none: the job is refused
  std::optional<Error> unless_known;   // refuses the job unless it is stored already
  std::string custom_id;
};

Status check_queue_fields(const Job& job) {
  if (job.stream.empty()) {
    return fail(Code::invalid_value, "stream: the name is empty",
                "leave the field out for \"results\"");
  }
  if (job.stream.front() == reserved_stream_prefix || job.stream == batches_stream ||
      job.stream == rejected_stream) {
    return fail(Code::invalid_value,
                "stream: the name " + job.stream + " is reserved for what the broker itself writes",
                "choose a name that does not begin with $ and is not batches or rejected");
  }
  if (job.not_before_us && job.deadline_us && *job.deadline_us <= *job.not_before_us) {
    return fail(Code::invalid_value, "deadline_us: the job would expire before its not_before_us",
                "give a later deadline, or an earlier start");
  }
  return {};
}

}  // namespace

JobColumns columns_of(const Body& job, bool match_kv) {
  const auto decoded = decode_job(job);
  if (!decoded) return {};
  JobColumns columns;
  columns.labels = labels_of(*decoded);
  columns.cost_tokens = job_cost_tokens(decoded->job);
  const auto& kv = decoded->job.request.kv;
  if (kv && match_kv) columns.kv = canonical_kv(*kv).value_or("");
  return columns;
}

struct Submissions::Pending {
  Asker asker;
  std::uint64_t number = 0;  // of the message, in the order in which they came
  std::uint64_t bytes = 0;
  std::vector<Item> items;
  std::vector<SubmitAnswer> answers;
  bool kept = false;  // it has waited for room

  bool pushed() const { return asker.peer.endpoint == Endpoint::push; }
  std::string account() const { return pushed() ? PendingJobs::push_account : asker.tenant; }
  void refuse(std::size_t i, Error error) {
    answers[i].error = std::move(error);
    answers[i].waits.clear();
    items[i].operation.reset();
    items[i].unless_known.reset();
  }
};

namespace {

// Decodes a job and checks all that does not depend on the ledger. The error refuses the job.
// It takes the body of a good job only.
Result<Item> prepare(const std::string& tenant, Body& body, const Models& models, bool match_kv,
                     std::int64_t now_us) {
  if (body.size() > limits::job_bytes) {
    return fail(Code::too_large,
                "the job has " + std::to_string(body.size()) + " bytes, the limit is " +
                    std::to_string(limits::job_bytes),
                "split its prompt");
  }
  MILLRACE_ASSIGN(auto decoded, decode_job(body));
  auto& job = decoded.job;
  MILLRACE_TRY(check_queue_fields(job));
  Item item;
  item.custom_id = job.custom_id;
  if (!models.known(tenant, job.model)) {
    item.unless_known = unknown_model(job.model);
  } else if (job.deadline_us && *job.deadline_us <= now_us) {
    item.unless_known =
        Error{Code::deadline_passed,
              "deadline_us: " + std::to_string(*job.deadline_us) + " is " +
                  std::to_string((now_us - *job.deadline_us) / 1'000'000) + " s in the past",
              "give a later deadline, or none"};
  }
  const bool traced = is_traced(job);
  SubmitJob operation;
  operation.tenant = tenant;
  operation.hash = job_hash(job);
  operation.body_hash = canonical_hash(body);
  if (traced) operation.traced_hash = traced_job_hash(job);
  if (traced || job.not_before_us || job.deadline_us) operation.timed_hash = timed_job_hash(job);
  operation.id = job.id;
  if (job.id.empty()) operation.id = traced ? derived_id(body) : operation.body_hash;
  operation.labels = labels_of(decoded);
  operation.cost_tokens = job_cost_tokens(job);
  operation.prefix = prefix_key(job.request.prompt);
  operation.custom_id = std::move(job.custom_id);
  operation.model = std::move(job.model);
  operation.stream = std::move(job.stream);
  operation.batch = std::move(job.batch);
  operation.priority = job.priority;
  operation.max_attempts = job.max_attempts;
  operation.deadline_us = job.deadline_us;
  operation.not_before_us = job.not_before_us;
  if (job.request.kv && match_kv) {
    MILLRACE_ASSIGN(operation.kv, canonical_kv(*job.request.kv));
  }
  operation.body = std::move(body);
  item.operation = std::move(operation);
  return item;
}

}  // namespace

void Submissions::submit(const Asker& asker, Submit submit) {
  const Peer& peer = asker.peer;
  const std::uint64_t id = asker.id;
  const std::string& tenant = asker.tenant;
  if (submit.jobs.size() > limits::jobs_per_submit) {
    return out_.refuse(
        peer, id,
        {Code::limit_exceeded,
         "submit: " + std::to_string(submit.jobs.size()) + " jobs in one message, the limit is " +
             std::to_string(limits::jobs_per_submit),
         "send them in several messages"});
  }
  if (!jobs_.has_room(tenant)) {
    return out_.refuse(peer, id,
                       {Code::overloaded,
                        std::to_string(jobs_.jobs()) + " jobs already wait for their commit, " +
                            std::to_string(jobs_.jobs(tenant)) + " of them yours",
                        "wait a little and send the message again", limits::retry_commit_ms});
  }
  if (!sessions_.begin(peer, id)) return;
  begin(asker, std::move(submit));
}

void Submissions::push(const std::string& tenant, Submit submit) {
  begin({Peer{Endpoint::push, {}}, 0, tenant}, std::move(submit));
}

void Submissions::begin(const Asker& asker, Submit submit) {
  auto pending = std::make_shared<Pending>();
  pending->asker = asker;
  pending->items.resize(submit.jobs.size());
  pending->answers.resize(submit.jobs.size());
  const std::uint64_t max_queued = limits_of(config_.tenants, asker.tenant).queued;
  struct {
    std::string model, kv, waits;
  } last;  // of the previous job: most jobs of a message ask for the same
  for (std::size_t i = 0; i < submit.jobs.size(); ++i) {
    pending->bytes += submit.jobs[i].size();
    auto item =
        prepare(asker.tenant, submit.jobs[i], models_, config_.match_kv, out_.now().unix_us);
    if (!item) {
      auto [name, custom_id] = peek_names(submit.jobs[i]);
      pending->answers[i].job = std::move(name);
      pending->items[i].custom_id = std::move(custom_id);
      pending->refuse(i, std::move(item.error()));
      continue;
    }
    item->operation->max_queued = max_queued;
    pending->answers[i].job = item->operation->id;
    const SubmitJob& job = *item->operation;
    if (i == 0 || job.model != last.model || job.kv != last.kv) {
      last = {job.model, job.kv, waiting_for(engines_, asker.tenant, job.model, job.kv)};
    }
    pending->answers[i].waits = last.waits;
    pending->items[i] = std::move(*item);
  }
  jobs_.add(pending->account(), pending->items.size(), pending->bytes);
  pending->number = ++last_message_;
  unanswered_.emplace(pending->number, pending);
  ask_known(pending);
}

// Looks up jobs that would be refused for their model or deadline. One that is stored already is
// answered from the ledger, even if its deadline has passed since then: the same submit gets the
// same answer.
void Submissions::ask_known(const std::shared_ptr<Pending>& pending) {
  std::vector<Operation> operations;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < pending->items.size(); ++i) {
    if (!pending->items[i].unless_known) continue;
    operations.push_back(GetJob{pending->asker.tenant, pending->items[i].operation->id});
    asked.push_back(i);
  }
  if (operations.empty()) return store(pending);
  out_.ask(std::move(operations), [this, pending, asked = std::move(asked)](Replies replies) {
    for (std::size_t k = 0; k < asked.size(); ++k) {
      if (!replies[k]) pending->refuse(asked[k], std::move(*pending->items[asked[k]].unless_known));
    }
    store(pending);
  });
}

void Submissions::store(const std::shared_ptr<Pending>& pending) {
  std::vector<Operation> operations;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < pending->items.size(); ++i) {
    if (!pending->items[i].operation) continue;
    auto& operation = *pending->items[i].operation;
    if (pending->pushed()) {
      operations.push_back(operation);  // copied for a second try: its producer gets no answer
    } else {
      operations.push_back(std::move(operation));
    }
    asked.push_back(i);
  }
  out_.ask(std::move(operations), [this, pending, asked = std::move(asked)](Replies replies) {
    stored(*pending, asked, std::move(replies));
    keep_or_answer(pending);
  });
}

void Submissions::keep_or_answer(const std::shared_ptr<Pending>& pending) {
  const bool waits = std::any_of(pending->items.begin(), pending->items.end(),
                                 [](const Item& item) { return item.operation.has_value(); });
  if (!pending->pushed() || !waits || draining_) return answer(*pending);
  if (kept_.empty()) kept_us_ = out_.now().mono_us;
  kept_.push_back(pending);
  if (std::exchange(pending->kept, true)) return;
  if (++waiting_ > 1) return;
  out_.note(NoteLevel::warning, "there is no room for pushed jobs: they wait in their socket");
}

void Submissions::tick() {
  if (kept_.empty() || out_.now().mono_us - kept_us_ < try_again_us) return;
  for (const auto& pending : std::exchange(kept_, {})) store(pending);
}

void Submissions::drain() {
  draining_ = true;
  for (const auto& pending : std::exchange(kept_, {})) answer(*pending);
}

void Submissions::stored(Pending& pending, const std::vector<std::size_t>& asked, Replies replies) {
  std::uint64_t queued = 0, ready = 0;
  const Error* full = nullptr;
  TenantTally& tally = out_.tally().of(pending.asker.tenant);
  for (std::size_t k = 0; k < asked.size(); ++k) {
    auto& answer = pending.answers[asked[k]];
    answer.error.reset();
    if (const auto* reply = reply_as<SubmitReply>(replies[k])) {
      answer.known = reply->known;
      answer.state = reply->state;
      ++(reply->known ? out_.counters().known : out_.counters().submitted);
      ++(reply->known ? tally.known : tally.submitted);
      queued += !reply->known;
      ready += reply->ready;
    } else {
      answer.error = reply_error(replies[k]);
    }
    if (answer.error || answer.state != JobState::queued) answer.waits.clear();
    const bool no_room = answer.error && (answer.error->code == Code::disk_full ||
                                          answer.error->code == Code::overloaded);
    if (no_room) full = &*answer.error;
    if (!no_room || !keeps(pending, answer.error->code)) pending.items[asked[k]].operation.reset();
  }
  tell_room(pending.asker.tenant, full, queued > 0);
  if (ready > 0) on_ready_(pending.asker.tenant, ready);
}

// Whether a job that was refused for want of room waits for it.
bool Submissions::keeps(const Pending& pending, Code refusal) const {
  return pending.pushed() && (refusal == Code::disk_full || !config_.grants);
}

// Logs that there is no room on the disk, and that there is again; and that a tenant is at its
// limit, once an hour: it may reach it many times a second. Not each refusal.
void Submissions::tell_room(const std::string& tenant, const Error* full, bool stored) {
  if (full == nullptr) {
    if (stored && !std::exchange(disk_full_, {}).empty()) {
      out_.note(NoteLevel::info, "new jobs are taken again");
    }
  } else if (full->code == Code::disk_full) {
    if (std::exchange(disk_full_, full->text()).empty()) {
      out_.note(NoteLevel::warning, "new jobs are refused: " + full->text());
    }
  } else {
    const std::int64_t now_us = out_.now().mono_us;
    const auto [told, first] = told_full_us_.try_emplace(tenant, now_us);
    if (!first && now_us - told->second < tell_again_us) return;
    told->second = now_us;
    out_.note(NoteLevel::warning, "new jobs of tenant " + tenant + " are refused: " + full->text());
  }
}

void Submissions::answer(Pending& pending) {
  jobs_.remove(pending.account(), pending.items.size(), pending.bytes);
  const auto held = unanswered_.extract(pending.number);  // until the end of this function
  waiting_ -= pending.kept;
  for (const auto& answer : pending.answers) {
    if (!answer.error) continue;
    ++out_.counters().refused_jobs;
    ++out_.tally().of(pending.asker.tenant).rejected[answer.error->code];
  }
  if (!pending.pushed()) {
    sessions_.end(pending.asker.peer);
    return out_.send(pending.asker.peer, pending.asker.id, Submitted{std::move(pending.answers)});
  }
  for (std::size_t i = 0; i < pending.answers.size(); ++i) {
    auto& answer = pending.answers[i];
    if (!answer.error) continue;
    reject(pending.asker.tenant, answer.job, pending.items[i].custom_id, std::move(*answer.error));
  }
}

// Of those who submitted the same way, one line: a stop must not write thousands of lines.
void Submissions::tell_unanswered() const {
  struct Told {
    std::size_t messages = 0, jobs = 0;
    std::string first;
    bool pushed = false;
  };
  std::map<std::string, Told> by_producer;
  for (const auto& [number, pending] : unanswered_) {
    const Asker& asker = pending->asker;
    const Session* session = sessions_.find(asker.peer);
    const std::string client = session != nullptr ? "client " + session->name : "client that left";
    Told& told =
        by_producer[(pending->pushed() ? "push socket" : client) + " of tenant " + asker.tenant];
    if (told.messages++ == 0) told.first = pending->answers.front().job;
    told.jobs += pending->items.size();
    told.pushed = pending->pushed();
  }
  std::size_t lines = 0;
  for (const auto& [producer, told] : by_producer) {
    if (lines++ == most_told) break;
    out_.note(told.pushed ? NoteLevel::error : NoteLevel::warning,
              "not acknowledged: " + count_text(told.jobs, "job") + " in " +
                  count_text(told.messages, "submit") + " of the " + producer +
                  ", the first of them " + told.first +
                  (told.pushed ? "; they may be lost, because pushed jobs get no answer"
                               : "; nobody was told that they are stored: send them again"));
  }
  if (by_producer.size() > most_told) {
    out_.note(NoteLevel::warning, "not acknowledged: jobs of " +
                                      count_text(by_producer.size() - most_told, "more producer"));
  }
}

void Submissions::reject(const std::string& tenant, const std::string& job,
                         const std::string& custom_id, Error error) {
  const auto text = error.text();
  // Rejections count until their commit, so that many of them make producers wait.
  jobs_.add(PendingJobs::push_account, 1, 0);
  Append append{tenant, rejected_stream, job,
                published_refusal(job, custom_id, std::move(error), out_.now().unix_us)};
  out_.ask_one(std::move(append), [this, text](Result<Reply> reply) {
    jobs_.remove(PendingJobs::push_account, 1, 0);
    if (const auto* r = reply_as<FinishReply>(reply)) {
      ++out_.counters().rejected;
      return doorbell_.written(*r);
    }
    out_.note(NoteLevel::error, "a pushed job was refused (" + text +
                                    ") and could not be written to the stream `rejected`: " +
                                    reply_error(reply).text());
  });
}

}  // namespace millrace::broker
