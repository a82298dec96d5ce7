#pragma once
// Keeps space on the ledger's disk for results: a file of real blocks (the ballast) that is deleted
// when the disk is full and made again when there is room. New work is accepted only while the
// ballast exists and as much again is free, or more where marks say so.
// Errors: io_error. Thread safety: one thread at a time.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "schemas/base/env.hpp"

namespace millrace::broker {

// Marks of the free space, in bytes. Below `low`, and never below the size of the ballast, no new
// work is accepted, until there is as much as `high`; below `warn` the log says so. Another thread
// may change them at any time.
struct DiskMarks {
  std::atomic<std::uint64_t> low{0}, high{0}, warn{0};
};

class DiskReserve {
 public:
  // `bytes` 0: no ballast; new work then needs free space for itself only. `marks` null: all 0.
  DiskReserve(Env& env, std::string path, std::uint64_t bytes,
              std::shared_ptr<const DiskMarks> marks = {});

  // Makes the ballast where it is missing and there is room for it twice.
  Status keep();
  // Ok when `bytes` of new work may be accepted. Error: disk_full when they may not.
  Status room_for(std::uint64_t bytes);
  // Deletes the ballast. True: there was one, so that a second try may succeed.
  Result<bool> release();
  bool held() const { return held_; }

 private:
  Result<std::uint64_t> free_bytes();
  Status fill();
  void warn_if_low(std::uint64_t free);
  std::unexpected<Error> not_enough(std::uint64_t left, std::uint64_t wanted) const;

  Env& env_;
  const std::string path_, folder_;
  const std::uint64_t bytes_;
  const std::shared_ptr<const DiskMarks> marks_;
  bool held_ = false, low_ = false, warned_ = false;
};

}  // namespace millrace::broker
