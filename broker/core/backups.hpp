#pragma once
// Has the ledger copy itself, step by step, each sharing a commit with whatever else waits. One
// backup is under way at a time. Whoever asks is told at once how far it is, and asks again.
// Thread safety: none.
#include <optional>
#include <string>

#include "broker/core/answers.hpp"

namespace millrace::broker {

class Backups {
 public:
  Backups(Outbox& out, Sessions& sessions)
      : out_(out), sessions_(sessions), answers_(out, sessions) {}

  void request(const Asker& asker, BackupRequest request);
  // Whether the message only asks how far the backup is that is under way.
  bool is_asked_how_far(const Message& message) const {
    const auto* backup = std::get_if<BackupRequest>(&message);
    return running_ && backup != nullptr && backup->name == name_;
  }
  void close();  // the broker drains: a backup under way is dropped

 private:
  void step();
  void answer(const Asker& asker);
  void note_done();

  Outbox& out_;
  Sessions& sessions_;
  Answers answers_;
  std::string name_;  // of the last one; empty once its end is told
  bool running_ = false, closed_ = false;
  BackUpReply last_;
  std::optional<Error> error_;
};

}  // namespace millrace::broker
