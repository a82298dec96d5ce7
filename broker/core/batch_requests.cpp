#include "broker/core/batch_requests.hpp"

#include <cmath>
#include <utility>

namespace millrace::broker {

void BatchRequests::add_rate(const std::string& tenant, BatchState& batch) const {
  batch.jobs_per_second =
      doorbell_.rates().jobs_per_second(tenant, batch.batch, out_.now().mono_us);
  const std::uint64_t open = batch.counts.queued + batch.counts.leased;
  if (open == 0 || batch.jobs_per_second <= 0 || batch.paused) return;
  batch.eta_s =
      static_cast<std::uint64_t>(std::ceil(static_cast<double>(open) / batch.jobs_per_second));
}

void BatchRequests::batches(const Asker& asker, BatchesRequest request) {
  if (!answers_.begin(asker)) return;
  answers_.ask(asker, ListBatches{asker.tenant, std::move(request)}, [this, asker](Reply reply) {
    BatchesAnswer found = std::move(std::get<ListBatchesReply>(reply).answer);
    for (BatchState& batch : found.batches) add_rate(asker.tenant, batch);
    answers_.answer(asker, std::move(found));
  });
}

void BatchRequests::change(const Asker& asker, ChangeBatch change) {
  if (!answers_.begin(asker)) return;
  answers_.ask(asker, UpdateBatch{asker.tenant, std::move(change)}, [this, asker](Reply reply) {
    auto& changed = std::get<UpdateBatchReply>(reply);
    if (changed.written != 0) {
      doorbell_.written({changed.written, asker.tenant, batches_stream, "", changed.epoch});
    }
    add_rate(asker.tenant, changed.batch);
    answers_.answer(asker, BatchChanged{std::move(changed.batch)});
  });
}

}  // namespace millrace::broker
