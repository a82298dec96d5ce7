#include "broker/server/survey.hpp"

#include <algorithm>

#include "broker/core/outbox.hpp"

namespace millrace::broker {

LedgerRequest Survey::ask(Step step, std::vector<Operation> operations) {
  running_ = true;
  step_ = step;
  return {++ticket_, std::move(operations)};
}

LedgerRequest Survey::begin() {
  found_ = {};
  refused_ = {};
  return ask(Step::tenants, {ListTenants{}});
}

std::optional<LedgerRequest> Survey::completed(const Completed& completed) {
  if (completed.ticket != ticket_ || !running_) return {};
  if (!all_answered(completed.replies)) {
    running_ = false;
    return {};
  }
  std::optional<LedgerRequest> next;
  switch (step_) {
    case Step::tenants:
      next = ask_counts(completed.replies);
      break;
    case Step::counts:
      next = ask_cursors(completed.replies);
      break;
    case Step::cursors:
      take_cursors(completed.replies);
      break;
  }
  running_ = next.has_value();
  return next;
}

// Gauges that are absent would look like a broker that holds nothing, so all are told or none.
bool Survey::all_answered(const std::vector<Result<Reply>>& replies) {
  const auto refused = std::ranges::find_if(replies, [](const auto& reply) { return !reply; });
  if (refused == replies.end()) return true;
  refused_ = refused->error();
  return false;
}

Result<LedgerMeasures> Survey::take() {
  LedgerMeasures found = std::exchange(found_, {});
  if (refused_) return fail(*std::exchange(refused_, {}));
  return found;
}

std::optional<LedgerRequest> Survey::ask_counts(const std::vector<Result<Reply>>& replies) {
  const auto* tenants = reply_as<ListTenantsReply>(replies.front());
  if (tenants == nullptr || tenants->tenants.empty()) return {};
  found_.tenants = tenants->tenants.size();
  std::vector<Operation> operations;
  for (const TenantInfo& tenant : tenants->tenants) {
    if (found_.listed.size() == Tally::tenants_named) break;
    found_.listed.push_back({tenant.tenant, {}, {}, {}, {}, {}});
    operations.emplace_back(Count{tenant.tenant, "", true});
    operations.emplace_back(ListStreams{tenant.tenant, "", measured_streams});
  }
  return ask(Step::counts, std::move(operations));
}

std::optional<LedgerRequest> Survey::ask_cursors(const std::vector<Result<Reply>>& replies) {
  std::vector<Operation> operations;
  std::size_t streams = 0;
  asked_.clear();
  for (std::size_t i = 0; i < found_.listed.size(); ++i) {
    TenantMeasures& tenant = found_.listed[i];
    if (const auto* counted = reply_as<CountReply>(replies[2 * i])) {
      tenant.jobs = counted->counts;
      tenant.oldest_us = counted->oldest_us;
      tenant.batches = counted->batches;
      tenant.waiting = counted->waiting;
    }
    const auto* listed = reply_as<ListStreamsReply>(replies[2 * i + 1]);
    if (listed == nullptr) continue;
    for (const StreamInfo& stream : listed->streams) {
      if (streams == measured_streams) break;
      ++streams;
      tenant.streams.push_back({stream, {}});
      if (stream.cursors == 0) continue;
      asked_.emplace_back(i, tenant.streams.size() - 1);
      operations.emplace_back(ListCursors{tenant.tenant, stream.stream});
    }
  }
  if (operations.empty()) return {};
  return ask(Step::cursors, std::move(operations));
}

void Survey::take_cursors(const std::vector<Result<Reply>>& replies) {
  std::size_t room = measured_cursors;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const auto* listed = reply_as<ListCursorsReply>(replies[i]);
    if (listed == nullptr) continue;
    const std::size_t taken = std::min(room, listed->cursors.size());
    room -= taken;
    auto& cursors = found_.listed[asked_[i].first].streams[asked_[i].second].cursors;
    cursors.assign(listed->cursors.begin(),
                   listed->cursors.begin() + static_cast<std::ptrdiff_t>(taken));
  }
}

}  // namespace millrace::broker
