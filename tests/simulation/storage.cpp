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

class MemoryStorage final : public Storage {
 public:
  MemoryStorage(bool unavailable, Surroundings around)
      : around_(std::move(around)),
        unavailable_(unavailable),
        fault_dice_(around_.dice.below(1u << 31)),
        store_(make_memory_store({around_.publish, "epoch"})),
        sound_(make_memory_ledger(store_)) {}

  std::size_t handles() const override { return handles_.size(); }
  Ledger& handle(std::size_t i) override { return *handles_.at(i); }
  Ledger& sound() override { return *sound_; }
  void connect() override {
    plan_ = std::make_shared<test::FaultPlan>();
    for (auto& handle : handles_) {
      auto store = plant(around_.bug, make_memory_handle(store_));
      handle = make_stored_ledger(std::make_unique<test::FaultyStore>(std::move(store), plan_),
                                  {around_.publish});
    }
  }
  void before_commit() override {
    faults_ += std::exchange(plan_->provoked, 0);
    if (unavailable_ && !around_.calm()) plan_->draw(fault_dice_, 19, 20);
  }
  void after_commit() override {}
  void interrupt() override {}
  void crash() override {}
  bool may_end() const override { return false; }
  bool was_full() const override { return false; }
  std::uint64_t faults() const override { return faults_; }
  std::uint64_t flips() const override { return 0; }

 private:
  Surroundings around_;
  const bool unavailable_;
  std::mt19937_64 fault_dice_;
  std::shared_ptr<MemoryStore> store_;
  std::unique_ptr<Ledger> sound_;
  std::shared_ptr<test::FaultPlan> plan_;
  std::array<std::unique_ptr<Ledger>, 2> handles_;
  std::uint64_t faults_ = 0;
};

class SimulatedClock final : public millrace::Clock {
 public:
  explicit SimulatedClock(const simulation::Clock& clock) : clock_(clock) {}
  std::int64_t monotonic_us() const override { return clock_.now_us(); }
  std::int64_t wall_us() const override { return 1'700'000'000 * second + clock_.now_us(); }

 private:
  const simulation::Clock& clock_;
};

class DiskStorage final : public Storage {
 public:
  explicit DiskStorage(Surroundings around) : around_(std::move(around)), clock_(around_.clock) {
    open();
  }

  std::size_t handles() const override { return 1; }
  Ledger& handle(std::size_t) override { return *ledger_; }
  Ledger& sound() override { return *ledger_; }
  void connect() override {}
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
  std::unique_ptr<Ledger> ledger_;
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

std::unique_ptr<Storage> make_storage(StorageKind kind, Storage::Surroundings around) {
  if (kind == StorageKind::disk) return std::make_unique<DiskStorage>(std::move(around));
  return std::make_unique<MemoryStorage>(kind == StorageKind::unavailable_memory,
                                         std::move(around));
}

}  // namespace millrace::broker::simulation
