#include "broker/ledger/ledger_inbox.hpp"

#include <algorithm>
#include <utility>

namespace millrace::broker {
namespace {

// The engine whose operations keep their order; null: none.
const std::string* engine_of(const Operation& operation) {
  return std::visit(
      [](const auto& op) -> const std::string* {
        if constexpr (requires { op.engine; }) return op.engine.empty() ? nullptr : &op.engine;
        return nullptr;
      },
      operation);
}

void add(std::vector<std::string>& engines, const std::string& engine) {
  if (std::ranges::find(engines, engine) == engines.end()) engines.push_back(engine);
}

}  // namespace

std::uint64_t body_bytes(const Operation& operation) {
  return std::visit(
      [](const auto& op) -> std::uint64_t {
        if constexpr (requires { op.body; }) return op.body.size();
        return 0;
      },
      operation);
}

void LedgerInbox::push(std::uint64_t token, std::vector<Operation> operations, Time at) {
  if (operations.empty()) return;
  Post post{next_id_++, token, std::move(operations), 0, {}, at};
  for (const Operation& op : post.operations) {
    bytes_ += body_bytes(op);
    if (const std::string* engine = engine_of(op)) add(post.engines, *engine);
  }
  operations_ += post.operations.size();
  if (!post.engines.empty()) ++of_engines_;
  posts_.push_back(std::move(post));
}

bool LedgerInbox::blocked(const Post& post, const std::set<std::string>& held) const {
  return begun_.contains(post.id) ||
         std::ranges::any_of(post.engines, [&](const std::string& engine) {
           return engines_.contains(engine) || held.contains(engine);
         });
}

bool LedgerInbox::ready() const {
  if (begun_.empty() && engines_.empty()) return !posts_.empty();
  std::set<std::string> held;
  for (const Post& post : posts_) {
    if (!blocked(post, held)) return true;
    held.insert(post.engines.begin(), post.engines.end());
  }
  return false;
}

// Moves operations of a post to the batch. True: all of them.
bool LedgerInbox::take_from(Post& post, const BatchLimits& limits, LedgerBatch& batch) {
  const std::size_t before = post.next;
  while (post.next < post.operations.size() && batch.operations.size() < limits.operations) {
    Operation& op = post.operations[post.next];
    const std::uint64_t size = body_bytes(op);
    if (!batch.operations.empty() && batch.bytes + size > limits.bytes) break;
    batch.bytes += size;
    bytes_ -= size;
    --operations_;
    const std::string* engine = engine_of(op);
    if (engine != nullptr) add(batch.engines, *engine);
    auto& to = std::holds_alternative<ReadStream>(op) ? batch.reads : batch.operations;
    to.push_back({post.token, static_cast<std::uint32_t>(post.next), std::move(op), post.at});
    ++post.next;
  }
  const bool all = post.next == post.operations.size();
  if (!all && post.next != before) batch.begun.push_back(post.id);
  return all;
}

void LedgerInbox::take_posts(bool of_engines, const BatchLimits& limits, LedgerBatch& batch) {
  std::set<std::string> held;  // by posts that must wait
  for (auto post = posts_.begin(); post != posts_.end();) {
    if (of_engines && post->engines.empty()) {
      ++post;
      continue;
    }
    if (blocked(*post, held)) {
      held.insert(post->engines.begin(), post->engines.end());
      ++post;
      continue;
    }
    if (!take_from(*post, limits, batch)) return;
    if (!post->engines.empty()) --of_engines_;
    post = posts_.erase(post);
  }
}

LedgerBatch LedgerInbox::take(const BatchLimits& limits) {
  LedgerBatch batch;
  if (of_engines_ > 0) take_posts(true, {(limits.operations + 1) / 2, limits.bytes / 2}, batch);
  take_posts(false, limits, batch);
  engines_.insert(batch.engines.begin(), batch.engines.end());
  begun_.insert(batch.begun.begin(), batch.begun.end());
  return batch;
}

void LedgerInbox::done(const LedgerBatch& batch) {
  for (const std::string& engine : batch.engines) engines_.erase(engine);
  for (const std::uint64_t post : batch.begun) begun_.erase(post);
}

}  // namespace millrace::broker
