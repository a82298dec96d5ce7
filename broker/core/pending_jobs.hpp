#pragma once
// Counts the submitted jobs that wait for their commit, and decides whether there is room for more.
//
// Each tenant has an account, and so has the push endpoint, whose socket all tenants share. Where
// there are keys, an account holds at most half of what all may hold: nobody who floods the broker
// keeps others from submitting.
// Thread safety: none.
#include <cstdint>
#include <string>
#include <unordered_map>

#include "broker/core/config.hpp"

namespace millrace::broker {

class PendingJobs {
 public:
  static constexpr const char* push_account = "";  // no tenant has an empty name

  explicit PendingJobs(const CoreConfig& config) : config_(config) {}

  void add(const std::string& account, std::uint64_t jobs, std::uint64_t bytes) {
    all_.add(jobs, bytes);
    accounts_[account].add(jobs, bytes);
  }
  void remove(const std::string& account, std::uint64_t jobs, std::uint64_t bytes) {
    all_.remove(jobs, bytes);
    const auto found = accounts_.find(account);
    found->second.remove(jobs, bytes);
    if (found->second.jobs == 0 && found->second.bytes == 0) accounts_.erase(found);
  }
  bool has_room(const std::string& account) const {
    const std::uint64_t parts = config_.grants ? 2 : 1;
    return fits(all_, 1) && fits(of(account), parts);
  }
  std::uint64_t jobs() const { return all_.jobs; }
  std::uint64_t jobs(const std::string& account) const { return of(account).jobs; }
  bool none() const { return all_.jobs == 0; }

 private:
  struct Amount {
    std::uint64_t jobs = 0, bytes = 0;
    void add(std::uint64_t more_jobs, std::uint64_t more_bytes) {
      jobs += more_jobs;
      bytes += more_bytes;
    }
    void remove(std::uint64_t fewer_jobs, std::uint64_t fewer_bytes) {
      jobs -= fewer_jobs;
      bytes -= fewer_bytes;
    }
  };

  Amount of(const std::string& account) const {
    const auto found = accounts_.find(account);
    return found == accounts_.end() ? Amount() : found->second;
  }
  bool fits(const Amount& amount, std::uint64_t parts) const {
    return amount.jobs * parts < config_.pending_jobs &&
           amount.bytes * parts < config_.pending_bytes;
  }

  const CoreConfig& config_;
  Amount all_;
  std::unordered_map<std::string, Amount> accounts_;
};

}  // namespace millrace::broker
