// What is no longer kept: jobs by their age, cursors by theirs, and entries by age and bytes as far
// as cursors allow.
#include <algorithm>
#include <limits>
#include <map>

#include "broker/ledger/ledger_rules.hpp"

namespace millrace::broker {
namespace {

constexpr std::uint64_t nothing_held = std::numeric_limits<std::uint64_t>::max();

bool past(std::int64_t since_us, std::int64_t age_us, std::int64_t now_us) {
  return age_us != 0 && now_us - since_us >= age_us;
}

// Decides for one entry after the other, oldest first, whether it goes.
class Trimming {
 public:
  Trimming(const Retention& limits, const StreamRecord& record, std::uint64_t held_from,
           std::int64_t now_us)
      : limits_(limits),
        first_(record.first),
        high_(record.high),
        held_from_(held_from),
        now_us_(now_us),
        bytes_(record.bytes) {}

  bool goes(const EntrySize& entry) const {
    if (entry.number < first_) return true;
    return over(entry, entry.number < held_from_ ? 1 : cursor_hold);
  }
  void gone(const EntrySize& entry) { bytes_ -= std::min(bytes_, entry.bytes); }
  std::uint64_t bytes() const { return bytes_; }  // of the entries that stay

 private:
  bool over(const EntrySize& entry, std::int64_t times) const {
    if (past(entry.written_us, times * limits_.age_us, now_us_)) return true;
    // The last entry stays, however large it is.
    return limits_.bytes != 0 && entry.number < high_ &&
           bytes_ > static_cast<std::uint64_t>(times) * limits_.bytes;
  }

  const Retention limits_;
  const std::uint64_t first_, high_, held_from_;
  const std::int64_t now_us_;
  std::uint64_t bytes_;
};

}  // namespace

// Returns how many it forgot.
std::uint32_t LedgerRules::forget_jobs(const Retain& op, RetainReply& reply) {
  if (op.policy.job_age_us == 0) return 0;
  const std::uint32_t most = std::max(op.max_rows / 2, 1u);
  const std::int64_t until_us = transitions_.now_us() - op.policy.job_age_us;
  const auto names = records_.ended_jobs(until_us, most);
  std::map<std::string, std::vector<std::string>> ids;
  for (const JobName& name : names) ids[name.tenant].push_back(name.job);
  for (const auto& [tenant, jobs] : ids) records_.expect_jobs(tenant, jobs);
  std::vector<JobRecord> ended;
  for (const JobName& name : names) {
    auto job = records_.find_job(name.tenant, name.job);
    // Another broker may have retried or forgotten it since it was found.
    if (job && job->ended_us && *job->ended_us <= until_us) ended.push_back(*std::move(job));
  }
  forget(ended);
  reply.jobs = ended.size();
  reply.more = names.size() == most;
  return static_cast<std::uint32_t>(reply.jobs);
}

// Returns the first number that a cursor holds.
std::uint64_t LedgerRules::expire_cursors(const StreamPlace& at, const Retention& limits,
                                          RetainReply& reply) {
  std::uint64_t held_from = nothing_held;
  for (const CursorInfo& cursor : records_.list_cursors(at.tenant, at.stream)) {
    if (past(cursor.moved_us, limits.cursor_age_us, transitions_.now_us())) {
      records_.delete_cursor(at.tenant, at.stream, cursor.cursor);
      ++reply.cursors;
    } else {
      held_from = std::min(held_from, cursor.number + 1);
    }
  }
  return held_from;
}

// Returns false where entries that go are left, because there were more than `rows`, from which it
// takes those that it deletes.
bool LedgerRules::retain_stream(const StreamPlace& at, const Retention& defaults,
                                std::uint32_t& rows, RetainReply& reply) {
  auto record = records_.find_stream(at.tenant, at.stream);
  if (!record) return true;
  const Retention limits = limits_of(record->set, defaults);
  const std::uint64_t held_from = expire_cursors(at, limits, reply);
  Trimming trimming(limits, *record, held_from, transitions_.now_us());
  std::uint64_t below = 0;  // entries below it go
  std::uint32_t going = 0;
  bool all = true;
  records_.scan_oldest(at.tenant, at.stream, std::uint64_t{rows} + 1, [&](const EntrySize& entry) {
    if (!trimming.goes(entry)) return false;
    all = going < rows;
    if (!all) return false;
    trimming.gone(entry);
    below = entry.number + 1;
    ++going;
    return true;
  });
  if (going == 0) return all;
  records_.delete_entries(at.tenant, at.stream, below);
  record->oldest = below;
  record->first = std::max(record->first, below);
  record->bytes = trimming.bytes();
  records_.update_stream(at.tenant, at.stream, *record);
  rows -= going;
  reply.entries += going;
  return all;
}

Result<Reply> LedgerRules::carry_out(const Retain& op) {
  RetainReply reply;
  std::uint32_t rows = op.max_rows;
  rows -= std::min(forget_jobs(op, reply), rows);
  reply.after = op.after;
  while (records_.status()) {
    const auto next = records_.next_stream(reply.after);
    if (!next) {
      reply.after = {};
      return reply;  // `more` only where jobs are left
    }
    if (rows == 0) break;
    if (!is_reserved(next->stream) && !retain_stream(*next, op.policy.streams, rows, reply)) break;
    reply.after = *next;
    rows -= std::min(rows, 1u);  // a stream costs a look even if nothing goes
  }
  reply.more = true;
  return reply;
}

}  // namespace millrace::broker
