#include "broker/core/backups.hpp"

#include <utility>

namespace millrace::broker {

void Backups::request(const Asker& asker, BackupRequest request) {
  if (closed_) {
    return answers_.refuse_at_once(asker,
                                   {Code::draining, "the broker is stopping and begins no backup",
                                    "ask again when it is back", limits::retry_start_ms});
  }
  const bool same = request.name == name_;
  if (running_ && !same) {
    return answers_.refuse_at_once(asker, {Code::conflict, "the backup " + name_ + " is under way",
                                           "wait until it is done", limits::retry_room_ms});
  }
  if (same && (running_ || last_.done)) return answer(asker);
  if (same && error_) {  // told once; asked again, it begins anew
    name_.clear();
    return answers_.refuse_at_once(asker, *std::exchange(error_, std::nullopt));
  }
  if (!answers_.begin(asker)) return;
  name_ = std::move(request.name);
  last_ = {};
  error_.reset();
  running_ = true;
  // The first step finds what is wrong with the name or the folder.
  out_.ask_one(BackUp{name_}, [this, asker](Result<Reply> reply) {
    sessions_.end(asker.peer);
    running_ = false;
    const auto* r = reply_as<BackUpReply>(reply);
    if (r == nullptr) {
      name_.clear();
      return answers_.refuse_at_once(asker, reply_error(reply));
    }
    last_ = *r;
    if (r->done) note_done();
    answer(asker);
    if (!r->done) step();
  });
}

void Backups::answer(const Asker& asker) {
  answers_.answer_at_once(asker, BackupAnswer{last_.folder, last_.bytes, last_.copied, last_.done});
  // Told once: who asks for this name later wants a new copy, and hears that there is one.
  if (last_.done) name_.clear();
}

void Backups::note_done() {
  out_.note(NoteLevel::info, "the backup " + name_ + " is done: " + last_.folder + ", " +
                                 std::to_string(last_.bytes) + " bytes");
}

void Backups::step() {
  running_ = true;
  out_.ask_one(BackUp{name_, closed_}, [this](Result<Reply> reply) {
    running_ = false;
    const auto* r = reply_as<BackUpReply>(reply);
    if (r == nullptr) {
      error_ = reply_error(reply);
      return out_.note(NoteLevel::error, error_->text());
    }
    if (closed_ && !r->done) return;
    last_ = *r;
    r->done ? note_done() : step();
  });
}

void Backups::close() {
  closed_ = true;
}

}  // namespace millrace::broker
