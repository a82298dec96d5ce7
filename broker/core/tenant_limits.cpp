#include "broker/core/tenant_limits.hpp"

#include <charconv>
#include <cstdint>

#include "schemas/keys/grants.hpp"

namespace millrace::broker {
namespace {

constexpr const char* form = "write NAME:weight=3,leases=64,queued=1000, or some of the three";

Result<std::uint64_t> parse_number(std::string_view name, std::string_view text,
                                   std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && value >= least && value <= most) return value;
  return fail(Code::usage, std::string(name) + " of a tenant is \"" + std::string(text) + "\"",
              "give a number from " + std::to_string(least) + " to " + std::to_string(most));
}

Status read_limit(std::string_view name, std::string_view value, TenantLimits& limits) {
  if (name == "weight") {
    MILLRACE_ASSIGN(const auto weight, parse_number(name, value, 1, TenantLimits::most_weight));
    limits.weight = static_cast<std::uint32_t>(weight);
    return {};
  }
  if (name == "leases") {
    MILLRACE_ASSIGN(const auto leases, parse_number(name, value, 0, UINT32_MAX));
    limits.leases = static_cast<std::uint32_t>(leases);
    return {};
  }
  if (name == "queued") {
    MILLRACE_ASSIGN(limits.queued, parse_number(name, value, 0, limits::queued_jobs));
    return {};
  }
  return fail(Code::usage, "a tenant has no limit named \"" + std::string(name) + "\"", form);
}

}  // namespace

TenantLimits limits_of(const TenantTable& table, const std::string& tenant) {
  auto found = table.find(tenant);
  if (found == table.end()) found = table.find(std::string(every_tenant));
  return found == table.end() ? TenantLimits{} : found->second;
}

Result<std::pair<std::string, TenantLimits>> parse_tenant_limits(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos || colon + 1 == text.size()) {
    return fail(Code::usage, "\"" + std::string(text) + "\" gives a tenant no limit", form);
  }
  std::pair<std::string, TenantLimits> out(text.substr(0, colon), TenantLimits{});
  if (out.first != every_tenant) MILLRACE_TRY(check_tenant(out.first));
  std::string_view rest = text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string_view value = item.substr(std::min(equals + 1, item.size()));
    MILLRACE_TRY(read_limit(item.substr(0, equals), value, out.second));
  }
  return out;
}

}  // namespace millrace::broker
