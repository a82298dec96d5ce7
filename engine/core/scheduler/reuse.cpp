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
  if (known.promised > 0) {
    const auto pages = static_cast<std::uint32_t>(known.pages.size()) + known.promised;
    const auto writer = sequences_.find(known.writer);  // not found: the writer is a restore
    const std::uint64_t admission = writer == sequences_.end() ? 0 : writer->second.admission;
    sequence.wait = {known.writer, admission, pages * pool_->page_tokens()};
    return known;
  }
  for (const PageId page : known.pages) sequence.pages.share(page);
  if (stored(sequence) && !sequence.restored) restore(sequence, tokens);
  return known;
}

// Asks the store for the pages that it knows beyond those of the tree. The sequence gives up its
// own pages and waits for all of them, as it would for another sequence's. This happens once for
// each sequence: pages that are evicted before it reads them are computed.
void Scheduler::restore(Sequence& sequence, std::span<const TokenId> tokens) {
  const std::uint32_t first = sequence.pages.size();
  const std::uint32_t pages = options_.store->find(tokens, first);
  if (pages <= first || !(running_.empty() || have_room_for(lacking(sequence)))) return;
  const auto path = tokens.first(std::size_t{pages} * pool_->page_tokens());
  if (!cover(sequence, path.size())) return;
  sequence.restored = true;
  const SequenceId ticket = next_id_++;
  Restore& restore = restores_.try_emplace(ticket, std::move(sequence.pages)).first->second;
  sequence.pages = PageTable(*pool_);
  sequence.wait = {ticket, 0, 0};
  restore.promised = tree_.promise(sequence.space, path, restore.pages, ticket);
  options_.store->fetch(ticket, path, first, restore.pages.pages().subspan(first));
}

void Scheduler::fetched(std::uint64_t ticket, std::uint32_t pages) {
  const auto found = restores_.find(ticket);
  assert(found != restores_.end());
  const std::span<PrefixTree::Node* const> promised = found->second.promised;
  for (PrefixTree::Node* node : promised.first(pages)) tree_.fulfil(*node);
  tree_.withdraw(promised.subspan(pages));
  restores_.erase(found);
}

std::vector<PageId> Scheduler::held(std::span<const TokenId> tokens) {
  return tree_.find(shared_, tokens).pages;
}

void Scheduler::tell_written(Sequence& sequence, std::uint32_t written) {
  const bool lacked = sequence.written < sequence.prompt_tokens;
  sequence.written = written;
  const std::uint32_t whole = written / pool_->page_tokens();
  while (sequence.fulfilled < sequence.promised.size() &&
         sequence.promised_at + sequence.fulfilled < whole) {
    tree_.fulfil(*sequence.promised[sequence.fulfilled++]);
  }
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
  sequence.promised.clear();
  sequence.fulfilled = sequence.computed = sequence.written = 0;
}

}  // namespace millrace::engine
