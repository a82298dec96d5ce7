#include <algorithm>
#include <cassert>
#include <span>

#include "engine/core/scheduler/scheduler.hpp"

// The scheduler's reuse of pages: taking pages from the prefix tree, waiting for another sequence's
// pages, and leaving pages to the tree.
namespace millrace::engine {

void Scheduler::completed(const PlannedStep& step) {
  for (std::size_t i = 0; i < step.plan.rows.size(); ++i) {
    const PlanRow& row = step.plan.rows[i];
    const auto found = sequences_.find(row.sequence);
    if (found == sequences_.end() || found->second.slot == no_slot) continue;
    if (found->second.admission != step.admissions[i]) continue;  // it has other pages now
    tell_written(found->second, row.first_position + row.count);
  }
}

// Whether another sequence is still computing pages that this one begins with, or the store is
// fetching them.
bool Scheduler::waits(Sequence& sequence) const {
  if (!sequence.wait) return false;
  if (restores_.contains(sequence.wait->writer)) return true;
  const auto writer = sequences_.find(sequence.wait->writer);
  if (writer != sequences_.end() && writer->second.slot != no_slot &&
      writer->second.admission == sequence.wait->admission &&
      writer->second.written < sequence.wait->tokens) {
    return true;
  }
  sequence.wait.reset();
  return false;
}

// Takes the pages that the tree knows, or finds the sequence to wait for. The last token is always
// computed, for its logits. A prompt whose logprobs are requested is computed whole.
PrefixTree::Match Scheduler::reuse(Sequence& sequence) {
  if (sequence.scores_prompt()) return {};
  const auto tokens = std::span<const TokenId>(sequence.tokens).first(sequence.tokens.size() - 1);
  PrefixTree::Match known = tree_.find(sequence.space, tokens);
  if (pools_->has_states()) {
    if (ask_for_state(sequence, known)) return known;
  } else if (known.promised > 0) {
    const std::uint32_t pages = known.written + known.promised;
    const auto writer = sequences_.find(known.writer);  // not found: the writer is a restore
    const std::uint64_t admission = writer == sequences_.end() ? 0 : writer->second.admission;
    sequence.wait = {known.writer, admission, pages * pools_->page_tokens()};
    return known;
  }
  for (const PageId page : known.pages) sequence.pages[0].share(page);
  for (std::size_t group = 1; group < pools_->groups(); ++group) {
    const PrefixTree::Run& run = known.windowed[group - 1];
    sequence.pages[group].forget(run.first);
    for (const PageId page : run.pages) sequence.pages[group].share(page);
  }
  if (known.state != no_page) sequence.pages.states().resume(known.state);
  // The store cannot help a path of which the tree lacks only pages of windowed groups: its nodes
  // cannot be promised.
  const bool lacks_windows = known.written > known.pages.size();
  if (stored(sequence) && !sequence.restored && !lacks_windows) restore(sequence, tokens);
  return known;
}

// Asks the store for the pages that it knows beyond those of the tree. The sequence gives up its
// own pages and waits for all of them, as it would for another sequence's. This happens once for
// each sequence: pages that are evicted before it reads them are computed.
void Scheduler::restore(Sequence& sequence, std::span<const TokenId> tokens) {
  const std::uint32_t first = sequence.pages[0].size();
  const std::uint32_t end = options_.store->find(tokens, first);
  if (end <= first || !(running_.empty() || have_room_for(lacking(sequence)))) return;
  const auto path = tokens.first(std::size_t{end} * pools_->page_tokens());
  SequencePages held = share_for(sequence.pages, static_cast<std::uint32_t>(path.size()));
  for (std::size_t group = 0; group < pools_->groups(); ++group) {
    if (!cover(held, group, path.size())) return;
  }
  std::vector<PageId> fetched;
  for (std::uint32_t i = first; i < end; ++i) {
    for (std::size_t group = 0; group < pools_->groups(); ++group) {
      fetched.push_back(held[group].has(i) ? held[group].at(i) : no_page);
    }
  }
  sequence.restored = true;
  const SequenceId ticket = next_id_++;
  Restore& restore = restores_.try_emplace(ticket, std::move(held)).first->second;
  sequence.pages.clear();
  sequence.wait = {ticket, 0, 0};
  restore.promised = tree_.promise(sequence.space, path, restore.pages, ticket);
  options_.store->fetch(ticket, path, first, fetched);
}

// The pages of which a token at `position` or later sees anything.
SequencePages Scheduler::share_for(const SequencePages& pages, std::uint32_t position) {
  SequencePages out(*pools_);
  for (std::size_t group = 0; group < pools_->groups(); ++group) {
    const PageTable& table = pages[group];
    const std::uint32_t first = std::max(table.first(), pools_->first_page(group, position));
    out[group].forget(first);
    for (std::uint32_t i = first; i < table.end(); ++i) out[group].share(table.at(i));
  }
  return out;
}

void Scheduler::fetched(std::uint64_t ticket, std::uint32_t pages) {
  const auto found = restores_.find(ticket);
  assert(found != restores_.end());
  const std::span<PrefixTree::Node* const> promised = found->second.promised;
  for (PrefixTree::Node* node : promised.first(pages)) tree_.fulfil(*node, found->second.pages);
  tree_.withdraw(promised.subspan(pages));
  restores_.erase(found);
}

std::vector<PageId> Scheduler::held(std::span<const TokenId> tokens) {
  return tree_.whole(shared_, tokens);
}

void Scheduler::tell_written(Sequence& sequence, std::uint32_t written) {
  const bool lacked = sequence.written < sequence.prompt_tokens;
  sequence.written = written;
  const std::uint32_t whole = written / pools_->page_tokens();
  while (sequence.fulfilled < sequence.promised.size() &&
         sequence.promised_at + sequence.fulfilled < whole) {
    tree_.fulfil(*sequence.promised[sequence.fulfilled++], sequence.pages);
  }
  if (lacked && sequence.refills) {
    const auto tokens = std::span<const TokenId>(sequence.tokens);
    tree_.refill(sequence.space, tokens.first(std::min(written, sequence.prompt_tokens)),
                 sequence.pages);
  }
  sequence.pages.states().settle(written >= sequence.prompt_tokens);
  if (!lacked || written < sequence.prompt_tokens) return;
  for (const Checkpoint& checkpoint : sequence.checkpoints) {
    tree_.mark(sequence.space, sequence.tokens, checkpoint);
    if (checkpoint.keep == Keep::system && stored(sequence)) {
      const auto tokens = std::span<const TokenId>(sequence.tokens);
      options_.store->offer(tokens.first(checkpoint.position));
    }
  }
}

// Gives a sequence's pages back. The tree keeps the whole pages of accepted tokens.
void Scheduler::leave_pages(Sequence& sequence) {
  tree_.withdraw(std::span<PrefixTree::Node* const>(sequence.promised).subspan(sequence.fulfilled));
  const auto accepted = std::min<std::size_t>(sequence.written, sequence.tokens.size());
  const auto tokens = std::span<const TokenId>(sequence.tokens).first(accepted);
  tree_.publish(sequence.space, tokens, sequence.pages);
  tree_.mark(sequence.space, tokens, {static_cast<std::uint32_t>(accepted), Keep::assistant});
  sequence.pages.clear();
  sequence.kept_positions.clear();
  sequence.promised.clear();
  sequence.fulfilled = sequence.computed = sequence.written = 0;
}

}  // namespace millrace::engine
