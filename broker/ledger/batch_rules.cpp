// The rules of batches: what is kept of them, when one finishes, and the entry that tells it.
#include <utility>

#include "broker/ledger/ledger_rules.hpp"
#include "broker/ledger/refusals.hpp"

namespace millrace::broker {
namespace {

JobCounts counts_of(const StateCounts& jobs) {
  const auto in = [&](JobState state) {
    return static_cast<std::uint64_t>(jobs[static_cast<std::size_t>(state)]);
  };
  return {in(JobState::queued), in(JobState::leased),    in(JobState::completed),
          in(JobState::failed), in(JobState::cancelled), in(JobState::expired)};
}

Status check_metadata(const BatchRecord& record) {
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : record.metadata) bytes += name.size() + value.size();
  if (record.metadata.size() <= limits::metadata_entries && bytes <= limits::metadata_bytes) {
    return {};
  }
  return refuse_more_metadata(record.batch, record.metadata.size(), bytes);
}

}  // namespace

// ---- transitions

Transitions::Book& Transitions::book_of(const std::string& tenant, const std::string& batch) {
  const std::pair key(tenant, batch);
  if (const auto it = books_.find(key); it != books_.end()) return it->second;
  StateCounts jobs = records_.counts(tenant, batch);
  if (const auto own = changes_.find(key); own != changes_.end()) {
    for (std::size_t state = 0; state < jobs.size(); ++state) jobs[state] += own->second[state];
  }
  Book book{records_.find_batch(tenant, batch)};
  for (const JobState state : {JobState::queued, JobState::leased}) {
    book.open += jobs[static_cast<std::size_t>(state)];
  }
  return books_.emplace(key, std::move(book)).first->second;
}

bool Transitions::is_closed(const std::string& tenant, const std::string& batch) {
  if (batch.empty()) return false;
  const Book& book = book_of(tenant, batch);
  return book.record && book.record->closed;
}

// The ready jobs of a batch count for the tenant while the batch is not paused.
void Transitions::update_batch(const std::string& tenant, const BatchRecord& record) {
  auto& kept = book_of(tenant, record.batch).record;
  const bool was_paused = kept && kept->paused;
  records_.put_batch(tenant, record);
  kept = record;
  if (was_paused == record.paused) return;
  add_ready(tenant, "", ready_in(tenant, record.batch).jobs, record.paused ? -1 : 1);
}

void Transitions::forget_batch(const std::string& tenant, const std::string& batch) {
  records_.delete_counts(tenant, batch);
  records_.delete_batch(tenant, batch);
  books_.erase({tenant, batch});
}

void Transitions::reopen(const JobRecord& job) {
  if (job.batch.empty()) return;
  const Book& book = book_of(job.tenant, job.batch);
  if (!book.record || !book.record->finished_us) return;
  BatchRecord record = *book.record;
  record.finished_us.reset();
  record.number = 0;
  update_batch(job.tenant, record);
}

std::uint64_t Transitions::finish_batch(const std::string& tenant, const std::string& batch) {
  const Book& book = book_of(tenant, batch);
  if (!book.record || !book.record->closed || book.record->finished_us || book.open > 0) return 0;
  flush();
  BatchRecord record = *book.record;
  record.finished_us = now_us_;
  JobResult end;
  end.batch = batch;
  end.metadata = record.metadata;
  end.submitted_us = record.created_us;
  end.ended_us = now_us_;
  end.counts = counts_of(records_.counts(tenant, batch));
  record.number =
      append(tenant, batches_stream, "", encode_result(end), JobState::completed).number;
  update_batch(tenant, record);
  return record.number;
}

// ---- operations

BatchState LedgerRules::state_of(const std::string& tenant, const BatchRecord& record) {
  BatchState out;
  out.batch = record.batch;
  out.counts = counts_of(records_.counts(tenant, record.batch));
  out.created_us = record.created_us;
  out.closed = record.closed;
  out.finished_us = record.finished_us;
  out.paused = record.paused || transitions_.pauses_of(tenant).contains("");
  out.number = record.number;
  out.stream = record.stream;
  out.first = record.first;
  out.metadata = record.metadata;
  return out;
}

Result<Reply> LedgerRules::carry_out(const ListBatches& op) {
  transitions_.flush();
  ListBatchesReply reply;
  if (!op.wanted.batch.empty()) {
    const auto record = records_.find_batch(op.tenant, op.wanted.batch);
    if (!record) return refuse_unknown_batch(op.wanted.batch);
    reply.answer.batches.push_back(state_of(op.tenant, *record));
    return reply;
  }
  list_batches(op, reply.answer);
  return reply;
}

void LedgerRules::list_batches(const ListBatches& op, BatchesAnswer& answer) {
  std::string after = op.wanted.after;
  for (std::uint64_t looked = 0; looked < looked_batches;) {
    const std::uint64_t wanted = std::uint64_t{op.max_batches} + 1;
    const auto page = records_.list_batches(op.tenant, after, wanted);
    for (const BatchRecord& record : page) {
      if (answer.batches.size() == op.max_batches || looked == looked_batches) {
        answer.more = true;
        answer.next = after;
        return;
      }
      ++looked;
      after = record.batch;
      if (op.wanted.unfinished && record.finished_us) continue;
      BatchState state = state_of(op.tenant, record);
      if (op.wanted.unfinished && state.counts.queued + state.counts.leased == 0) continue;
      answer.batches.push_back(std::move(state));
    }
    if (page.size() < wanted) return;
  }
  answer.more = true;
  answer.next = after;
}

Result<Reply> LedgerRules::carry_out(const UpdateBatch& op) {
  auto record = records_.find_batch(op.tenant, op.change.batch);
  if (!record) return refuse_unknown_batch(op.change.batch);
  for (const auto& [name, value] : op.change.metadata) {
    if (value.empty()) {
      record->metadata.erase(name);
    } else {
      record->metadata[name] = value;
    }
  }
  MILLRACE_TRY(check_metadata(*record));
  record->closed = record->closed || op.change.close;
  transitions_.update_batch(op.tenant, *record);
  const std::uint64_t written = transitions_.finish_batch(op.tenant, record->batch);
  transitions_.flush();
  const auto now = records_.find_batch(op.tenant, op.change.batch);
  if (!now) return refuse_unknown_batch(op.change.batch);
  return UpdateBatchReply{state_of(op.tenant, *now), written, records_.epoch()};
}

}  // namespace millrace::broker
