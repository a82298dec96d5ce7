#include "broker/core/requests.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/name_order.hpp"
#include "broker/core/waiting.hpp"

namespace millrace::broker {

void Requests::acknowledge(const Asker& asker, Acknowledge acknowledge) {
  if (!sessions_.begin(asker.peer, asker.id)) return;
  answers_.ask(asker,
               MoveCursor{asker.tenant, std::move(acknowledge.stream),
                          std::move(acknowledge.cursor), acknowledge.number},
               [this, asker](Reply reply) {
                 answers_.answer(asker, Acknowledged{std::get<MoveCursorReply>(reply).number});
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

void Requests::status(const Asker& asker, StatusRequest request, StatusAnswer so_far) {
  if (!sessions_.begin(asker.peer, asker.id)) return;
  for (const auto& [name, engine] : table_.all()) {
    if (!engine.joined || !engine.works_for(asker.tenant)) continue;
    so_far.engines.push_back(info_of(engine, out_.now().mono_us));
  }
  std::ranges::stable_sort(so_far.engines, stands_before, &EngineInfo::name);
  // The ledger is asked in turn for the job and the stream, where named, and for the counts.
  if (request.job.empty() && request.stream.empty()) {
    return status_counts(asker, std::move(so_far), std::move(request));
  }
  if (request.job.empty()) {
    return status_of_stream(asker, std::move(so_far), std::move(request));
  }
  status_of_job(asker, std::move(so_far), std::move(request));
}

void Requests::status_of_job(const Asker& asker, StatusAnswer so_far, StatusRequest request) {
  GetJob get{asker.tenant, request.job};
  answers_.ask(
      asker, std::move(get),
      [this, asker, so_far = std::move(so_far), request = std::move(request)](Reply reply) mutable {
        const auto& r = std::get<GetJobReply>(reply);
        so_far.state = r.state;
        so_far.attempts = r.attempts;
        so_far.job_stream = r.stream;
        so_far.job_batch = r.batch;
        so_far.job_number = r.number;
        if (r.start_us) {
          so_far.job_waits = waiting_until(*r.start_us, out_.now().unix_us);
        } else if (r.paused != PausedBy::nothing) {
          so_far.job_waits = waiting_paused(r);
        } else if (r.state == JobState::queued) {
          so_far.job_waits = waiting_for(table_, asker.tenant, r.model, r.kv);
        }
        if (request.stream.empty()) {
          return status_counts(asker, std::move(so_far), std::move(request));
        }
        status_of_stream(asker, std::move(so_far), std::move(request));
      });
}

void Requests::status_of_stream(const Asker& asker, StatusAnswer so_far, StatusRequest request) {
  ReadStream read;
  read.tenant = asker.tenant;
  read.stream = request.stream;
  read.max_entries = 0;
  answers_.ask(
      asker, std::move(read),
      [this, asker, so_far = std::move(so_far), request = std::move(request)](Reply reply) mutable {
        auto& r = std::get<ReadStreamReply>(reply);
        const Session* session = sessions_.find(asker.peer);
        if (r.high == 0 && session != nullptr && session->takes_not_found) {
          return answers_.refuse(asker,
                                 {Code::not_found, "stream " + request.stream + " holds no result",
                                  "check the name; jobs that name no stream use results"});
        }
        so_far.epoch = std::move(r.epoch);
        so_far.first = r.first;
        so_far.high = r.high;
        status_counts(asker, std::move(so_far), std::move(request));
      });
}

void Requests::status_counts(const Asker& asker, StatusAnswer so_far, StatusRequest request) {
  Count count{asker.tenant, request.batch};
  answers_.ask(
      asker, std::move(count),
      [this, asker, so_far = std::move(so_far), request = std::move(request)](Reply reply) mutable {
        auto& counted = std::get<CountReply>(reply);
        so_far.counts = counted.counts;
        so_far.paused = counted.paused;
        so_far.paused_models = std::move(counted.paused_models);
        if (!request.batch.empty() && so_far.counts == JobCounts{})
          return answers_.refuse(asker, no_batch(request.batch));
        if (!request.queues) return answers_.answer(asker, std::move(so_far));
        queues_.ask(asker, [this, asker, so_far = std::move(so_far)](
                               const Result<TenantQueues::Found>& found) mutable {
          if (!found) return answers_.refuse(asker, found.error());
          so_far.queues = found->queues;
          so_far.more_queues = found->more;
          answers_.answer(asker, std::move(so_far));
        });
      });
}

}  // namespace millrace::broker
