#pragma once
// The rules that hold at the end of a run: every job has ended once and as it had to, and every
// client has read all of its tenant's. Thread safety: none.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "broker/ledger/ledger.hpp"
#include "tests/simulation/actors.hpp"
#include "tests/simulation/simulation.hpp"

namespace millrace::broker::simulation {

class EndChecks {
 public:
  using Ask = std::function<Result<Reply>(const Operation&)>;
  // Counts in the outcome how the jobs ended.
  EndChecks(Ask ask, Record& record, Outcome& outcome)
      : ask_(std::move(ask)), record_(record), outcome_(outcome) {}

  // `jobs_of`: how many each tenant has. `flips`: jobs that the disk has damaged at most.
  void all(const std::map<std::string, std::size_t>& jobs_of,
           const std::vector<std::unique_ptr<SimClient>>& clients, std::uint64_t flips);

 private:
  void check_stream(const std::string& tenant, std::map<std::string, int>& ends);
  void check_end(const Entry& entry);
  void violation(std::string text) { record_.violations.push_back(std::move(text)); }

  Ask ask_;
  Record& record_;
  Outcome& outcome_;
  std::uint64_t damaged_ = 0;
};

}  // namespace millrace::broker::simulation
