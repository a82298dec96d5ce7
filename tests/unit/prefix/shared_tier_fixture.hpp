#pragma once
// Tiers of several engines over one folder, whose store a test makes fail, wait or hang.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/prefix/folder_store.hpp"
#include "engine/core/prefix/shared_tier.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {

namespace fs = std::filesystem;

inline constexpr std::uint32_t shared_page_tokens = 4;
inline constexpr std::uint64_t shared_page_bytes = 64;
inline const PageKind shared_kind{"0123456789abcdef0123456789abcdef", shared_page_tokens,
                                  shared_page_bytes};

inline Tokens shared_path(TokenId first, std::uint32_t count) {
  Tokens out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

// Packed pages whose bytes name their path and number.
inline std::vector<char> shared_pages(const Tokens& path, std::uint32_t first_page) {
  std::vector<char> out;
  for (std::size_t page = first_page; page < path.size() / shared_page_tokens; ++page) {
    for (std::uint64_t i = 0; i < shared_page_bytes; ++i) {
      out.push_back(static_cast<char>(path[page * shared_page_tokens] * 7 + page + i));
    }
  }
  return out;
}

inline std::string content_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// A folder's store whose calls a test makes fail or wait.
class TestStore final : public SegmentStore {
 public:
  struct Faults {
    std::atomic<bool> away{false}, no_writes{false};
    std::atomic<int> writes{0}, removes{0};
    std::string unremovable{};                   // the name of a file
    std::chrono::milliseconds refusal_takes{0};  // of a removal
    std::shared_future<void> read_waits_for;
    std::atomic<bool> hangs{false};
  };
  TestStore(std::string folder, std::shared_ptr<Faults> faults)
      : folder_(std::move(folder)), faults_(std::move(faults)) {}
  Result<std::vector<StoredFile>> list() override {
    MILLRACE_TRY(there());
    return folder_.list();
  }
  Result<std::size_t> read(const std::string& name, std::uint64_t offset,
                           std::span<char> into) override {
    if (faults_->hangs) faults_->read_waits_for.wait();
    MILLRACE_TRY(there());
    return folder_.read(name, offset, into);
  }
  Status write(const std::string& name, std::string_view content) override {
    MILLRACE_TRY(there());
    if (faults_->no_writes) return fail(Code::disk_full, "no room");
    ++faults_->writes;
    return folder_.write(name, content);
  }
  Status remove(const std::string& name) override {
    ++faults_->removes;
    if (name == faults_->unremovable) {
      std::this_thread::sleep_for(faults_->refusal_takes);
      return fail(Code::io_error, "it is somebody else's");
    }
    MILLRACE_TRY(there());
    return folder_.remove(name);
  }
  Status touch(const std::string& name) override { return folder_.touch(name); }
  std::string place(const std::string& name) const override { return folder_.place(name); }
  std::string place() const override { return folder_.place(); }

 private:
  Status there() const {
    return faults_->away ? fail(Code::io_error, "the store is unreachable") : Status();
  }
  FolderStore folder_;
  std::shared_ptr<Faults> faults_;
};

class SharedTierTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              (std::string("millrace-shared-") + test->name() + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_.kind = shared_kind;
    options_.bytes = 1u << 20;
    options_.refresh_ms = 0;
    options_.pause_ms = 1;
    options_.touch_ms = 0;
    set_up_logging({LogLevel::info, false, [this](std::string_view line) {
                      const std::lock_guard lock(log_mutex_);
                      if (line.find(" warning") != line.npos || line.find(" warn") != line.npos)
                        warnings_ += line;
                      log_ += line;
                    }});
  }
  void TearDown() override {
    set_up_logging({LogLevel::off, false, {}});
    fs::remove_all(folder_);
  }
  std::unique_ptr<SharedTier> open() {
    return SharedTier::open(std::make_unique<TestStore>(folder_.string(), faults_), options_)
        .value();
  }
  static void save(SharedTier& tier, const Tokens& path, std::uint32_t first_page = 0) {
    const auto number = tier.reserve(path, first_page).number;
    ASSERT_NE(number, 0u);
    tier.save(number, shared_pages(path, first_page));
    while (tier.index().contains(number) && !tier.index().is_readable(number)) {
      tier.wait();
      tier.take();
    }
  }
  // Waits until a tier knows so many pages of a path.
  static void await(SharedTier& tier, const Tokens& path, std::uint32_t pages) {
    while (tier.find(path, 0) != pages) {
      tier.wait();
      tier.take();
    }
  }
  static std::vector<char> load(SharedTier& tier, const Tokens& path) {
    std::vector<char> out;
    const auto known = std::span(path).first(tier.find(path, 0) * shared_page_tokens);
    const auto pieces = tier.index().pieces(known, 0);
    for (const auto& piece : pieces) tier.load(5, piece);
    for (std::size_t answers = 0; answers < pieces.size();) {
      tier.wait();
      for (const auto& loaded : tier.take()) {
        out.insert(out.end(), loaded.bytes.begin(), loaded.bytes.end());
        ++answers;
      }
    }
    return out;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(folder_)) out.push_back(entry.path());
    std::ranges::sort(out);
    return out;
  }
  std::uint64_t bytes() const {
    std::uint64_t out = 0;
    for (const fs::path& file : files()) out += fs::file_size(file);
    return out;
  }
  void grow_old(const fs::path& file, int hours) const {
    fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(hours));
  }
  std::string warnings() {
    const std::lock_guard lock(log_mutex_);
    return warnings_;
  }
  std::size_t warned() {
    const std::string lines = warnings();
    return static_cast<std::size_t>(std::ranges::count(lines, '\n'));
  }

  fs::path folder_;
  SharedTierOptions options_;
  std::shared_ptr<TestStore::Faults> faults_ = std::make_shared<TestStore::Faults>();
  std::mutex log_mutex_;
  std::string log_, warnings_;
};

}  // namespace millrace::engine
