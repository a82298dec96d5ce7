#include "tests/simulation/storage.hpp"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "broker/ledger/memory_ledger.hpp"
#include "broker/ledger/sqlite_testing.hpp"
#include "broker/ledger/stored_ledger.hpp"
#include "tests/unit/ledger/faulty_store.hpp"
#include "tests/unit/ledger/full_disk_env.hpp"

namespace millrace::broker::simulation {
namespace {

// Tells what took place at the moment when it does, whatever the broker is told of it.
class WatchedStore final : public LedgerStore {
 public:
  WatchedStore(std::unique_ptr<LedgerStore> to, std::string broker, Storage::Committed committed)
      : to_(std::move(to)), broker_(std::move(broker)), committed_(std::move(committed)) {}

  Records& records() override { return to_->records(); }
  Status begin(bool writes) override { return to_->begin(writes); }
  void tell_others(std::span<const Operation> operations,
                   std::span<const Result<Reply>> replies) override {
    operations_ = operations;
    replies_ = replies;
    to_->tell_others(operations, replies);
  }
  Status commit() override {
    MILLRACE_TRY(to_->commit());
    committed_(broker_, std::exchange(operations_, {}), std::exchange(replies_, {}));
    return {};
  }
  Status roll_back() override {
    operations_ = {};
    replies_ = {};
    return to_->roll_back();
  }

 private:
  std::unique_ptr<LedgerStore> to_;
  const std::string broker_;
  const Storage::Committed committed_;
  std::span<const Operation> operations_;  // of the transaction under way, and their replies
  std::span<const Result<Reply>> replies_;
};

class AllLeases final : public test::ForwardingRecords {
 public:
  using ForwardingRecords::ForwardingRecords;
  std::set<LeaseId> held_elsewhere(std::span<const LeaseId>) override { return {}; }
};

// For questions that only the checks ask.
class SoundStore final : public LedgerStore {
 public:
  explicit SoundStore(std::unique_ptr<LedgerStore> to)
      : to_(std::move(to)), records_(to_->records()) {}
  Records& records() override { return records_; }
  Status begin(bool writes) override { return to_->begin(writes); }
  Status commit() override { return to_->commit(); }
  Status roll_back() override { return to_->roll_back(); }

 private:
  std::unique_ptr<LedgerStore> to_;
  AllLeases records_;
};

class MemoryStorage final : public Storage {
 public:
  MemoryStorage(bool unavailable, Surroundings around)
      : around_(std::move(around)),
        unavailable_(unavailable),
        fault_dice_(around_.dice.below(1u << 31)),
        store_(around_.server ? around_.server->store
                              : make_memory_store({around_.publish, "epoch"})),
        sound_(make_stored_ledger(std::make_unique<SoundStore>(make_memory_handle(store_)),
                                  {around_.publish})) {}

  std::size_t handles() const override { return handles_.size(); }
  std::shared_ptr<Ledger> handle(std::size_t i) override { return handles_.at(i); }
  Ledger& sound() override { return *sound_; }
  void connect(const std::string& broker) override {
    plan_ = std::make_shared<test::FaultPlan>();
    for (auto& handle : handles_) {
      auto store = std::make_unique<test::FaultyStore>(plant(around_.bug, open(broker)), plan_);
      handle = make_stored_ledger(plant_outcome(around_.bug, std::move(store)), {around_.publish});
    }
  }
  bool outlives_processes() const override { return around_.server != nullptr; }
  void before_commit() override {
    faults_ += std::exchange(plan_->provoked, 0);
    if (unavailable_ && !around_.calm()) plan_->draw(fault_dice_, 19, 20);
    if (around_.server && around_.clock.now_us() < around_.server->down_until_us) {
      plan_->next = test::Fault::begin;
      plan_->unreachable = 1;
    }
  }
  void after_commit() override {}
  void interrupt() override {}
  void crash() override {}
  bool may_end() const override { return false; }
  bool was_full() const override { return false; }
  std::uint64_t faults() const override { return faults_; }
  std::uint64_t flips() const override { return 0; }

 private:
  std::unique_ptr<LedgerStore> open(const std::string& broker) {
    if (!around_.server) return make_memory_handle(store_);
    return std::make_unique<WatchedStore>(make_memory_handle(store_, broker), broker,
                                          around_.committed);
  }

  Surroundings around_;
  const bool unavailable_;
  std::mt19937_64 fault_dice_;
  std::shared_ptr<MemoryStore> store_;
  std::unique_ptr<Ledger> sound_;
  std::shared_ptr<test::FaultPlan> plan_;
  std::array<std::shared_ptr<Ledger>, 2> handles_;
  std::uint64_t faults_ = 0;
};

class DiskStorage final : public Storage {
 public:
  explicit DiskStorage(Surroundings around) : around_(std::move(around)), clock_(around_.clock) {
    open();
  }

