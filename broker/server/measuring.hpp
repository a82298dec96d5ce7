#pragma once
// Those who want to know what a broker measures, and the survey of the ledger that they wait for.
// Nothing is measured while nobody asks; those who ask while a survey is under way share the next
// one. Thread safety: any thread may call `want` and `refuse`, the owner's thread alone the rest.
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "broker/ledger/open_ledger.hpp"
#include "broker/server/measures.hpp"
#include "broker/server/survey.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/error.hpp"

namespace millrace::broker {

using Measured = std::function<void(const Result<Measures>&)>;

class Measuring {
 public:
  void want(Measured then);
  // The first request of a survey, where somebody wants one and none is under way.
  std::optional<LedgerRequest> begin();
  // Takes the replies to a survey's request; returns the next one. With the last replies, calls
  // those who wait with `rest`, which measures all but the ledger's holdings, and these.
  std::optional<LedgerRequest> completed(const Completed& completed,
                                         const std::function<Measures()>& rest);
  void refuse(const Error& error);  // calls all who wait

 private:
  std::mutex mutex_;  // guards the lists
  std::vector<Measured> wanting_, waiting_;
  Survey survey_;
};

// The sizes of a ledger's files; none where it is in memory. It asks for the files by name only:
// with a descriptor of the ledger's file, this process would give up its lock.
std::optional<StoreMeasures> measure_store(const LedgerPlace& place, Env& env);

}  // namespace millrace::broker
