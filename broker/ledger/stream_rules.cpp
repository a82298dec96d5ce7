// The rules of streams, and the operations that only read.
#include <algorithm>

#include "broker/ledger/ledger_rules.hpp"
#include "broker/ledger/refusals.hpp"

namespace millrace::broker {

// ---- streams

Status LedgerRules::read_entries(const ReadStream& op, std::uint64_t from, ReadStreamReply& reply) {
  std::uint64_t bytes = 0, expected = from;
  bool damaged = false;
  records_.scan_entries(op.tenant, op.stream, from, op.max_entries, [&](const StoredEntry& entry) {
    damaged = entry.number != expected || !entry.sound;
    if (damaged) return false;
    bytes += entry.body.size();
    if (!reply.entries.empty() && bytes > op.max_bytes) return false;
    reply.entries.push_back({entry.number, entry.job, Body(entry.body)});
    ++expected;
    return true;
  });
  // What is damaged behind sound entries is reported by the next read.
  if (!records_.status() || op.max_entries == 0 || !reply.entries.empty()) return {};
  if (damaged) return refuse_damaged_entry(op.stream, expected);
  return refuse_missing_entry(op.stream, expected);
}

Result<Reply> LedgerRules::carry_out(const ReadStream& op) {
  const std::string& epoch = records_.epoch();
  if (!op.epoch.empty() && op.epoch != epoch) return refuse_epoch(op.stream, op.epoch, epoch);
  ReadStreamReply reply;
  reply.epoch = epoch;
  const auto stream = records_.find_stream(op.tenant, op.stream);
  if (!stream) return reply;
  reply.first = stream->first;
  reply.high = stream->high;
  std::uint64_t from = op.from;
  if (from == 0) {
    const auto cursor = records_.find_cursor(op.tenant, op.stream, op.cursor);
    from = cursor ? cursor->number + 1 : 1;
  }
  reply.trimmed = from < reply.first;
  if (reply.trimmed || from > reply.high) return reply;
  MILLRACE_TRY(read_entries(op, from, reply));
  return reply;
}

namespace {

// Whether a stream is listed.
bool holds_anything(const StreamInfo& stream) {
  return stream.high >= stream.first || stream.cursors > 0 || stream.set != StreamLimits{};
}

}  // namespace

Result<Reply> LedgerRules::carry_out(const ListStreams& op) {
  ListStreamsReply reply{records_.epoch(), {}, false};
  std::string after = op.after;
  while (!reply.more) {
    auto page = records_.list_streams(op.tenant, after, op.max_streams);
    if (page.empty()) break;
    after = page.back().stream;
    for (StreamInfo& stream : page) {
      if (is_reserved(stream.stream) || !holds_anything(stream)) continue;
      reply.more = reply.streams.size() == op.max_streams;
      if (reply.more) break;
      reply.streams.push_back(std::move(stream));
    }
  }
  return reply;
}

Result<Reply> LedgerRules::stream_reply(const std::string& tenant, const std::string& stream) {
  const auto record = records_.find_stream(tenant, stream);
  if (!record) return refuse_unknown_stream(stream);
  const std::uint64_t cursors = records_.list_cursors(tenant, stream).size();
  return StreamReply{records_.epoch(),
                     {stream, record->first, record->high, record->bytes, cursors, record->set}};
}

Result<Reply> LedgerRules::carry_out(const GetStream& op) {
  return stream_reply(op.tenant, op.stream);
}

Result<Reply> LedgerRules::carry_out(const MoveCursor& op) {
  const auto stream = records_.find_stream(op.tenant, op.stream);
  if (!stream) return refuse_unknown_stream(op.stream);
  if (op.number > stream->high) return refuse_past_end(op.stream, op.number, stream->high);
  const auto known = records_.find_cursor(op.tenant, op.stream, op.cursor);
  if (!known && records_.list_cursors(op.tenant, op.stream).size() >= limits::cursors_per_stream) {
    return refuse_more_cursors(op.stream, limits::cursors_per_stream);
  }
  const std::uint64_t number = std::max(op.number, known ? known->number : 0);
  records_.set_cursor(op.tenant, op.stream, {op.cursor, number, transitions_.now_us()});
  return MoveCursorReply{number};
}

Result<Reply> LedgerRules::carry_out(const ListCursors& op) {
  if (!records_.find_stream(op.tenant, op.stream)) return refuse_unknown_stream(op.stream);
  return ListCursorsReply{records_.list_cursors(op.tenant, op.stream)};
}

Result<Reply> LedgerRules::carry_out(const RemoveCursor& op) {
  const auto cursor = records_.find_cursor(op.tenant, op.stream, op.cursor);
  if (!cursor) return refuse_unknown_cursor(op.stream, op.cursor);
  records_.delete_cursor(op.tenant, op.stream, op.cursor);
  return stream_reply(op.tenant, op.stream);
}

Result<StreamRecord> LedgerRules::changeable(const std::string& tenant, const std::string& stream) {
  if (is_reserved(stream)) return refuse_reserved_stream(stream);
  const auto record = records_.find_stream(tenant, stream);
  if (!record) return refuse_unknown_stream(stream);
  return *record;
}

Result<Reply> LedgerRules::carry_out(const TrimStream& op) {
  MILLRACE_ASSIGN(StreamRecord record, changeable(op.tenant, op.stream));
  if (op.first > record.high + 1) return refuse_past_end(op.stream, op.first, record.high);
  if (op.first > record.first) {
    record.first = op.first;
    records_.update_stream(op.tenant, op.stream, record);
  }
  return stream_reply(op.tenant, op.stream);
}

Result<Reply> LedgerRules::carry_out(const RemoveStream& op) {
  MILLRACE_ASSIGN(StreamRecord record, changeable(op.tenant, op.stream));
  for (const CursorInfo& cursor : records_.list_cursors(op.tenant, op.stream)) {
    records_.delete_cursor(op.tenant, op.stream, cursor.cursor);
  }
  record.first = record.high + 1;
  record.set = {};
  records_.update_stream(op.tenant, op.stream, record);
  return stream_reply(op.tenant, op.stream);
}

Result<Reply> LedgerRules::carry_out(const KeepStream& op) {
  if (is_reserved(op.stream)) return refuse_reserved_stream(op.stream);
  StreamRecord record = records_.find_stream(op.tenant, op.stream).value_or(StreamRecord{});
  record.set = op.set;
  records_.update_stream(op.tenant, op.stream, record);
  return stream_reply(op.tenant, op.stream);
}

Result<Reply> LedgerRules::carry_out(const Append& op) {
  return transitions_.append(op.tenant, op.stream, op.job, op.body, JobState::failed);
}

// ---- reads

Result<Reply> LedgerRules::carry_out(const GetJob& op) {
  const auto job = records_.find_job(op.tenant, op.job);
  if (!job) return refuse_unknown_job(op.job);
  GetJobReply reply;
  reply.state = job->state;
  reply.attempts = job->attempts;
  reply.failures = job->failures;
  reply.suspect = job->suspicion.has_value();
  reply.among = job->among();
  if (job->suspicion) reply.incident = job->suspicion->incident;
  reply.cancel_requested = job->cancel_requested;
  reply.stream = job->stream;
  reply.batch = job->batch;
  reply.model = job->model;
  reply.kv = job->kv;
  reply.custom_id = job->custom_id;
  reply.number = job->number;
  reply.cost_tokens = job->cost_tokens;
  reply.prefix = job->prefix;
  reply.submitted_us = job->submitted_us;
  if (job->start_us != until_resumed) reply.start_us = job->start_us;
  reply.paused = transitions_.paused_by(*job);
  if (job->lease != 0) {
    reply.lease = job->lease;
    if (const auto lease = records_.find_lease(job->lease)) reply.engine = lease->engine;
  }
  return reply;
}

}  // namespace millrace::broker
