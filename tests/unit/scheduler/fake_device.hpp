#pragma once
// A model whose keys and values are the tokens themselves. It reads each row's history back from
// the row's pages, so every error of pages, positions, slots or order changes the tokens it draws.
// Of windowed cache groups it reads what the row's first token sees; all groups must agree. A state
// is all tokens before it, and the only history of a model without keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/core/scheduler/scheduler.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::engine {

struct Random {
  std::mt19937_64 engine;
  explicit Random(std::uint32_t seed) : engine(seed) {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(engine()); }
};

// The next token is a hash of everything before it.
inline TokenId next_token(const Tokens& history) {
  std::uint64_t h = 1469598103934665603ull;
  for (const TokenId t : history) h = (h ^ t) * 1099511628211ull;
  return static_cast<TokenId>(h >> 33) % 1000;
}

inline Tokens expected(Tokens history, std::uint32_t count) {
  Tokens out;
  for (std::uint32_t i = 0; i < count; ++i) {
    out.push_back(next_token(history));
    history.push_back(out.back());
  }
  return out;
}

class FakeDevice {
 public:
  FakeDevice(const CachePools& pools, std::uint32_t slots)
      : pools_(&pools), page_tokens_(pools.page_tokens()), slots_(slots, empty) {
    for (std::size_t group = 0; group < pools.groups(); ++group) {
      memory_.emplace_back(std::size_t{pools[group].total()} * page_tokens_, empty);
    }
    if (pools.has_states()) states_.resize(pools[pools.groups()].total());
  }

  std::span<TokenId> page(PageId page, std::size_t group = 0) {
    return std::span(memory_[group]).subspan(std::size_t{page} * page_tokens_, page_tokens_);
  }
  Tokens& state(PageId page) { return states_[page]; }
  bool has_keys = true;

  struct Drawn {
    PlannedOutput output;
    TokenId token = 0;
  };

  // Computes the step and returns the token of each output.
  std::vector<Drawn> run(const PlannedStep& step) {
    const StepPlan& plan = step.plan;
    EXPECT_EQ(plan.windowed.size(), plan.rows.size() * (memory_.size() - 1));
    std::set<std::pair<std::size_t, PageId>> written;
    for (const PageCopy& copy : plan.copies) {
      bool goes_on = false;
      for (std::size_t r = 0; r < plan.rows.size(); ++r) {
        goes_on = goes_on || page_at(plan, r, copy.group, plan.rows[r].first_position) == copy.to;
      }
      EXPECT_TRUE(goes_on) << "a page is copied for no row";
      std::ranges::copy(page(copy.from, copy.group), page(copy.to, copy.group).begin());
    }
    for (std::size_t r = 0; r < plan.rows.size(); ++r) write(plan, r, written);
    if (pools_->has_states()) move_states(plan);
    std::vector<Drawn> out;
    for (std::size_t r = 0; r < plan.rows.size(); ++r) outputs(step, r, written, out);
    for (const Drawn& d : out)
      if (d.output.kind == OutputKind::logits) slots_[d.output.slot] = d.token;
    return out;
  }

 private:
  static constexpr TokenId empty = 0xffffffffu;
  using Written = std::set<std::pair<std::size_t, PageId>>;

  // The row's page of a position; it must have one.
  PageId page_at(const StepPlan& plan, std::size_t r, std::size_t group,
                 std::uint32_t position) const {
    const PlanRow& row = plan.rows[r];
    const std::uint32_t index = position / page_tokens_;
    if (group == 0) {
      EXPECT_LT(index, row.page_count);
      return plan.pages[row.page_offset + index];
    }
    const WindowTable& table = plan.windowed[r * (memory_.size() - 1) + group - 1];
    EXPECT_TRUE(index >= table.first && index - table.first < table.count)
        << "page " << index << " of " << table.first << " + " << table.count;
    return plan.pages[table.offset + index - table.first];
  }

