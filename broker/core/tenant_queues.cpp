#include "broker/core/tenant_queues.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace millrace::broker {
namespace {

std::map<std::string, std::uint64_t> leased_tokens(const EngineTable& table) {
  std::map<std::string, std::uint64_t> out;
  for (const auto& [id, engine] : table.all()) {
    for (const auto& [lease, held] : engine.leases) out[held.tenant] += held.cost_tokens;
  }
  return out;
}

}  // namespace

void TenantQueues::ask(const Asker& asker, Then then) {
  if (!asker.operates) return count({asker.tenant}, false, std::move(then));
  out_.ask_one(ListTenants{}, [this, then = std::move(then)](Result<Reply> reply) mutable {
    const auto* listed = reply_as<ListTenantsReply>(reply);
    if (listed == nullptr) return then(fail(reply_error(reply)));
    std::vector<std::string> tenants;
    for (const TenantInfo& tenant : listed->tenants) {
      if (tenants.size() < Tally::tenants_named) tenants.push_back(tenant.tenant);
    }
    const bool more = tenants.size() < listed->tenants.size();
    count(tenants, more, std::move(then));
  });
}

void TenantQueues::count(const std::vector<std::string>& tenants, bool more, Then then) {
  if (tenants.empty()) return then(Found{});
  std::vector<Operation> operations;
  for (const std::string& tenant : tenants) {
    operations.emplace_back(Count{.tenant = tenant, .batch = {}, .queue = true});
  }
  out_.ask(std::move(operations), [this, tenants, more, then = std::move(then)](Replies replies) {
    const auto leased = leased_tokens(table_);
    Found found{.queues = {}, .more = more};
    for (std::size_t i = 0; i < tenants.size(); ++i) {
      const auto* counted = reply_as<CountReply>(replies[i]);
      if (counted == nullptr) return then(fail(reply_error(replies[i])));
      TenantQueue& queue = found.queues.emplace_back();
      queue.tenant = tenants[i];
      queue.queued = counted->counts.queued;
      queue.queued_tokens = counted->queued_tokens;
      queue.leased = counted->counts.leased;
      if (const auto own = leased.find(tenants[i]); own != leased.end()) {
        queue.leased_tokens = own->second;
      }
      if (counted->oldest_us) {
        const std::int64_t age_us = out_.now().unix_us - *counted->oldest_us;
        queue.oldest_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(0, age_us) / 1'000);
      }
      queue.paused = counted->paused;
    }
    then(std::move(found));
  });
}

}  // namespace millrace::broker
