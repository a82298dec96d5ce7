#include "client/run/engine_text.hpp"

#include <array>
#include <cstdio>

namespace millrace::client {

std::string kv_text(const EngineProfile& engine) {
  const EngineFacts& facts = engine.facts;
  std::string out = "kv " + (facts.kv_policy.empty() ? "unknown" : facts.kv_policy);
  if (facts.kv_compression > 0) {
    std::array<char, 32> factor{};
    std::snprintf(factor.data(), factor.size(), " (%.1fx)", facts.kv_compression);
    out += factor.data();
  }
  return out;
}

std::string ready_text(const EngineProfile& engine) {
  return "the engine is ready: model " + engine.facts.model +
         (engine.label.empty() ? "" : " (" + engine.label + ")") + ", " + kv_text(engine) +
         (engine.layer_path.empty() ? "" : ", " + engine.layer_path);
}

}  // namespace millrace::client
