#pragma once
// Answers the requests of clients about streams and cursors: what they hold, how long they keep it,
// trimming and removing. The answers come from the ledger; limits in them are those that were set
// and, where none were, the broker's. Thread safety: none.
#include <functional>

#include "broker/core/answers.hpp"
#include "broker/core/config.hpp"

namespace millrace::broker {

class StreamRequests {
 public:
  StreamRequests(Outbox& out, Sessions& sessions, const CoreConfig& config)
      : answers_(out, sessions), config_(config) {}

  void streams(const Asker& asker, StreamsRequest request);
  void cursors(const Asker& asker, const CursorsRequest& request);
  void trim(const Asker& asker, Trim trim);
  void keep(const Asker& asker, Keep keep);
  void remove(const Asker& asker, Remove remove);

 private:
  void ask(const Asker& asker, Operation operation, std::function<Message(Reply)> answer);
  void change(const Asker& asker, Operation operation);
  StreamState state_of(StreamInfo info) const;

  Answers answers_;
  const CoreConfig& config_;
};

}  // namespace millrace::broker
