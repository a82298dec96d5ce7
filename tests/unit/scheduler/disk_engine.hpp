#pragma once
// An engine over a disk: the scheduler and the fake device, whose pages and states the disk tier
// saves and fetches.
#include <memory>

#include "engine/core/prefix/disk_pages.hpp"
#include "engine/core/prefix/disk_tier.hpp"
#include "schemas/base/fault_env.hpp"
#include "tests/unit/scheduler/fake_transport.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t disk_page_tokens = 4, disk_window = 10;

inline constexpr std::uint64_t disk_state_bytes =
    512 * sizeof(TokenId);  // its tokens and their number

// Steps delivered late, and whether there are a windowed cache group, states, and keys and values.
struct DiskKind {
  std::uint32_t depth = 0;
  bool windowed = false, states = false, keys = true;
  PageKind pages() const {
    const std::uint32_t groups = (keys ? 1 : 0) + (windowed ? 1 : 0);
    return {"f00d", disk_page_tokens, disk_page_tokens * sizeof(TokenId) * groups,
            states ? disk_state_bytes : 0};
  }
  std::vector<PoolSize> pools(std::uint32_t windowed_pages, std::uint32_t state_count) const {
    std::vector<PoolSize> out;
    if (windowed) out.push_back({windowed_pages, disk_window});
    if (states) out.push_back({state_count, 0, true});
    return out;
  }
};

// The disk outlives it.
struct DiskEngine {
  FakeTransport transport;
  DiskPages pages;
  Loop loop;

  DiskEngine(const std::shared_ptr<Env>& env, const SchedulerOptions& options,
             std::uint32_t pool_pages, const DiskKind& kind, std::uint32_t windowed_pages = 128,
             std::uint32_t states = 24)
      : pages(DiskTier::open(env, {"/tier", 1u << 20, kind.pages()}).value(), kind.pages(),
              transport, kind.windowed ? 2 : 1),
        loop(with_store(options), pool_pages, disk_page_tokens, kind.depth,
             kind.pools(windowed_pages, states)) {
    loop.device.has_keys = kind.keys;
    transport.device = &loop.device;
    transport.groups = loop.pools.groups();
    loop.enqueue = [this] {
      pages.enqueue(held());
      return pages.enqueued();
    };
    loop.complete = [this](std::uint64_t transfers) { tell(pages.complete(transfers)); };
    loop.wait = [this] {
      if (!pages.fetching()) return false;
      tell(pages.wait(held()));
      return true;
    };
  }
  ~DiskEngine() { pages.flush(held()); }

  // Saves what was offered, and waits until it is in its files.
  void save_all() {
    pages.flush(held());
    while (pages.unwritten_bytes() > 0) tell(pages.wait(held()));
    pages.enqueue(held());
  }

  SchedulerOptions with_store(SchedulerOptions options) {
    options.prefix_cache = true;
    options.fingerprint = "f00d";
    options.store = &pages;
    return options;
  }
  DiskPages::Held held() {
    return [this](std::span<const TokenId> tokens) { return loop.scheduler.held(tokens); };
  }
  void tell(const std::vector<DiskPages::Fetched>& fetched) {
    for (const auto& [ticket, count, state] : fetched) loop.scheduler.fetched(ticket, count, state);
  }
};

}  // namespace millrace::engine
