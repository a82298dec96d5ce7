// A store that is away, full or hangs, behind the tier of an engine.
#include <algorithm>

#include "tests/unit/prefix/shared_tier_fixture.hpp"

namespace millrace::engine {
namespace {

TEST_F(SharedTierTest, AStoreThatIsAwayCostsOneWarningAndComesBack) {
  const Tokens path = shared_path(0, 8), later = shared_path(100, 8);
  save(*open(), path);
  faults_->away = true;
  const auto tier = open();  // does not fail
  EXPECT_EQ(tier->find(path, 0), 0u);
  EXPECT_TRUE(tier->has_failed());
  EXPECT_FALSE(tier->accepts());
  for (int i = 0; i < 20; ++i) {
    tier->find(path, 0);
    tier->wait();
    tier->take();
  }
  EXPECT_EQ(warned(), 1u) << warnings();
  EXPECT_NE(warnings().find("the store is unreachable"), std::string::npos) << warnings();
  faults_->away = false;
  await(*tier, path, 2);
  EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
  EXPECT_NE(log_.find("prefixes are shared in a store"), std::string::npos) << log_;
  faults_->away = true;  // between the look-up and the read
  EXPECT_TRUE(load(*tier, path).empty());
  EXPECT_EQ(warned(), 2u) << warnings();
  faults_->away = false;
  await(*tier, path, 2);
  EXPECT_NE(log_.find("the prefix store can be used again"), std::string::npos) << log_;
  save(*tier, later);
  EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
}

Result<std::optional<Segment>> only_segment(StoreView& view) {
  MILLRACE_TRY(view.refresh());
  return view.read_header();
}

// Over weeks a store may be away more than once while the same segment is read.
TEST_F(SharedTierTest, ASegmentIsKeptHoweverOftenItsStoreWasAway) {
  const Tokens path = shared_path(0, 8);
  save(*open(), path);
  TestStore store(folder_.string(), faults_);
  StoreView view(store, shared_kind, options_.bytes);
  const auto segment = only_segment(view);
  ASSERT_TRUE(segment && *segment);
  for (int i = 0; i < 3; ++i) {
    faults_->away = true;
    EXPECT_FALSE(view.load(**segment, 0, 2));
    faults_->away = false;
    EXPECT_EQ(view.refresh(), std::vector<std::string>());  // nothing has gone
    EXPECT_EQ(view.load(**segment, 0, 2), shared_pages(path, 0));
  }
}

TEST_F(SharedTierTest, ASegmentThatCouldNotBeReadIsKnownOnceItIsWrittenAgain) {
  const Tokens path = shared_path(0, 8);
  save(*open(), path);
  TestStore store(folder_.string(), faults_);
  StoreView view(store, shared_kind, options_.bytes);
  const auto segment = only_segment(view);
  ASSERT_TRUE(segment && *segment);
  faults_->away = true;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(view.load(**segment, 0, 2));
  faults_->away = false;
  EXPECT_EQ(view.refresh()->size(), 1u);  // it is given up
  EXPECT_EQ(view.save(**segment, shared_pages(path, 0)), true);
  EXPECT_EQ(view.refresh(), std::vector<std::string>());
}

// The oldest of two files cannot be removed: the other makes room, unless the store is away.
TEST_F(SharedTierTest, AFileThatCannotBeRemovedKeepsNoOther) {
  save(*open(), shared_path(0, 8));
  save(*open(), shared_path(100, 8));
  TestStore store(folder_.string(), faults_);
  const auto files = store.list();
  ASSERT_TRUE(files && files->size() == 2u);
  faults_->unremovable = std::ranges::min(*files, goes_before).name;
  faults_->refusal_takes = std::chrono::milliseconds(1'100);
  StoreView view(store, shared_kind, 1);
  ASSERT_TRUE(view.refresh());
  EXPECT_EQ(faults_->removes, 1);
  EXPECT_EQ(view.files(), 2u);
  faults_->refusal_takes = std::chrono::milliseconds(0);
  ASSERT_TRUE(view.refresh());
  EXPECT_EQ(faults_->removes, 3);
  EXPECT_EQ(view.files(), 1u);
}

TEST_F(SharedTierTest, AFolderThatIsMissingIsSaidAndNotMade) {
  fs::remove_all(folder_);
  const auto tier = open();
  EXPECT_EQ(tier->find(shared_path(0, 8), 0), 0u);
  EXPECT_NE(warnings().find("make this folder, or mount"), std::string::npos) << warnings();
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(SharedTierTest, AFullStoreIsStillRead) {
  const Tokens path = shared_path(0, 8), other = shared_path(100, 8);
  options_.pause_ms = 1'000'000;
  const auto tier = open();
  save(*tier, path);
  faults_->no_writes = true;
  tier->save(tier->reserve(other, 0).number, shared_pages(other, 0));
  while (tier->accepts()) {
    tier->wait();
    tier->take();
  }
  EXPECT_TRUE(tier->has_failed());
  EXPECT_EQ(warned(), 1u) << warnings();
  EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
  EXPECT_EQ(tier->index().first_missing(other), 0u);  // may be saved again later
}

// A file system that hangs: reads are given up, what they were for is computed, and the engine can
// end.
TEST_F(SharedTierTest, AStoreThatHangsHoldsUpNobody) {
  const Tokens path = shared_path(0, 8);
  std::promise<void> goes_on;
  faults_->read_waits_for = goes_on.get_future().share();
  options_.patience_ms = 50;
  options_.last_writes_ms = 50;
  auto tier = open();
  save(*tier, path);
  faults_->hangs = true;
  EXPECT_TRUE(load(*tier, path).empty());
  EXPECT_NE(warnings().find("does not answer"), std::string::npos) << warnings();
  EXPECT_EQ(tier->find(path, 0), 0u);
  EXPECT_TRUE(tier->has_failed());
  auto other = std::move(tier);
  other.reset();  // ends while the call hangs
  EXPECT_NE(warnings().find("what was to be saved is lost"), std::string::npos) << warnings();
  faults_->hangs = false;
  const auto later = open();
  faults_->hangs = true;
  EXPECT_TRUE(load(*later, path).empty());
  faults_->hangs = false;
  goes_on.set_value();
  await(*later, path, 2);  // the late answer is dropped
  EXPECT_EQ(load(*later, path), shared_pages(path, 0));
}

TEST_F(SharedTierTest, ALimitBelowOneSegmentIsRefused) {
  options_.bytes = 100;
  const auto refused = SharedTier::open(std::make_unique<FolderStore>(folder_.string()), options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_value);
}

}  // namespace
}  // namespace millrace::engine