  void write(const StepPlan& plan, std::size_t r, Written& written) {
    const PlanRow& row = plan.rows[r];
    for (std::size_t group = 0; group < memory_.size(); ++group) {
      for (std::uint32_t i = 0; i < row.count; ++i) {
        const std::uint32_t position = row.first_position + i;
        const TokenId id = row.device_slot == no_slot ? plan.tokens[row.token_offset + i]
                                                      : slots_[row.device_slot];
        const PageId to = page_at(plan, r, group, position);
        if (i == 0 || position % page_tokens_ == 0) {
          EXPECT_TRUE(written.insert({group, to}).second) << "two rows write one page";
        }
        page(to, group)[position % page_tokens_] = id;
      }
    }
  }

  // Rows run in any order, so none may read or write what another one writes.
  void move_states(const StepPlan& plan) {
    std::map<PageId, Tokens> after;
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
      const PlanRow& row = plan.rows[r];
      ASSERT_LT(row.state_to, states_.size());
      Tokens state;
      if (row.state_from != no_page) state = states_.at(row.state_from);
      EXPECT_EQ(state.size(), row.first_position);
      for (std::uint32_t i = 0; i < row.count; ++i) {
        const std::uint32_t position = row.first_position + i;
        state.push_back(page(page_at(plan, r, 0, position))[position % page_tokens_]);
      }
      EXPECT_TRUE(after.emplace(row.state_to, std::move(state)).second) << "two rows, one state";
      for (std::size_t other = 0; other < plan.rows.size(); ++other) {
        if (other == r) continue;
        EXPECT_NE(plan.rows[other].state_from, row.state_to);
      }
    }
    for (auto& [place, state] : after) states_[place] = std::move(state);
    for (std::size_t r = 0; r < plan.rows.size() && has_keys; ++r) {
      const PlanRow& row = plan.rows[r];
      Tokens seen_whole;
      for (std::uint32_t at = 0; at < row.first_position + row.count; ++at) {
        seen_whole.push_back(page(page_at(plan, r, 0, at))[at % page_tokens_]);
      }
      EXPECT_EQ(states_[row.state_to], seen_whole);
    }
  }

  // What the row's tokens see in a group.
  Tokens seen(const StepPlan& plan, std::size_t r, std::size_t group, const Written& written) {
    const PlanRow& row = plan.rows[r];
    const std::uint32_t window = pools_->window(group);
    Tokens out;
    std::uint32_t position =
        window == 0 || row.first_position < window ? 0 : row.first_position - window + 1;
    for (; position < row.first_position + row.count; ++position) {
      const PageId from = page_at(plan, r, group, position);
      if (position < row.first_position / page_tokens_ * page_tokens_) {
        EXPECT_FALSE(written.contains({group, from}))
            << "a page is read in the step that writes it";
      }
      out.push_back(page(from, group)[position % page_tokens_]);
    }
    return out;
  }

  void outputs(const PlannedStep& step, std::size_t r, const Written& written,
               std::vector<Drawn>& out) {
    const StepPlan& plan = step.plan;
    const PlanRow& row = plan.rows[r];
    const Tokens history = has_keys ? seen(plan, r, 0, written) : states_.at(row.state_to);
    for (std::size_t group = 1; group < memory_.size(); ++group) {
      const Tokens end = seen(plan, r, group, written);
      EXPECT_TRUE(std::equal(end.rbegin(), end.rend(), history.rbegin()))
          << "group " << group << " holds other tokens";
    }
    for (std::uint32_t i = 0; i < row.output_count; ++i) {
      const std::uint32_t at = row.output_offset + i;
      const PlannedOutput& output = step.outputs[at];
      EXPECT_EQ(output.sequence, row.sequence);
      EXPECT_EQ(output.position, row.first_position + plan.outputs[at].offset + 1);
      const Tokens before(history.begin(), history.begin() + output.position);
      out.push_back({output, next_token(before)});
    }
  }

  const CachePools* pools_;
  std::uint32_t page_tokens_;
  std::vector<std::vector<TokenId>> memory_;  // by group
  std::vector<TokenId> slots_;
  std::vector<Tokens> states_;  // by page of the states' pool
};

