#pragma once
// The beginnings of the prompts that an engine ran lately, by the number that the broker gave each
// (Lease::prefix). Of those that its prefix tree still holds, heartbeats tell the number.
// Thread safety: none; the executor's thread owns it.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/engine.hpp"

namespace millrace::worker {

class KnownBeginnings {
 public:
  // A prompt with this number is about to run.
  void used(std::uint64_t prefix, const engine::Engine& engine,
            const engine::PreparedRequest& request);
  // Those in the engine's tree, used last first, at most limits::prefixes_per_engine.
  std::vector<std::uint64_t> held(const engine::Engine& engine) const;

 private:
  // More than are told: some have left the tree, or are not in it yet.
  static constexpr std::size_t most = 2 * std::size_t{limits::prefixes_per_engine};
  struct Known {
    std::uint64_t prefix = 0;
    Tokens beginning;
  };
  std::vector<Known> known_;  // used last last
};

}  // namespace millrace::worker
