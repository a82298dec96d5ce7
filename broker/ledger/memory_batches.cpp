// Batches.
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

}  // namespace millrace::broker