  std::size_t handles() const override { return 1; }
  std::shared_ptr<Ledger> handle(std::size_t) override { return ledger_; }
  Ledger& sound() override { return *ledger_; }
  void connect(const std::string&) override {}
  void before_commit() override;
  void after_commit() override { disk_.fail_read_at(0); }
  void interrupt() override { disk_.cut_at(disk_.calls() + 1 + around_.dice.below(40)); }
  void crash() override;
  bool may_end() const override { return true; }
  bool was_full() const override { return was_full_; }
  std::uint64_t faults() const override { return faults_; }
  std::uint64_t flips() const override { return flips_; }

 private:
  void open();
  Result<std::unique_ptr<Ledger>> try_to_open();
  void flip_a_bit();

  Surroundings around_;
  const SimulatedClock clock_;
  test::PowerCutDisk disk_;
  test::FullDiskEnv env_{disk_};
  std::shared_ptr<Ledger> ledger_;
  std::int64_t full_until_us_ = 0;
  std::uint64_t faults_ = 0, flips_ = 0;
  bool was_full_ = false;
};

Result<std::unique_ptr<Ledger>> DiskStorage::try_to_open() {
  SqliteLedgerOptions options;
  options.publish = around_.publish;
  options.ballast_bytes = 128 * limits::KiB;
  options.checkpoint_pages = 64;
  options.checkpoint_thread = false;
  options.wal_bytes = limits::MiB;
  options.spare_pages = 8;
  options.env = &env_;
  options.clock = &clock_;
  options.vfs = disk_.vfs_name();
  DurabilitySettings settings;
  if (around_.bug == Bug::unsynced_commits) settings.synchronous = "NORMAL";
  MILLRACE_ASSIGN(auto store, open_sqlite_store("ledger", std::move(options), settings));
  return make_stored_ledger(plant(around_.bug, std::move(store)), {around_.publish});
}

// The disk may fail while the ledger is opened; the next try finds it sound.
void DiskStorage::open() {
  const bool fails = !around_.calm() && around_.dice.chance(0.05);
  if (fails) disk_.fail_at(disk_.calls() + 1 + around_.dice.below(30));
  auto opened = try_to_open();
  if (!opened && fails) {
    ++faults_;
    disk_.restore(around_.dice.below(UINT32_MAX));
    opened = try_to_open();
  }
  disk_.fail_at(0);
  if (!opened && opened.error().code == Code::disk_full) {
    disk_.capacity(0);  // somebody makes room
    opened = try_to_open();
  }
  if (!opened) throw LostLedger("the ledger cannot be opened: " + opened.error().text());
  ledger_ = *std::move(opened);
}

void DiskStorage::before_commit() {
  if (around_.calm() || around_.clock.now_us() >= full_until_us_) disk_.capacity(0);
  if (around_.calm()) return;
  if (around_.dice.chance(0.005)) {
    ++faults_;
    disk_.fail_at(disk_.calls() + 1 + around_.dice.below(12));
  }
  if (around_.dice.chance(0.002)) {
    ++faults_;
    disk_.fail_read_at(disk_.reads() + 1 + around_.dice.below(12));
  }
  if (around_.dice.chance(0.005)) {
    ++faults_;
    was_full_ = true;
    disk_.capacity(disk_.used() + around_.dice.below(96 * limits::KiB));
    full_until_us_ =
        around_.clock.now_us() + static_cast<std::int64_t>(around_.dice.below(20)) * second;
  }
}

void DiskStorage::crash() {
  disk_.cut_now();  // nothing is written any more, also not by the ledger's end
  ledger_.reset();
  const bool killed = around_.dice.chance(0.5);
  disk_.restore(around_.dice.below(UINT32_MAX), killed                      ? test::Kept::everything
                                                : around_.dice.chance(0.25) ? test::Kept::nothing
                                                                            : test::Kept::some);
  open();
  if (around_.calm() || !around_.dice.chance(0.2)) return;
  ledger_.reset();  // with a checkpoint: all is in one file
  flip_a_bit();
  open();
}

void DiskStorage::flip_a_bit() {
  auto& file = disk_.file("ledger");
  if (file.content.empty()) return;
  std::size_t at = file.content.find(padding, around_.dice.below(file.content.size()));
  if (at == std::string::npos) return;
  at += around_.dice.below(std::string_view(padding).size());
  file.content[at] = static_cast<char>(file.content[at] ^ (1 << around_.dice.below(7)));
  file.durable = file.content;
  ++flips_;
}

}  // namespace

std::shared_ptr<Server> make_server(const Publish& publish, const millrace::Clock& clock) {
  return std::make_shared<Server>(make_memory_store({publish, "epoch", &clock}));
}

std::unique_ptr<Storage> make_storage(StorageKind kind, Storage::Surroundings around) {
  if (kind == StorageKind::disk) return std::make_unique<DiskStorage>(std::move(around));
  return std::make_unique<MemoryStorage>(kind == StorageKind::unavailable_memory,
                                         std::move(around));
}

}  // namespace millrace::broker::simulation
