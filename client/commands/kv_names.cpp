#include "client/commands/kv_names.hpp"

#include <algorithm>

#include "engine/core/kv/choose.hpp"

namespace millrace::client {
namespace {

bool is_count(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    std::string part = list.substr(at, end - at);
    const bool ends = !out.empty() && out.back().find('~') != std::string::npos &&
                      out.back().find(',') == std::string::npos && is_count(part);
    if (ends) {
      out.back() += "," + part;
    } else {
      out.push_back(std::move(part));
    }
    at = end + 1;
  }
  return out;
}

std::unexpected<Error> usage(const Error& error, const std::string& option) {
  return fail(Code::usage, option + ": " + error.message, error.hint);
}

}  // namespace

Result<std::vector<NamedPolicy>> parse_policies(const std::string& list,
                                                const std::string& protect) {
  auto protection = engine::parse_kv_protection(protect);
  if (!protection) return usage(protection.error(), "--kv-protect");
  std::vector<NamedPolicy> out;
  for (const std::string& name : split(list)) {
    if (name.substr(0, name.find_first_of("~+")) == engine::kv_auto) {
      return fail(
          Code::usage,
          "--kv " + name + ": auto is not a policy but a choice by an engine's memory and load",
          "name the policies that it chooses from: f16,q8,k8v4,k6v4. An engine's log says "
          "which one it chose");
    }
    auto policy = engine::parse_kv_policy(name);
    if (!policy) return usage(policy.error(), "--kv");
    if (policy->protection == engine::KvProtection{}) policy->protection = *protection;
    out.push_back({name, *std::move(policy)});
  }
  return out;
}

}  // namespace millrace::client
