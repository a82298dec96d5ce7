#include "broker/ledger/memory_ledger.hpp"

#include "broker/ledger/memory_store.hpp"

namespace millrace::broker {
namespace {

class MemoryLedger final : public Ledger {
 public:
  explicit MemoryLedger(std::shared_ptr<MemoryStore> store) : store_(std::move(store)) {}

  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                           std::int64_t now_us) override {
    std::vector<Result<Reply>> replies;
    replies.reserve(operations.size());
    const std::lock_guard lock(store_->mutex);
    for (const Operation& op : operations) replies.push_back(store_->carry_out(op, now_us));
    return replies;
  }

  Status idle() override { return {}; }

 private:
  std::shared_ptr<MemoryStore> store_;
};

}  // namespace

std::shared_ptr<MemoryStore> make_memory_store(MemoryStoreOptions options) {
  return std::make_shared<MemoryStore>(std::move(options));
}

std::unique_ptr<Ledger> make_memory_ledger(std::shared_ptr<MemoryStore> store) {
  return std::make_unique<MemoryLedger>(std::move(store));
}

}  // namespace millrace::broker
