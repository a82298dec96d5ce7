#include "broker/core/models.hpp"

namespace millrace::broker {

void Models::recover(std::vector<std::string> tenants, std::function<void()> then) {
  read_from(std::move(tenants), 1, std::move(then));
}

// Reads the stream of the last tenant from this number on, then those of the others.
void Models::read_from(std::vector<std::string> tenants, std::uint64_t number,
                       std::function<void()> then) {
  if (tenants.empty()) return then();
  ReadStream read;
  read.tenant = tenants.back();
  read.stream = models_stream;
  read.from = number;
  out_.ask_one(std::move(read), [this, tenants = std::move(tenants), number,
                                 then = std::move(then)](Result<Reply> reply) mutable {
    const auto* r = reply_as<ReadStreamReply>(reply);
    if (r == nullptr) {
      out_.note(NoteLevel::error,
                "reading the names of known models failed: " + reply_error(reply).text());
    }
    std::uint64_t next = number;
    if (r != nullptr) {
      for (const auto& entry : r->entries) {
        served_.emplace(tenants.back(), entry.job);
        next = entry.number + 1;
        read_[tenants.back()] = entry.number;
      }
    }
    const bool more = next != number && next <= r->high;
    if (!more) tenants.pop_back();
    read_from(std::move(tenants), more ? next : 1, std::move(then));
  });
}

void Models::serve(const std::string& tenant, const std::string& model) {
  const std::pair name(tenant, model);
  if (model.empty()) return;
  if (!served_.insert(name).second && unkept_.erase(name) == 0) return;
  // The entry's job is the name of the model; its body is a msgpack nil.
  out_.ask_one(Append{tenant, models_stream, model, "\xc0"}, [this, name](Result<Reply> reply) {
    if (reply) return;
    unkept_.insert(name);  // the next hello with this model tries again
    out_.note(NoteLevel::warning,
              "storing the name of model " + name.second + " failed: " + reply.error().text());
  });
}

}  // namespace millrace::broker
