#pragma once
// Chooses which tokens of which sequences the next step computes. It has no clock and no device;
// its plans depend only on the calls it gets, in their order: sequences, tokens, pages from disk,
// the token budget of a step. The bits of a token do not depend on the step that computes it.
//
//   plan() ──▶ StepPlan + PlannedOutputs ──▶ model, sampler ──▶ completed(step),
//                                                               deliver(sequence, id) per draw
//
// A step is every decoding row first, then prefill chunks up to the token budget. Sequences have
// one order, by priority and then by age. They are admitted in this order while pages are free for
// them and for the tokens that all are forecast to draw. Pages that the prefix tree knows are not
// computed again. A sequence that begins with pages which another sequence is computing waits for
// them, and those behind it go ahead. When pages run out, idle pages of the tree are evicted first.
// Then the last sequence in order is paused. A less urgent sequence is paused, too, when a more
// urgent one waits for a row. A paused sequence leaves its pages to the tree, keeps its tokens and
// its place in the order, and goes on from the pages that the tree still knows. Tokens and logprob
// bits do not depend on any of this (ARCHITECTURE.md, "Determinism").
//
// A sequence holds the pages of group 0 for its whole prompt from its admission on. Pages of
// windowed groups it takes as it goes, and gives up those behind the window (cache_pools.hpp);
// admission counts the most that it will hold at once. Room is needed in every group: the one that
// is full pauses sequences.
//
// A sequence of a model with states holds a page of the states' pool from its admission on. States
// stay at chosen borders of pages for others to go on from: at checkpoints, and where another
// sequence was found to part from this one. They take free pages of the pool, or those of states
// that were not used for longer; they pause nobody. A paused sequence goes on from the last one.
//
// Planning may run one step ahead of delivery: a drawn token that is still on the device is
// `pending`, and its row names the device slot instead of an id. Thread safety: one owner thread.
#include <map>
#include <optional>
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
  // No row of a sequence may be longer than the pools allow for.
  Scheduler(const SchedulerOptions& options, CachePools& pools);

  // Checks that a sequence can ever run: kv_exceeded, with the numbers, if the whole pools are too
  // small for it.
  static Status fits(const CachePools& pools, std::uint64_t prompt_tokens,
                     std::uint64_t max_tokens);

  // Adds a sequence that fits, with `siblings` more of the same prompt. Returns the first id;
  // siblings take the ids after it.
  SequenceId add(const SequenceSpec& spec, std::uint32_t siblings = 0);
  // Says that a step has come back, so other sequences may read the pages it wrote. Call it for the
  // oldest step first, before its deliveries, and never for a step that failed.
  void completed(const PlannedStep& step);
  // Delivers the id that the oldest undelivered step drew for the sequence. Ignores unknown ids.
  void deliver(SequenceId id, TokenId token);
  // Ends a sequence at any stage. Whole pages of completed and delivered tokens stay in the tree;
  // its other pages are freed. Ignores unknown ids.
  void finish(SequenceId id);
  // The store's answer: the first `pages` of the pages that it was asked for are written, and the
  // state after all of them, if `state`.
  void fetched(std::uint64_t ticket, std::uint32_t pages, bool state);
  // Returns what the tree has whole of a path's beginning. It is written, and no planned step
  // writes to it. Only with the prefix cache on.
  HeldPages held(std::span<const TokenId> tokens);
  // Whether the tree has the whole pages of this beginning; false with the prefix cache off.
  bool holds(std::span<const TokenId> tokens) const {
    return shared_ != nullptr && tree_.holds(shared_, tokens);
  }

  // Plans the next step. False: no row can be planned now.
  bool plan(PlannedStep& step);
  // Sets the token budget of a step, at most SchedulerOptions::step_tokens. A smaller one keeps
  // steps short. All decoding rows are in a step whatever its budget is, and prompts get
  // least_prefill_tokens beside them, so that they go on.
  void set_step_tokens(std::uint32_t tokens);

  std::uint32_t waiting() const;
  std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  std::uint64_t pauses() const { return pauses_; }
  std::uint32_t prefix_pages() const { return tree_.size(); }
  // Everything that a later plan depends on, as text: schedulers with equal dumps plan alike.
  std::string dump() const;

 private:
  // Pages of a path from page `first` on that the store is fetching, and the state after them. For
  // the tree it is a writer, as a sequence is, of the nodes that were not there; the others it
  // gives the pages of windowed groups, or the state, that they lack.
  struct Restore {
    Tokens path;
    std::uint32_t first = 0;
    SequencePages pages;
    std::vector<PrefixTree::Node*> promised;
    Restore(std::span<const TokenId> tokens, std::uint32_t from, SequencePages held)
        : path(tokens.begin(), tokens.end()), first(from), pages(std::move(held)) {}
  };
  using PageCounts = std::vector<std::uint64_t>;  // by group

  void make_way();
  void hold_pages();
  void plan_decodes(PlannedStep& step);
  void plan_prefills(PlannedStep& step);
  void plan_chunk(PlannedStep& step, SequenceId id, Sequence& sequence);
  void admit(PlannedStep& step);
  void add_lacking(PageCounts& pages, const Sequence& sequence) const;
  PageCounts lacking(const Sequence& sequence) const;
  bool have_room_for(PageCounts pages) const;
  std::uint64_t held_by_urgent(SequenceId id, const Sequence& sequence);
  bool could_make_room(std::uint64_t priority, std::uint64_t rows, PageCounts pages) const;
  bool waits(Sequence& sequence) const;
  PrefixTree::Match reuse(Sequence& sequence);
  void start(PlannedStep& step, SequenceId id, const PrefixTree::Match& known);
  bool cover(Sequence& sequence, std::uint32_t from);
  bool cover(SequencePages& pages, std::size_t group, std::uint64_t tokens);
  bool make_room_for(SequenceId id, std::uint32_t from);
  void pause(SequenceId id);
  bool stored(const Sequence& sequence) const {
    return options_.store != nullptr && sequence.space == shared_;
  }
  void restore(Sequence& sequence, std::span<const TokenId> tokens, const PrefixTree::Match& known);
  bool wait_for_restore(Sequence& sequence, std::span<const TokenId> path) const;
  std::optional<SequencePages> take_pages(const SequencePages& pages, std::uint32_t position,
                                          std::span<const PageId> lacking);
  SequencePages share_for(const SequencePages& pages, std::uint32_t position);
  void tell_written(Sequence& sequence, std::uint32_t written);
  void leave_pages(Sequence& sequence);
  void choose_kept(Sequence& sequence, const PrefixTree::Match& known) const;
  void keep_state(Sequence& sequence);
  bool ask_for_state(Sequence& sequence, const PrefixTree::Match& known);
  bool take_state(SequencePages& pages);
  std::uint32_t take_slot();
  std::uint32_t budget() const;

  SchedulerOptions options_;                   // step_tokens: the budget of the step under way
  std::uint32_t most_tokens_, wanted_tokens_;  // in a step
  CachePools* pools_;
  PrefixTree tree_;
  PrefixTree::Space shared_;  // the space of all requests; null with the prefix cache off
  std::map<SequenceId, Sequence> sequences_;
  std::map<SequenceId, Restore> restores_;
  std::set<SequenceId> running_, waiting_;  // in order of service
  std::set<std::uint32_t> used_slots_;
  LengthForecast lengths_;
  SequenceId next_id_ = 0;
  std::uint64_t admissions_ = 0;
  std::uint64_t pauses_ = 0;
  bool made_way_ = false;  // the step under way paused sequences for more urgent ones
};

}  // namespace millrace::engine
