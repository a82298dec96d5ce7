#include "broker/core/models.hpp"

namespace millrace::broker {

void Models::recover(std::function<void()> then) {
  read_from(1, std::move(then));
}

void Models::read_from(std::uint64_t number, std::function<void()> then) {
  ReadStream read;
  read.tenant = default_tenant;
  read.stream = models_stream;
  read.from = number;
  out_.ask_one(std::move(read), [this, number, then = std::move(then)](Result<Reply> reply) {
    const auto* r = reply_as<ReadStreamReply>(reply);
    if (r == nullptr) {
      out_.note(NoteLevel::error,
                "reading the names of known models failed: " + reply_error(reply).text());
    }
    std::uint64_t next = number;
    if (r != nullptr) {
      for (const auto& entry : r->entries) {
        served_.insert(entry.job);
        next = entry.number + 1;
      }
    }
    if (next != number && next <= r->high) return read_from(next, then);
    then();
  });
}

void Models::serve(const std::string& model) {
  if (model.empty()) return;
  if (!served_.insert(model).second && unkept_.erase(model) == 0) return;
  // The entry's job is the name of the model; its body is a msgpack nil.
  out_.ask_one(
      Append{default_tenant, models_stream, model, "\xc0"}, [this, model](Result<Reply> reply) {
        if (reply) return;
        unkept_.insert(model);  // the next hello with this model tries again
        out_.note(NoteLevel::warning,
                  "storing the name of model " + model + " failed: " + reply.error().text());
      });
}

}  // namespace millrace::broker
