#include "client/run/engine_text.hpp"

#include <array>
#include <cstdio>

namespace millrace::client {

std::string kv_policy_of(const EngineInfo& engine) {
  return engine.kv_policies.empty() ? "" : engine.kv_policies.front();
}

std::string kv_text(const EngineInfo& engine) {
  const std::string policy = kv_policy_of(engine);
  std::string out = "kv " + (policy.empty() ? "unknown" : policy);
  if (engine.kv_compression > 0) {
    std::array<char, 32> factor{};
    std::snprintf(factor.data(), factor.size(), " (%.1fx)", engine.kv_compression);
    out += factor.data();
  }
  return out;
}

std::string ready_text(const EngineInfo& engine) {
  return "the engine is ready: model " + engine.model +
         (engine.label.empty() ? "" : " (" + engine.label + ")") + ", " + kv_text(engine) +
         (engine.layer_path.empty() ? "" : ", " + engine.layer_path);
}

}  // namespace millrace::client
