#pragma once
// Replies as text, so that those of two ledgers can be compared. Thread safety: pure functions.
#include <sstream>
#include <string>

#include "broker/ledger/ledger.hpp"

namespace millrace::broker::test {

// A reply as text, without the epoch, in which two ledgers differ.
struct Printer {
  std::ostringstream out;
  void ends(const std::vector<FinishReply>& list) {
    for (const auto& e : list) (*this)(e);
  }
  void leases(const std::vector<LapsedLease>& list) {
    for (const auto& l : list) {
      out << l.lease << "/" << l.engine << "/" << l.job << "/" << l.alone << " ";
    }
  }
  void operator()(const BackUpReply& r) { out << r.folder << r.done; }
  void operator()(const SubmitReply& r) { out << r.known << int(r.state); }
  void operator()(const ClaimReply& r) {
    for (const auto& j : r.jobs) {
      out << j.lease << "/" << j.job << "/" << j.attempt << "/" << j.suspect << j.alone << "/"
          << j.body << "/" << j.submitted_us << "/" << j.deadline_us.value_or(-1) << "/"
          << j.custom_id << "/" << j.stream << "/" << j.cost_tokens << " ";
    }
    for (const auto& s : r.shares)
      out << s.tokens << "/" << s.turns << s.exhausted << s.at_limit << s.ready << " ";
    out << r.turn << r.at_limit << r.more << r.ready;
    ends(r.ended);
  }
  void operator()(const RenewReply& r) {
    for (const auto id : r.lost) out << "lost " << id;
    for (const auto id : r.cancelled) out << "cancelled " << id;
  }
  void operator()(const FinishReply& r) {
    out << r.number << "/" << r.tenant << "/" << r.stream << "/" << r.job << "/" << int(r.state)
        << "/" << r.batch << r.batch_number << "/" << (r.reason ? code_name(*r.reason) : "");
  }
  void operator()(const GiveBackReply& r) {
    for (const auto& id : r.returned) out << id << " ";
    for (const auto& who : r.tenants) out << "of " << who << " ";
    ends(r.ended);
  }
  void operator()(const FindLapsedReply& r) { leases(r.leases); }
  void operator()(const ExpireReply& r) {
    ends(r.ended);
    leases(r.leases);
    out << r.more;
  }
  void operator()(const CancelReply& r) {
    out << r.cancelled << "," << r.requested << "," << r.ended << "," << r.unknown << r.more;
    ends(r.numbers);
    leases(r.leases);
  }
  void operator()(const RetryReply& r) {
    out << r.retried << "," << r.not_failed << "," << r.unknown << r.more << r.last;
  }
  void operator()(const ReadStreamReply& r) {
    out << r.first << "-" << r.high << r.trimmed;
    for (const auto& e : r.entries) out << " " << e.number << ":" << e.job << ":" << e.body;
  }
  void operator()(const ListStreamsReply& r) {
    for (const auto& s : r.streams) stream(s);
    out << r.more;
  }
  void operator()(const StreamReply& r) { stream(r.stream); }
  void stream(const StreamInfo& s) {
    out << s.stream << " " << s.first << "-" << s.high << "/" << s.bytes << "/" << s.cursors << "/"
        << s.set.age_us.value_or(-1) << "/" << s.set.bytes.value_or(7) << "/"
        << s.set.cursor_age_us.value_or(-1) << " ";
  }
  void operator()(const MoveCursorReply& r) { out << r.number; }
  void operator()(const ListCursorsReply& r) {
    for (const auto& c : r.cursors) out << c.cursor << " " << c.number << "/" << c.moved_us << " ";
  }
  void operator()(const RetainReply& r) {
    out << r.more << r.after.tenant << "/" << r.after.stream << " " << r.entries << "," << r.jobs
        << "," << r.cursors;
  }
  void operator()(const GetJobReply& r) {
    out << int(r.state) << "," << r.attempts << "," << r.failures << r.suspect << "," << r.among
        << "," << r.incident << r.cancel_requested << r.stream << r.batch << r.custom_id << r.model
        << r.kv << "," << r.number << "," << int(r.paused) << r.start_us.value_or(-1) << ","
        << r.submitted_us << "," << r.lease.value_or(0) << r.engine;
  }
  void operator()(const CountReply& r) {
    const JobCounts& c = r.counts;
    out << c.queued << "," << c.leased << "," << c.completed << "," << c.failed << ","
        << c.cancelled << "," << c.expired;
    out << r.paused << r.oldest_us.value_or(-1) << "/" << r.queued_tokens << "/" << r.batches.open
        << "," << r.batches.closed << "," << r.batches.paused << "," << r.batches.finished;
    for (const auto& model : r.paused_models) out << " " << model;
    for (const auto& queue : r.suspects) {
      out << " " << queue.model << "/" << queue.kv << "/" << queue.alone << "/" << queue.jobs << "/"
          << queue.oldest_us;
    }
    for (const auto& queue : r.waiting) {
      out << " " << queue.model << "/" << queue.jobs << "/" << queue.cost_tokens;
    }
  }
  void operator()(const ListJobsReply& r) {
    for (const JobInfo& j : r.answer.jobs) {
      out << j.job << "/" << j.batch << "/" << int(j.state) << "/" << j.priority << "/"
          << j.attempts << "/" << j.failures << "/" << j.max_attempts << j.suspect << j.paused
          << "/" << j.submitted_us << "/" << j.not_before_us.value_or(-1) << "/"
          << j.deadline_us.value_or(-1) << "/" << j.ended_us.value_or(-1) << "/" << j.number << "/"
          << j.engine << "/" << (j.error ? j.error->text() : "") << " ";
    }
    out << r.answer.more << r.answer.next;
  }
  void operator()(const ListBatchesReply& r) {
    for (const BatchState& b : r.answer.batches) batch(b);
    out << r.answer.more << r.answer.next;
  }
  void operator()(const UpdateBatchReply& r) {
    batch(r.batch);
    out << r.written;
  }
  void batch(const BatchState& b) {
    const JobCounts& c = b.counts;
    out << b.batch << "/" << b.stream << b.first << "/" << c.queued << "," << c.leased << ","
        << c.completed << "," << c.failed << "," << c.cancelled << "," << c.expired << "/"
        << b.created_us << b.closed << b.paused << b.finished_us.value_or(-1) << "/" << b.number;
    for (const auto& [name, value] : b.metadata) out << name << "=" << value << ",";
    out << " ";
  }
  void operator()(const PauseReply& r) { out << r.changed << r.more; }
  void operator()(const BeatReply& r) { out << r.others; }
  void operator()(const NewsReply& r) {
    for (const News& one : r.news) {
      out << static_cast<int>(one.kind) << one.tenant << "/" << one.name << "/" << one.number
          << ";";
    }
  }
  void operator()(const DropReply& r) {
    out << r.dropped << "," << r.not_failed << "," << r.unknown << r.more;
  }
  void operator()(const StartReply& r) { out << r.started << r.more; }
  void operator()(const ListTenantsReply& r) {
    for (const TenantInfo& t : r.tenants) {
      out << t.tenant << " " << t.ready;
      for (const auto& queue : t.suspects) out << "/" << queue.model << "/" << queue.jobs;
      out << ";";
    }
  }
};

inline std::string print(const Result<Reply>& reply) {
  if (!reply) {
    const Code code = reply.error().code;
    return std::string(code_name(code)) +
           (code == Code::epoch_changed ? "" : " " + reply.error().message);
  }
  Printer printer;
  std::visit(printer, *reply);
  return printer.out.str();
}

}  // namespace millrace::broker::test
