#pragma once
// Space on the ledger's disk that is kept for results: a file of real blocks (the ballast) that is
// given up when the disk is full and made again when there is room. New work is taken only while
// the ballast stands and as much again is free.
// Errors: io_error. Thread safety: one thread at a time.
#include <cstdint>
#include <string>

#include "schemas/base/env.hpp"

namespace millrace::broker {

class DiskReserve {
 public:
  // `bytes` 0: no ballast, and new work is judged by the space it needs alone.
  DiskReserve(Env& env, std::string path, std::uint64_t bytes);

  // Makes the ballast where it is missing and there is room for it twice over.
  Status keep();
  // Whether `bytes` of new work may be taken; if not, an error that says so (disk_full).
  Status room_for(std::uint64_t bytes);
  // Gives the ballast up. True: there was one, so that trying again is worth while.
  Result<bool> release();
  bool held() const { return held_; }

 private:
  Result<std::uint64_t> free_bytes();
  Status fill();
  std::unexpected<Error> not_enough(std::uint64_t left, std::uint64_t wanted) const;

  Env& env_;
  const std::string path_, folder_;
  const std::uint64_t bytes_;
  bool held_ = false;
};

}  // namespace millrace::broker
