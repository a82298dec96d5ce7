#include "broker/ledger/memory_ledger.hpp"

#include <atomic>
#include <mutex>
#include <utility>

#include "broker/ledger/memory_records.hpp"
#include "broker/ledger/news.hpp"
#include "broker/ledger/stored_ledger.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {

class MemoryStore {
 public:
  explicit MemoryStore(MemoryStoreOptions with)
      : options(std::move(with)), records(options.epoch.empty() ? random_id() : options.epoch) {}

  std::int64_t now_us() const {
    return options.clock != nullptr ? options.clock->wall_us() : SystemClock().wall_us();
  }

  const MemoryStoreOptions options;
  std::atomic<std::uint64_t> handles = 0;  // that there were
  std::mutex mutex;                        // held through a transaction
  MemoryRecords records;
};

namespace {

class MemoryHandle final : public LedgerStore {
 public:
  MemoryHandle(std::shared_ptr<MemoryStore> store, std::string broker)
      : store_(std::move(store)),
        caller_{"handle-" + std::to_string(++store_->handles), std::move(broker)} {}

  Records& records() override { return store_->records; }
  Status begin(bool writes) override {
    turn_ = std::unique_lock(store_->mutex);
    store_->records.begin(caller_, writes ? ++batch_ : 0, store_->now_us());
    return {};
  }
  void tell_others(std::span<const Operation> operations,
                   std::span<const Result<Reply>> replies) override {
    MemoryRecords& records = store_->records;
    if (records.others_live()) records.tell(news_of(operations, replies));
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
  const MemoryCaller caller_;
  std::uint64_t batch_ = 0;  // of the last transaction that changed something
  std::unique_lock<std::mutex> turn_;
};

}  // namespace

std::shared_ptr<MemoryStore> make_memory_store(MemoryStoreOptions options) {
  return std::make_shared<MemoryStore>(std::move(options));
}

std::unique_ptr<LedgerStore> make_memory_handle(std::shared_ptr<MemoryStore> store,
                                                std::string broker) {
  return std::make_unique<MemoryHandle>(std::move(store), std::move(broker));
}

std::unique_ptr<Ledger> make_memory_ledger(std::shared_ptr<MemoryStore> store) {
  RulesOptions options{store->options.publish};
  return make_stored_ledger(make_memory_handle(std::move(store)), std::move(options));
}

}  // namespace millrace::broker
