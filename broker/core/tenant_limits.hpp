#pragma once
// What a tenant may use of a broker that several share. Thread safety: plain values and pure
// functions.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "schemas/base/error.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::broker {

struct TenantLimits {
  static constexpr std::uint32_t most_weight = 1'000;

  // Its part of engines that serve several tenants, in proportion to the weights of the others
  // whose jobs wait. From 1 to most_weight.
  std::uint32_t weight = 1;
  std::uint32_t leases = 0;  // at most so many of its jobs are leased at once; 0: no limit
  std::uint64_t queued = limits::queued_jobs;  // at most so many of its jobs wait
  friend bool operator==(const TenantLimits&, const TenantLimits&) = default;
};

// By tenant. The limits of "*" are those of every tenant that is not named.
using TenantTable = std::map<std::string, TenantLimits>;

TenantLimits limits_of(const TenantTable& table, const std::string& tenant);

// Reads NAME:weight=3,leases=64,queued=1000; what is not given has its default. Errors: usage, with
// what is wrong and what would be right.
Result<std::pair<std::string, TenantLimits>> parse_tenant_limits(std::string_view text);

}  // namespace millrace::broker
