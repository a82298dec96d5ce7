#pragma once
// The tenants that share the simulated broker: their weights and limits, and the keys by which the
// broker knows their clients and the engines, which serve all of them.
// Thread safety: pure functions.
#include <string>
#include <vector>

#include "broker/core/config.hpp"

namespace millrace::broker::simulation {

inline constexpr const char* engine_key = "key of the engines";
inline std::string key_of(const std::string& tenant) {
  return "key of " + tenant;
}

// One may hold few leases, and of one few jobs may wait.
inline TenantTable tenant_table() {
  return {{"bounded", {.weight = 2, .queued = 8}},
          {"capped", {.weight = 1, .leases = 5}},
          {"large", {.weight = 3}}};
}

// The tenants of the clients, one each.
inline std::vector<std::string> clients_of_tenants() {
  return {"large", "large", "capped", "bounded"};
}

inline std::vector<Grant> grants() {
  std::vector<Grant> out;
  for (const auto& [tenant, limits] : tenant_table()) {
    out.push_back({tenant, tenant, {KeyRole::submit, KeyRole::read}, key_of(tenant)});
  }
  out.push_back({"engines", std::string(every_tenant), {KeyRole::work}, engine_key});
  return out;
}

}  // namespace millrace::broker::simulation
