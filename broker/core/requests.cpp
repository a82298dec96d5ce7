#include "broker/core/requests.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/waiting.hpp"

namespace millrace::broker {
namespace {

// Checks that Cancel or Retry names either jobs or one batch.
Status check_named(const char* what, const std::vector<std::string>& jobs,
                   const std::string& batch) {
  if (jobs.empty() == batch.empty()) {
    return fail(Code::invalid_value,
                std::string(what) + ": " +
                    (jobs.empty() ? "neither jobs nor a batch is named"
                                  : "both jobs and a batch are named"),
                "name either jobs or one batch");
  }
  return {};
}

Error no_batch(const std::string& batch) {
  return {Code::not_found, "no job belongs to a batch named " + batch,
          "check the name, which the producer chose or `millrace submit` printed"};
}

}  // namespace

void Requests::answer(const Asker& asker, Message message) {
  sessions_.end(asker.peer);
  out_.send(asker.peer, asker.id, std::move(message));
}

void Requests::refuse(const Asker& asker, Error error) {
  sessions_.end(asker.peer);
  out_.refuse(asker.peer, asker.id, std::move(error));
}

// Asks the ledger for one operation. If the ledger refuses it, the request is refused as well.
void Requests::ask(const Asker& asker, Operation operation, std::function<void(Reply)> then) {
  out_.ask_one(std::move(operation), [this, asker, then = std::move(then)](Result<Reply> reply) {
    if (reply) return then(std::move(*reply));
    refuse(asker, std::move(reply.error()));
  });
}

void Requests::answer_if_known(const Asker& asker, const std::string& batch, Message message) {
  ask(asker, Count{asker.tenant, batch},
      [this, asker, batch, message = std::move(message)](Reply reply) mutable {
        const bool known = std::get<CountReply>(reply).counts != JobCounts{};
        known ? answer(asker, std::move(message)) : refuse(asker, no_batch(batch));
      });
}

void Requests::acknowledge(const Asker& asker, Acknowledge acknowledge) {
  if (!sessions_.begin(asker.peer, asker.id)) return;
  ask(asker,
      MoveCursor{asker.tenant, std::move(acknowledge.stream), std::move(acknowledge.cursor),
                 acknowledge.number},
      [this, asker](Reply reply) {
        answer(asker, Acknowledged{std::get<MoveCursorReply>(reply).number});
      });
}

void Requests::watch(const Asker& asker, Watch watch) {
  Session* session = sessions_.find(asker.peer);
  if (session == nullptr) return;
  if (!watch.on) {
    session->watched.erase(watch.stream);
  } else if (session->watched.size() < limits::watched_streams) {
    session->watched.insert(watch.stream);
  } else if (!session->watched.contains(watch.stream)) {
    return out_.refuse(asker.peer, asker.id,
                       {Code::limit_exceeded,
                        "watch: this session watches " + std::to_string(session->watched.size()) +
                            " streams, the limit is " + std::to_string(limits::watched_streams),
                        "stop watching another stream, with on: false"});
  }
  out_.send(asker.peer, asker.id, Watching{std::move(watch.stream), watch.on});
}

void Requests::cancel(const Asker& asker, Cancel cancel) {
  if (auto named = check_named("cancel", cancel.jobs, cancel.batch); !named) {
    return out_.refuse(asker.peer, asker.id, std::move(named.error()));
  }
  if (sessions_.begin(asker.peer, asker.id)) cancel_more(asker, std::move(cancel), {});
}

void Requests::cancel_more(const Asker& asker, Cancel cancel, Cancelled so_far) {
  CancelJobs operation;
  operation.tenant = asker.tenant;
  operation.jobs = cancel.jobs;
  operation.batch = cancel.batch;
  ask(asker, std::move(operation),
      [this, asker, cancel = std::move(cancel), so_far](Reply reply) mutable {
        const auto& r = std::get<CancelReply>(reply);
        so_far.cancelled += r.cancelled;
        so_far.requested += r.requested;
        so_far.ended += r.ended;
        so_far.unknown += r.unknown;
        for (const auto& ended : r.numbers) doorbell_.written(ended);
        engines_.cancel(r.leases);
        if (r.more) return cancel_more(asker, std::move(cancel), so_far);
        if (so_far == Cancelled{}) return answer_if_known(asker, cancel.batch, so_far);
        answer(asker, so_far);
      });
}

void Requests::retry(const Asker& asker, Retry retry) {
  if (auto named = check_named("retry", retry.jobs, retry.batch); !named) {
    return out_.refuse(asker.peer, asker.id, std::move(named.error()));
  }
  if (sessions_.begin(asker.peer, asker.id)) retry_more(asker, std::move(retry), 0, {});
}

void Requests::retry_more(const Asker& asker, Retry retry, std::uint64_t after, Retried so_far) {
  RetryJobs operation;
  operation.tenant = asker.tenant;
  operation.jobs = retry.jobs;
  operation.batch = retry.batch;
  operation.after = after;
  ask(asker, std::move(operation),
      [this, asker, retry = std::move(retry), so_far](Reply reply) mutable {
        const auto& r = std::get<RetryReply>(reply);
        so_far.retried += r.retried;
        so_far.not_failed += r.not_failed;
        so_far.unknown += r.unknown;
        if (r.retried > 0) dispatcher_.work_arrived(asker.tenant);
        if (r.more) return retry_more(asker, std::move(retry), r.last, so_far);
        if (so_far == Retried{}) return answer_if_known(asker, retry.batch, so_far);
        answer(asker, so_far);
      });
}

void Requests::status(const Asker& asker, StatusRequest request, bool draining) {
  if (!sessions_.begin(asker.peer, asker.id)) return;
  StatusAnswer answer;
  answer.draining = draining;
  for (const auto& [name, engine] : table_.all()) {
    if (!engine.joined || !engine.works_for(asker.tenant)) continue;
    answer.engines.push_back(info_of(engine));
  }
  // The ledger is asked in turn for the job and the stream, where named, and for the counts.
  if (request.job.empty() && request.stream.empty()) {
    return status_counts(asker, std::move(answer), request.batch);
  }
  if (request.job.empty()) {
    return status_of_stream(asker, std::move(answer), std::move(request));
  }
  status_of_job(asker, std::move(answer), std::move(request));
}

void Requests::status_of_job(const Asker& asker, StatusAnswer so_far, StatusRequest request) {
  GetJob get{asker.tenant, request.job};
  ask(asker, std::move(get),
      [this, asker, so_far = std::move(so_far), request = std::move(request)](Reply reply) mutable {
        const auto& r = std::get<GetJobReply>(reply);
        so_far.state = r.state;
        so_far.attempts = r.attempts;
        so_far.job_stream = r.stream;
        so_far.job_batch = r.batch;
        so_far.job_number = r.number;
        if (r.state == JobState::queued)
          so_far.job_waits = waiting_for(table_, asker.tenant, r.model, r.kv);
        if (request.stream.empty()) {
          return status_counts(asker, std::move(so_far), request.batch);
        }
        status_of_stream(asker, std::move(so_far), std::move(request));
      });
}

void Requests::status_of_stream(const Asker& asker, StatusAnswer so_far, StatusRequest request) {
  ReadStream read;
  read.tenant = asker.tenant;
  read.stream = request.stream;
  read.max_entries = 0;
  ask(asker, std::move(read),
      [this, asker, so_far = std::move(so_far), request = std::move(request)](Reply reply) mutable {
        auto& r = std::get<ReadStreamReply>(reply);
        if (r.high == 0) {
          return refuse(asker, {Code::not_found, "no result is in a stream named " + request.stream,
                                "check the name; jobs that name no stream use results"});
        }
        so_far.epoch = std::move(r.epoch);
        so_far.first = r.first;
        so_far.high = r.high;
        status_counts(asker, std::move(so_far), request.batch);
      });
}

void Requests::status_counts(const Asker& asker, StatusAnswer so_far, const std::string& batch) {
  ask(asker, Count{asker.tenant, batch},
      [this, asker, batch, so_far = std::move(so_far)](Reply reply) mutable {
        so_far.counts = std::get<CountReply>(reply).counts;
        if (!batch.empty() && so_far.counts == JobCounts{}) return refuse(asker, no_batch(batch));
        answer(asker, std::move(so_far));
      });
}

}  // namespace millrace::broker
