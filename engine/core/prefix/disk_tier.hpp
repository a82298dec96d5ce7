#pragma once
// Segments in a folder, behind the prefix tree, so that computed pages outlive the process. One
// thread reads and writes files, reads first.
//
// A segment that is damaged, half written or another engine's counts as absent: it is never read,
// and a warning is logged once. One engine owns the folder while it runs. To make room, segments of
// another fingerprint are removed first, then the least recently used.
// Errors of open: invalid_value if the limit is too small for one page and the state after it,
// output_in_use, io_error.
// Later errors of the disk cost hits and cause a warning, but never fail a job. Thread safety: one
// owner thread.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/prefix/segment_tier.hpp"

namespace millrace::engine {

struct DiskTierOptions {
  std::string folder;
  std::uint64_t bytes = 0;  // limit of all segment files
  PageKind kind;
};

class DiskTier final : public SegmentTier {
 public:
  // Reads the folder's contents.
  static Result<std::unique_ptr<DiskTier>> open(std::shared_ptr<Env> env,
                                                const DiskTierOptions& options);
  ~DiskTier() override;  // waits until everything saved is written

  void save(SegmentIndex::Number number, std::vector<char> bytes) override;
  void abandon(SegmentIndex::Number number) override { index_.remove(number); }
  bool accepts() const override;
  std::uint64_t unwritten_bytes() const override;
  bool has_failed() const override { return write_failed_; }
  void load(std::uint64_t ticket, const SegmentIndex::Piece& piece) override;
  std::vector<Loaded> take() override;
  void wait() override;

 private:
  struct Load {
    Loaded answer;
    Segment segment;
    Status status;
  };
  struct Write {  // the write of a file; without bytes, its removal: no segment is empty
    SegmentIndex::Number number = 0;
    Segment segment;
    std::vector<char> bytes;
    Status status;
  };

  DiskTier(std::shared_ptr<Env> env, const DiskTierOptions& options,
           std::unique_ptr<FileLock> lock);
  Status read_folder();
  void read_file(const std::string& name, SegmentIndex::Number number);
  bool make_room(std::uint64_t bytes, const std::set<SegmentIndex::Number>& kept) override;
  SegmentIndex::Number enter(const Segment& segment) override;
  void forget(SegmentIndex::Number number);
  void tell(SegmentIndex::Number number, const char* what, const Error& error);
  std::string path_of(SegmentIndex::Number number) const;
  void work();
  void carry_out(Load& load);
  void carry_out(Write& write);

  std::shared_ptr<Env> env_;
  DiskTierOptions options_;
  std::unique_ptr<FileLock> lock_;
  SegmentIndex::Number next_ = 1;
  std::uint32_t foreign_ = 0;
  bool write_failed_ = false;

  mutable std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::deque<Load> loads_, loaded_;
  std::deque<Write> writes_, written_;
  std::uint64_t unwritten_bytes_ = 0;
  std::uint32_t under_way_ = 0;  // requests that the thread has taken and not answered
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace millrace::engine
