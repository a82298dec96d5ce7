#pragma once
// Which tokens of which sequences the next step computes. Host only, without clock or device: a
// pure function of what it is told, in that order: sequences, tokens, what has come from disk, how
// many tokens a step may have. Which step computes a token decides no bit of it.
//
//   plan() ──▶ StepPlan + PlannedOutputs ──▶ model, sampler ──▶ landed(step),
//                                                               deliver(sequence, id) per draw
//
// A step is every decoding row first, then prefill chunks up to the token budget. Sequences stand
// in one order, by priority and then by age; new ones are admitted in it while pages are free for
// them and for what all are likely to draw, by the lengths of those that have ended. What the
// prefix tree knows of a sequence is not computed again; what another sequence is just computing is
// waited for, and those behind go ahead. Under page pressure pages that nobody uses go first; then
// the last in that order is paused, and so is a less urgent one where a more urgent one waits for a
// row: it leaves its pages to the tree, keeps its tokens, waits in its old place, and goes on from
// what is still known. Tokens and logprob bits do not depend on any of this (ARCHITECTURE.md,
// "Determinism").
//
// Planning may run one step ahead of delivery: a drawn token that is still on the device is
// `pending`, its row names the device slot instead of an id. Thread safety: one owner thread.
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/scheduler/length_forecast.hpp"
#include "engine/core/scheduler/sequence.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, PagePool& pool);

  // Whether a sequence can ever run: `kv_exceeded`, with the numbers, when the whole pool is too
  // small for it.
  static Status fits(const PagePool& pool, std::uint64_t prompt_tokens, std::uint64_t max_tokens);

  // Adds a sequence that fits, with `siblings` more of the same prompt. Returns the first id;
  // siblings take the ids after it.
  SequenceId add(const SequenceSpec& spec, std::uint32_t siblings = 0);
  // A step has come back, oldest first: what it wrote may be read by others. Before its deliveries.
  // A step that failed is never landed.
  void landed(const PlannedStep& step);
  // The id drawn for the sequence by the oldest step not yet delivered. Unknown ones are ignored.
  void deliver(SequenceId id, TokenId token);
  // Ends a sequence at any stage. The whole pages of what was landed and delivered stay known; what
  // else it wrote is nobody's. Unknown ones are ignored.
  void finish(SequenceId id);
  // The store's answer: so many of the pages that it was asked for, from the first on, are there.
  void fetched(std::uint64_t ticket, std::uint32_t pages);
  // The pages that hold a path's beginning, as far as the tree knows it: written, and not written
  // again by anything planned before. With the prefix cache on.
  std::vector<PageId> held(std::span<const TokenId> tokens);

  // Plans the next step; false when no row can be planned now.
  bool plan(PlannedStep& step);
  // A smaller token budget keeps steps short; never below max_batch.
  void set_step_tokens(std::uint32_t tokens);

  std::uint32_t waiting() const;
  std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  std::uint64_t pauses() const { return pauses_; }
  std::uint32_t prefix_pages() const { return tree_.size(); }
  // Everything that a later plan depends on, as text: two of them that are equal go on alike.
  std::string dump() const;

 private:
  // Pages that the store is bringing; a writer like a sequence.
  struct Restore {
    PageTable pages;
    std::vector<PrefixTree::Node*> promised;
    explicit Restore(PageTable table) : pages(std::move(table)) {}
  };

  void make_way();
  void plan_decodes(PlannedStep& step);
  void plan_prefills(PlannedStep& step);
  void plan_chunk(PlannedStep& step, SequenceId id, Sequence& sequence);
  void admit(PlannedStep& step);
  std::uint64_t lacking(const Sequence& sequence) const;
  bool have_room_for(std::uint64_t pages) const;
  std::uint64_t held_by_urgent(SequenceId id, const Sequence& sequence);
  bool could_make_room(std::uint64_t priority, std::uint64_t rows, std::uint64_t pages) const;
  bool waits(Sequence& sequence) const;
  PrefixTree::Match reuse(Sequence& sequence);
  void start(PlannedStep& step, SequenceId id, const PrefixTree::Match& known);
  bool cover(Sequence& sequence, std::uint64_t tokens);
  bool make_room_for(SequenceId id, std::uint64_t tokens);
  void pause(SequenceId id);
  bool stored(const Sequence& sequence) const {
    return options_.store != nullptr && sequence.space == shared_;
  }
  void restore(Sequence& sequence, std::span<const TokenId> tokens);
  void tell_written(Sequence& sequence, std::uint32_t written);
  void leave_pages(Sequence& sequence);
  std::uint32_t take_slot();

  SchedulerOptions options_;
  PagePool* pool_;
  PrefixTree tree_;
  PrefixTree::Space shared_;  // of all requests; none with the prefix cache off
  std::map<SequenceId, Sequence> sequences_;
  std::map<SequenceId, Restore> restores_;
  std::set<SequenceId> running_, waiting_;  // first served first
  std::set<std::uint32_t> used_slots_;
  LengthForecast lengths_;
  SequenceId next_id_ = 0;
  std::uint64_t admissions_ = 0;
  std::uint64_t pauses_ = 0;
};

}  // namespace millrace::engine