// Scheduler and device in a loop. Steps are delivered `depth` steps late: 0, or 1 as in the engine.
struct Loop {
  SchedulerOptions options;
  CachePools pools;
  PagePool& pool = pools[0];
  Scheduler scheduler{options, pools};
  FakeDevice device;
  std::uint32_t depth;
  struct Flight {
    PlannedStep step;
    std::vector<FakeDevice::Drawn> drawn;
    std::uint64_t transfers = 0;
  };
  std::deque<Flight> in_flight;
  // Transfers of pages beside the steps, as in EngineLoop. Transfers that were enqueued before a
  // step are complete when it has come back. `wait` waits if no step runs, and returns whether it
  // did.
  std::function<std::uint64_t()> enqueue = [] { return 0; };
  std::function<void(std::uint64_t)> complete = [](std::uint64_t) {};
  std::function<bool()> wait = [] { return false; };
  std::uint64_t tokens = 0, copies = 0;  // computed, and pages copied
  std::map<SequenceId, Tokens> drawn;
  std::map<SequenceId, std::vector<std::uint32_t>> scored;
  std::map<SequenceId, std::uint32_t> wanted;    // max_tokens of live sequences
  std::map<SequenceId, std::uint32_t> stops_at;  // ends early, as a stop token would
  std::vector<std::size_t> rows;                 // of each step
  std::vector<SequenceId> last_step;             // the last step's, in its order

  Loop(const SchedulerOptions& o, std::uint32_t pages, std::uint32_t page_tokens, std::uint32_t d,
       const std::vector<PoolSize>& windowed = {})
      : options(o),
        pools(page_tokens, groups(pages, windowed), std::min(o.prefill_chunk, o.step_tokens)),
        device(pools, o.max_batch),
        depth(d) {}
  static std::vector<PoolSize> groups(std::uint32_t pages, std::vector<PoolSize> windowed = {}) {
    windowed.insert(windowed.begin(), {pages, 0});
    return windowed;
  }

  SequenceId add(const Tokens& prompt, std::uint32_t max_tokens, bool prompt_logprobs = false,
                 std::uint32_t siblings = 0, std::uint32_t priority = limits::priority_default) {
    const SequenceId id = scheduler.add({prompt, max_tokens, prompt_logprobs, priority}, siblings);
    for (SequenceId i = id; i <= id + siblings; ++i) wanted[i] = max_tokens;
    return id;
  }
  void finish(SequenceId id) {
    scheduler.finish(id);
    wanted.erase(id);
  }
  void deliver() {
    scheduler.completed(in_flight.front().step);
    complete(in_flight.front().transfers);
    for (const auto& d : in_flight.front().drawn) {
      const SequenceId id = d.output.sequence;
      if (!wanted.contains(id)) continue;  // it ended while this step was running
      if (d.output.kind == OutputKind::prompt_logprob) {
        scored[id].push_back(d.output.position);
        continue;
      }
      scheduler.deliver(id, d.token);
      drawn[id].push_back(d.token);
      const bool stops = stops_at.contains(id) && drawn[id].size() >= stops_at[id];
      if (stops || drawn[id].size() == wanted[id]) finish(id);
    }
    for (const SequenceId id : in_flight.front().step.computed) finish(id);
    in_flight.pop_front();
  }
  bool step() {
    PlannedStep step;
    const std::uint64_t transfers = enqueue();
    const bool planned = scheduler.plan(step);
    if (planned) {
      EXPECT_LE(step.plan.tokens.size(), options.step_tokens);
      EXPECT_LE(step.outputs.size(), options.step_outputs);
      EXPECT_LE(step.plan.rows.size(), options.max_batch);
      rows.push_back(step.plan.rows.size());
      tokens += step.plan.tokens.size();
      copies += step.plan.copies.size();
      last_step.clear();
      for (const PlanRow& row : step.plan.rows) last_step.push_back(row.sequence);
      in_flight.push_back({step, device.run(step), transfers});
    }
    if (!planned && in_flight.empty() && wait()) return true;
    while (!in_flight.empty() && (in_flight.size() > depth || !planned)) deliver();
    return planned || !wanted.empty();
  }
  void run(int limit = 100000) {
    while (step()) ASSERT_GT(limit--, 0) << "no end in sight";
  }
};

inline Tokens prompt_of(std::uint32_t seed, std::uint32_t length) {
  Tokens out;
  for (std::uint32_t i = 0; i < length; ++i) out.push_back((seed * 7919 + i * 31) % 997);
  return out;
}

}  // namespace millrace::engine
