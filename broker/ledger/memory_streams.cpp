// The operations on streams, and those that only read.
#include <algorithm>

#include "broker/ledger/memory_store.hpp"
#include "broker/ledger/refusals.hpp"

namespace millrace::broker {

// ---- streams

Result<Reply> MemoryStore::carry_out(const ReadStream& op) {
  if (!op.epoch.empty() && op.epoch != options_.epoch) {
    return refuse_epoch(op.stream, op.epoch, options_.epoch);
  }
  ReadStreamReply reply;
  reply.epoch = options_.epoch;
  const auto it = streams_.find({op.tenant, op.stream});
  if (it == streams_.end()) return reply;
  const Stream& stream = it->second;
  reply.first = stream.first;
  reply.high = stream.high();
  std::uint64_t from = op.from;
  if (from == 0) {
    const auto cursor = stream.cursors.find(op.cursor);
    from = cursor == stream.cursors.end() ? 1 : cursor->second + 1;
  }
  reply.trimmed = from < stream.first;
  if (reply.trimmed) return reply;
  std::uint64_t bytes = 0;
  for (; from <= reply.high && reply.entries.size() < op.max_entries; ++from) {
    const Entry& entry = stream.entries[from - stream.first];
    bytes += entry.body.size();
    if (!reply.entries.empty() && bytes > op.max_bytes) break;
    reply.entries.push_back(entry);
  }
  return reply;
}

Result<Reply> MemoryStore::carry_out(const ListStreams& op) {
  ListStreamsReply reply;
  reply.epoch = options_.epoch;
  for (auto it = streams_.upper_bound({op.tenant, op.after}); it != streams_.end(); ++it) {
    if (it->first.first != op.tenant || reply.streams.size() >= op.max_streams) break;
    reply.streams.push_back({it->first.second, it->second.first, it->second.high()});
  }
  return reply;
}

Result<Reply> MemoryStore::carry_out(const MoveCursor& op) {
  const auto it = streams_.find({op.tenant, op.stream});
  const std::uint64_t high = it == streams_.end() ? 0 : it->second.high();
  if (op.number > high) return refuse_past_end(op.stream, op.number, high);
  if (it == streams_.end()) return MoveCursorReply{0};
  std::uint64_t& cursor = it->second.cursors[op.cursor];
  cursor = std::max(cursor, op.number);
  return MoveCursorReply{cursor};
}

Result<Reply> MemoryStore::carry_out(const TrimStream& op) {
  const auto it = streams_.find({op.tenant, op.stream});
  if (it == streams_.end()) return refuse_unknown_stream(op.stream);
  Stream& stream = it->second;
  if (op.first > stream.high() + 1) return refuse_past_end(op.stream, op.first, stream.high());
  for (std::uint32_t i = 0; i < op.max_entries && stream.first < op.first; ++i) {
    stream.entries.pop_front();
    ++stream.first;
  }
  return TrimReply{stream.first, stream.first < op.first};
}

Result<Reply> MemoryStore::carry_out(const Append& op) {
  return append(op.tenant, op.stream, op.job, op.body, JobState::failed);
}

// ---- reads

Result<Reply> MemoryStore::carry_out(const GetJob& op) {
  const JobRecord* job = find_job(op.tenant, op.job);
  if (job == nullptr) return refuse_unknown_job(op.job);
  GetJobReply reply;
  reply.state = job->state;
  reply.attempts = job->attempts;
  reply.failures = job->failures;
  reply.suspect = job->suspect;
  reply.cancel_requested = job->cancel_requested;
  reply.stream = job->given.stream;
  reply.batch = job->given.batch;
  reply.model = job->given.model;
  reply.kv = job->given.kv;
  reply.custom_id = job->given.custom_id;
  reply.number = job->number;
  reply.submitted_us = job->submitted_us;
  if (job->lease != 0) {
    reply.lease = job->lease;
    reply.engine = leases_[job->lease].engine;
  }
  return reply;
}

Result<Reply> MemoryStore::carry_out(const Count& op) {
  CountReply reply;
  std::array<std::uint64_t, 6> counts{};
  if (op.batch.empty()) {
    counts = counts_[op.tenant];
  } else if (const auto it = batches_.find({op.tenant, op.batch}); it != batches_.end()) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = it->second[i].size();
  }
  reply.counts = {counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]};
  for (auto it = queues_.lower_bound({op.tenant, true, "", ""}); it != queues_.end(); ++it) {
    if (std::get<0>(it->first) != op.tenant) break;
    if (it->second.empty()) continue;
    SuspectQueue queue{std::get<2>(it->first), std::get<3>(it->first), 0, INT64_MAX};
    for (const auto& [place, job] : it->second) {
      ++queue.jobs;
      queue.oldest_us = std::min(queue.oldest_us, job->suspect_us);
    }
    reply.suspects.push_back(std::move(queue));
  }
  return reply;
}

}  // namespace millrace::broker
