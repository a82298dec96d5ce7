// Batches and pauses.
#include "broker/ledger/memory_records.hpp"

namespace millrace::broker {

std::optional<BatchRecord> MemoryRecords::find_batch(const std::string& tenant,
                                                     const std::string& batch) {
  const auto it = batch_records_.find({tenant, batch});
  if (it == batch_records_.end()) return std::nullopt;
  return it->second;
}

void MemoryRecords::put_batch(const std::string& tenant, const BatchRecord& batch) {
  note_undo([this, key = Key(tenant, batch.batch), before = find_batch(tenant, batch.batch)] {
    batch_records_.erase(key);
    if (before) batch_records_[key] = *before;
  });
  batch_records_[{tenant, batch.batch}] = batch;
}

void MemoryRecords::delete_batch(const std::string& tenant, const std::string& batch) {
  auto gone = batch_records_.extract({tenant, batch});
  if (gone.empty()) return;
  note_undo([this, key = gone.key(), before = gone.mapped()] { batch_records_[key] = before; });
}

std::vector<BatchRecord> MemoryRecords::list_batches(const std::string& tenant,
                                                     const std::string& after,
                                                     std::uint64_t max_batches) {
  std::vector<BatchRecord> out;
  for (auto it = batch_records_.upper_bound({tenant, after});
       it != batch_records_.end() && it->first.first == tenant && out.size() < max_batches; ++it) {
    out.push_back(it->second);
  }
  return out;
}

// ---- pauses

std::vector<std::string> MemoryRecords::set_aside(const std::string& tenant,
                                                  const std::string& batch,
                                                  std::uint64_t max_jobs) {
  std::vector<std::string> out;
  const auto aside = set_aside_.find({tenant, batch});
  if (aside == set_aside_.end()) return out;
  for (const auto& [sequence, job] : aside->second) {
    if (out.size() == max_jobs) break;
    out.push_back(job->job);
  }
  return out;
}

std::optional<std::string> MemoryRecords::next_set_aside(const std::string& tenant,
                                                         const std::string& after) {
  const auto it = set_aside_.upper_bound({tenant, after});
  if (it == set_aside_.end() || it->first.first != tenant) return std::nullopt;
  return it->first.second;
}

std::vector<std::string> MemoryRecords::paused_models(const std::string& tenant) {
  std::vector<std::string> out;
  for (auto it = pauses_.lower_bound({tenant, ""}); it != pauses_.end() && it->first == tenant;
       ++it) {
    out.push_back(it->second);
  }
  return out;
}

void MemoryRecords::insert_pause(const std::string& tenant, const std::string& model) {
  if (!pauses_.emplace(tenant, model).second) return;
  note_undo([this, key = Key(tenant, model)] { pauses_.erase(key); });
}

void MemoryRecords::delete_pause(const std::string& tenant, const std::string& model) {
  if (pauses_.erase({tenant, model}) == 0) return;
  note_undo([this, key = Key(tenant, model)] { pauses_.insert(key); });
}

}  // namespace millrace::broker
