#include "broker/ledger/memory_ledger.hpp"

#include <mutex>
#include <utility>

#include "broker/ledger/memory_records.hpp"
#include "broker/ledger/stored_ledger.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {

class MemoryStore {
 public:
  explicit MemoryStore(MemoryStoreOptions with)
      : options(std::move(with)), records(options.epoch.empty() ? random_id() : options.epoch) {}

  const MemoryStoreOptions options;
  std::mutex mutex;  // held through a transaction
  MemoryRecords records;
};

namespace {

class MemoryHandle final : public LedgerStore {
 public:
  explicit MemoryHandle(std::shared_ptr<MemoryStore> store) : store_(std::move(store)) {}

  Records& records() override { return store_->records; }
  Status begin(bool) override {
    turn_ = std::unique_lock(store_->mutex);
    return {};
  }
  Status commit() override {
    store_->records.keep();
    turn_.unlock();
    return {};
  }
  Status roll_back() override {
    store_->records.undo();
    turn_.unlock();
    return {};
  }

 private:
  std::shared_ptr<MemoryStore> store_;
  std::unique_lock<std::mutex> turn_;
};

}  // namespace

std::shared_ptr<MemoryStore> make_memory_store(MemoryStoreOptions options) {
  return std::make_shared<MemoryStore>(std::move(options));
}

std::unique_ptr<LedgerStore> make_memory_handle(std::shared_ptr<MemoryStore> store) {
  return std::make_unique<MemoryHandle>(std::move(store));
}

std::unique_ptr<Ledger> make_memory_ledger(std::shared_ptr<MemoryStore> store) {
  RulesOptions options{store->options.publish};
  return make_stored_ledger(make_memory_handle(std::move(store)), std::move(options));
}

}  // namespace millrace::broker
