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
  if (pools_->has_states() && ask_for_state(sequence, known)) return known;
  // Pages without the state after them are of no use, but a fetch brings that, too.
  const bool useful = !pools_->has_states() || restores_.contains(known.writer);
  if (known.promised > 0 && useful) {
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
  if (stored(sequence) && !sequence.restored) restore(sequence, tokens, known);
  return known;
}

// Asks the store for what it knows beyond the tree. The sequence gives up its own pages and waits
// for all of it, as it would for another sequence's. This happens once for each sequence: pages
// that are evicted before it reads them are computed.
void Scheduler::restore(Sequence& sequence, std::span<const TokenId> tokens,
                        const PrefixTree::Match& known) {
  const auto page = pools_->page_tokens();
  // Another sequence computes the pages after these, so the tree takes none from here.
  if (known.promised > 0) tokens = tokens.first(std::size_t{known.written} * page);
  const auto from = static_cast<std::uint32_t>(known.pages.size());
  const std::uint32_t end = options_.store->find(tokens, from);
  if (end <= from) return;
  const auto path = tokens.first(std::size_t{end} * page);
  if (wait_for_restore(sequence, path)) return;
  PageCounts room = lacking(sequence);
  if (pools_->has_states()) room.back() += 1;  // one to read and one to write
  if (!running_.empty() && !have_room_for(room)) return;
  const std::uint32_t there = std::min(end, known.written);  // pages that group 0 has
  auto held = take_pages(sequence.pages, end * page, std::span(known.lacking).first(there - from));
  if (!held) return;
  std::uint32_t first = there;
  for (std::size_t group = 1; group < pools_->groups(); ++group) {
    first = std::min(first, std::max(from, (*held)[group].first()));
  }
  std::vector<PageId> fetched;
  for (std::uint32_t i = first; i < end; ++i) {
    fetched.push_back(i < there ? no_page : (*held)[0].at(i));
    for (std::size_t group = 1; group < pools_->groups(); ++group) {
      fetched.push_back((*held)[group].has(i) ? (*held)[group].at(i) : no_page);
    }
  }
  sequence.restored = true;
  const SequenceId ticket = next_id_++;
  Restore& restore = restores_.try_emplace(ticket, path, first, *std::move(held)).first->second;
  sequence.pages.clear();
  sequence.wait = {ticket, 0, 0};
  restore.promised = tree_.promise(sequence.space, path, restore.pages, ticket);
  options_.store->fetch(ticket, path, first, fetched,
                        restore.pages.states().kept(end - 1).value_or(no_page));
}

// Waits for a fetch of the same path, which need not have promised any pages.
bool Scheduler::wait_for_restore(Sequence& sequence, std::span<const TokenId> path) const {
  for (const auto& [ticket, restore] : restores_) {
    if (!std::ranges::equal(path, restore.path)) continue;
    sequence.pages.clear();
    sequence.wait = {ticket, 0, 0};
    return true;
  }
  return false;
}

// Takes what a fetch of a path up to `position` needs: `pages` and then `lacking` are in the tree,
// the other pages and the state are new. Nothing if there is no room.
std::optional<SequencePages> Scheduler::take_pages(const SequencePages& pages,
                                                   std::uint32_t position,
                                                   std::span<const PageId> lacking) {
  std::optional<SequencePages> held = share_for(pages, position);
  for (const PageId page : lacking) (*held)[0].share(page);
  for (std::size_t group = 0; group < pools_->groups(); ++group) {
    if (!cover(*held, group, position)) return std::nullopt;
  }
  if (!pools_->has_states()) return held;
  // The sequence that goes on from the state needs another one to write.
  PagePool& states = *pools_->states();
  if (states.total() < 2) return std::nullopt;
  if (states.available() == 0) tree_.evict(pools_->groups(), 1);
  if (!held->states().receive(position / pools_->page_tokens() - 1)) return std::nullopt;
  return held;
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

void Scheduler::fetched(std::uint64_t ticket, std::uint32_t pages, bool state) {
  const auto found = restores_.find(ticket);
  assert(found != restores_.end());
  Restore& restore = found->second;
  if (!state) restore.pages.states().clear();
  const std::span<PrefixTree::Node* const> promised = restore.promised;
  const std::size_t page = pools_->page_tokens();
  const std::size_t known = restore.first + pages;  // pages of the path
  const std::size_t there = restore.path.size() / page - promised.size();
  const std::size_t written = known - std::min(known, there);
  for (PrefixTree::Node* node : promised.first(written)) tree_.fulfil(*node, restore.pages);
  tree_.withdraw(promised.subspan(written));
  if (pools_->pools() > 1) {
    tree_.refill(shared_, std::span<const TokenId>(restore.path).first(known * page),
                 restore.pages);
  }
  restores_.erase(found);
}

HeldPages Scheduler::held(std::span<const TokenId> tokens) {
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
