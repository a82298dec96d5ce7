#pragma once
// Logs refused connections without letting strangers fill the log: each reason once an hour, and
// at most a hundred reasons an hour. All are counted.
// Thread safety: one thread.
#include <cstdint>
#include <set>
#include <string>

#include "schemas/base/log.hpp"

namespace millrace::broker {

class RefusalLog {
 public:
  void refused(const std::string& where, const std::string& why, std::int64_t now_us) {
    ++count_;
    if (now_us - since_us_ >= hour_us) {
      told_.clear();
      since_us_ = now_us;
    }
    if (told_.size() > reasons_most || !told_.insert(where + " " + why).second) return;
    if (told_.size() > reasons_most) {
      return log_warn("further refused connections of this hour are only counted");
    }
    log_warn("a connection was refused", {{"where", where}, {"why", why}});
  }
  std::uint64_t count() const { return count_; }

 private:
  static constexpr std::int64_t hour_us = 3'600'000'000;
  static constexpr std::size_t reasons_most = 100;
  std::set<std::string> told_;
  std::int64_t since_us_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace millrace::broker
