#pragma once
// What the other brokers on a ledger have to know at once of a batch that this one has carried out:
// numbers for their doorbells, work for their engines, and leases that ended or are to end without
// their engine. Everything else they see in the ledger when they look. Thread safety: pure.
#include <span>
#include <vector>

#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

// The replies are those of the operations, in order. Of each stream only the last number is told,
// and of each tenant only the sum of its new work.
std::vector<News> news_of(std::span<const Operation> operations,
                          std::span<const Result<Reply>> replies);

}  // namespace millrace::broker
