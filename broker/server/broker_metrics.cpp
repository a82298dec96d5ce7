#include "broker/server/broker_metrics.hpp"

#include <algorithm>
#include <cstdint>

#include "broker/server/broker_metric_names.hpp"

namespace millrace::broker {
namespace {

using metrics::Page;

// Shows a histogram of the parts at powers of two, which lie between its buckets.
metrics::Shown shown(const LatencyHistogram& histogram, double unit) {
  metrics::Shown out;
  out.count = histogram.count;
  out.sum = static_cast<double>(histogram.sum_us) * unit;
  return out;
}

// At the powers from `first` to `last` of microseconds.
metrics::Shown times(const LatencyHistogram& histogram, int first, int last, int step) {
  metrics::Shown out = shown(histogram, 1e-6);
  for (int power = first; power <= last; power += step) {
    const std::uint64_t bound_us = std::uint64_t{1} << power;
    out.buckets.push_back({static_cast<double>(bound_us) * 1e-6, histogram.below(bound_us)});
  }
  return out;
}
metrics::Shown queue_times(const LatencyHistogram& histogram) {
  return times(histogram, 10, 36, 2);  // 1 ms to 19 hours
}
metrics::Shown store_times(const LatencyHistogram& histogram) {
  return times(histogram, 6, 24, 1);  // 64 us to 16 s
}

metrics::Shown counts(const LatencyHistogram& histogram) {
  constexpr int last = 14;
  metrics::Shown out = shown(histogram, 1);
  for (int power = 1; power <= last; ++power) {
    const std::uint64_t next = std::uint64_t{1} << power;
    out.buckets.push_back({static_cast<double>(next - 1), histogram.below(next)});
  }
  return out;
}

void add_tally(Page& page, const std::string& tenant, const TenantTally& tally) {
  page.add(metric::submitted, {tenant}, tally.submitted);
  page.add(metric::deduplicated, {tenant}, tally.known);
  page.add(metric::handed_out, {tenant}, tally.handed_out);
  page.add(metric::completed, {tenant}, tally.completed);
  page.add(metric::cancelled, {tenant}, tally.cancelled);
  page.add(metric::expired, {tenant}, tally.expired);
  page.add(metric::retried, {tenant, "error"}, tally.run_again);
  page.add(metric::retried, {tenant, "request"}, tally.retried);
  for (const auto& [code, jobs] : tally.failed) {
    page.add(metric::failed, {tenant, std::string(code_name(code))}, jobs);
  }
  for (const auto& [code, jobs] : tally.rejected) {
    page.add(metric::rejected, {tenant, std::string(code_name(code))}, jobs);
  }
  page.add(metric::queue_time, {tenant}, queue_times(tally.queue_time));
}

void add_held(Page& page, const TenantMeasures& held, std::int64_t now_us) {
  const std::string& tenant = held.tenant;
  const JobCounts& jobs = held.jobs;
  page.add(metric::jobs, {tenant, "queued"}, jobs.queued);
  page.add(metric::jobs, {tenant, "leased"}, jobs.leased);
  page.add(metric::jobs, {tenant, "completed"}, jobs.completed);
  page.add(metric::jobs, {tenant, "failed"}, jobs.failed);
  page.add(metric::jobs, {tenant, "cancelled"}, jobs.cancelled);
  page.add(metric::jobs, {tenant, "expired"}, jobs.expired);
  page.add(metric::batches, {tenant, "open"}, held.batches.open);
  page.add(metric::batches, {tenant, "closed"}, held.batches.closed);
  page.add(metric::batches, {tenant, "paused"}, held.batches.paused);
  page.add(metric::batches, {tenant, "finished"}, held.batches.finished);
  const std::int64_t age_us = std::max<std::int64_t>(now_us - held.oldest_us.value_or(now_us), 0);
  page.add(metric::oldest_age, {tenant}, static_cast<double>(age_us) * 1e-6);
  for (const ModelQueue& queue : held.waiting) {
    page.add(metric::queue_jobs, {tenant, queue.model}, queue.jobs);
    page.add(metric::queue_tokens, {tenant, queue.model}, queue.cost_tokens);
  }
  for (const auto& [stream, cursors] : held.streams) {
    page.add(metric::stream_last, {tenant, stream.stream}, stream.high);
    page.add(metric::stream_bytes, {tenant, stream.stream}, stream.bytes);
    for (const CursorInfo& cursor : cursors) {
      page.add(metric::cursor_lag, {tenant, stream.stream, cursor.cursor},
               stream.high - std::min(cursor.number, stream.high));
    }
  }
}

void add_store(Page& page, const Measures& measures) {
  page.add(metric::commit_seconds, {}, store_times(measures.ledger.commit));
  page.add(metric::commit_operations, {}, counts(measures.ledger.batch));
  page.add(metric::sync_seconds, {}, store_times(measures.ledger.sync));
  page.add(metric::wait_seconds, {}, store_times(measures.ledger.wait));
  page.add(metric::store_waiting, {}, std::uint64_t{measures.ledger.waiting});
  page.add(metric::store_retries, {}, measures.ledger.retries);
  if (!measures.store) return;
  page.add(metric::store_bytes, {}, measures.store->file);
  page.add(metric::store_log_bytes, {}, measures.store->log);
  page.add(metric::store_free_bytes, {}, measures.store->free);
}

void add_core(Page& page, const Measures& measures) {
  page.add(metric::tenants, {}, std::uint64_t{measures.held.tenants});
  for (const auto& [model, tokens] : measures.leased_tokens) {
    page.add(metric::leased_tokens, {model}, tokens);
  }
  page.add(metric::lease_expired, {}, measures.core.lapsed);
  page.add(metric::stale_results, {}, measures.core.stale);
  page.add(metric::engines_died, {}, measures.core.engines_died);
  page.add(metric::engines_hung, {}, measures.core.engines_hung);
  page.add(metric::results_trimmed, {}, measures.core.trimmed);
  page.add(metric::jobs_forgotten, {}, measures.core.forgotten);
  page.add(metric::sessions, {"client"}, std::uint64_t{measures.client_sessions});
  page.add(metric::sessions, {"engine"}, std::uint64_t{measures.engine_sessions});
  page.add(metric::handshakes_failed, {"key"}, measures.refused_keys);
  page.add(metric::handshakes_failed, {"handshake"}, measures.refused_handshakes);
  page.add(metric::decode_errors, {}, measures.core.malformed);
  page.add(metric::messages_refused, {}, measures.core.refused);
  page.add(metric::messages_unauthorized, {}, measures.core.unauthorized);
  page.add(metric::messages_dropped, {}, measures.dropped_messages);
  page.add(metric::spans_sent, {}, measures.spans_sent);
  page.add(metric::spans_dropped, {}, measures.spans_dropped);
}

}  // namespace

std::span<const metrics::Metric* const> broker_metrics() {
  return metric::all;
}

std::string metrics_page(const Measures& measures) {
  Page page(metric::all);
  const auto& tallies = measures.tally.tenants();
  std::size_t room = measures.tally.room();
  for (const auto& [tenant, tally] : tallies) add_tally(page, tenant, tally);
  for (const TenantMeasures& held : measures.held.listed) {
    // A counter should be there before it counts, so that its first value is an increase. But one
    // of a tenant that is counted among the others would be 0 for ever.
    if (room > 0 && !tallies.contains(held.tenant)) {
      add_tally(page, held.tenant, {});
      --room;
    }
    add_held(page, held, measures.now_us);
  }
  add_core(page, measures);
  add_store(page, measures);
  return page.text();
}

}  // namespace millrace::broker
