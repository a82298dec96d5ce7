#pragma once
// Segments in a folder, behind the prefix tree: what was computed outlives the process. The owner
// asks and looks answers up; one thread reads and writes files, reads first, so that no step of the
// engine waits for a disk.
//
// A segment that is damaged, half written or another engine's is not there: it is told once as a
// warning and never read. The folder is one engine's while it runs, and holds at most so many
// bytes: what was not used for longest goes first, what another fingerprint left before anything.
// The beginning of a path does not go for its end, which is worth nothing without it: of a path
// that has no room as a whole the beginning is kept, and `reserve` refuses the rest.
// Errors of open: invalid_value where the bound holds not one page, output_in_use, io_error. Later
// errors of the disk cost hits and a warning, never a job. Thread safety: one owner thread.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/prefix/segment_index.hpp"

namespace millrace::engine {

struct DiskTierOptions {
  std::string folder;
  std::uint64_t bytes = 0;  // of all segment files
  PageKind kind;
};

class DiskTier {
 public:
  // Reads what the folder holds.
  static Result<std::unique_ptr<DiskTier>> open(std::shared_ptr<Env> env,
                                                const DiskTierOptions& options);
  ~DiskTier();  // after everything saved is written
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  SegmentIndex& index() { return index_; }
  std::uint64_t most_bytes() const { return options_.bytes; }

  // Pages [first_page, ...) of a path, `bytes` as packed. First a place for them, for which others
  // go, and so that nobody saves them again; then the bytes, or nothing when they could not be had.
  struct Place {
    SegmentIndex::Number number = 0;  // 0: no room ...
    bool later = false;               // ... until what is being written may go
  };
  Place reserve(Tokens path, std::uint32_t first_page);
  void save(SegmentIndex::Number number, std::vector<char> bytes);
  void abandon(SegmentIndex::Number number) { index_.remove(number); }
  // Whether more may be saved now: not while much waits for the disk, nor after a write failed.
  bool accepts() const;
  std::uint64_t unwritten_bytes() const;  // of what was saved, until it is in its file
  bool has_failed() const { return write_failed_; }

  // Answered by take(). The segment was readable when it was found; gone since, it cannot be read.
  void load(std::uint64_t ticket, const SegmentIndex::Piece& piece);
  struct Loaded {
    std::uint64_t ticket = 0;
    SegmentIndex::Piece piece;
    std::vector<char> bytes;  // empty: they cannot be read, and the segment is gone
  };
  std::vector<Loaded> take();
  // Until take() has something or nothing is under way, but a disk that hangs holds up nobody for
  // longer than this.
  static constexpr std::uint32_t most_wait_ms = 100;
  void wait();

 private:
  struct Load {
    Loaded answer;
    Segment segment;
    Status status;
  };
  struct Write {  // of a file, or its removal where there are no bytes
    SegmentIndex::Number number = 0;
    Segment segment;
    std::vector<char> bytes;
    Status status;
  };

  DiskTier(std::shared_ptr<Env> env, const DiskTierOptions& options,
           std::unique_ptr<FileLock> lock);
  Status read_folder();
  void read_file(const std::string& name, SegmentIndex::Number number);
  bool make_room(std::uint64_t bytes, const std::set<SegmentIndex::Number>& kept);
  void forget(SegmentIndex::Number number);
  void tell(SegmentIndex::Number number, const char* what, const Error& error);
  std::string path_of(SegmentIndex::Number number) const;
  void work();
  void carry_out(Load& load);
  void carry_out(Write& write);

  std::shared_ptr<Env> env_;
  DiskTierOptions options_;
  std::unique_ptr<FileLock> lock_;
  SegmentIndex index_;
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
