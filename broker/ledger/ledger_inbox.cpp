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
bool LedgerInbox::take_from(Post& post, const BatchLimits& limits, LedgerBatch& batch,
                            std::uint64_t& bytes) {
  const std::size_t before = post.next;
  while (post.next < post.operations.size() && batch.operations.size() < limits.operations) {
    Operation& op = post.operations[post.next];
    const std::uint64_t size = body_bytes(op);
    if (!batch.operations.empty() && bytes + size > limits.bytes) break;
    bytes += size;
    bytes_ -= size;
    --operations_;
    const std::string* engine = engine_of(op);
    if (engine != nullptr) add(batch.engines, *engine);
    auto& to = std::holds_alternative<ReadStream>(op) ? batch.reads : batch.operations;
    to.push_back({post.token, static_cast<std::uint32_t>(post.next), std::move(op), post.at});
    ++post.next;
  }
  const bool all = post.next == post.operations.size();
  if (!all && post.next != before) batch.rest = post.id;
  return all;
}

LedgerBatch LedgerInbox::take(const BatchLimits& limits) {
  LedgerBatch batch;
  std::uint64_t bytes = 0;
  std::set<std::string> held;  // by posts that must wait
  for (auto post = posts_.begin(); post != posts_.end();) {
    if (blocked(*post, held)) {
      held.insert(post->engines.begin(), post->engines.end());
      ++post;
      continue;
    }
    if (!take_from(*post, limits, batch, bytes)) break;
    post = posts_.erase(post);
  }
  engines_.insert(batch.engines.begin(), batch.engines.end());
  if (batch.rest) begun_.insert(*batch.rest);
  return batch;
}

void LedgerInbox::done(const LedgerBatch& batch) {
  for (const std::string& engine : batch.engines) engines_.erase(engine);
  if (batch.rest) begun_.erase(*batch.rest);
}

}  // namespace millrace::broker
