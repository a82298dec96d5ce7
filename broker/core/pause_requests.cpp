#include "broker/core/pause_requests.hpp"

#include <utility>

namespace millrace::broker {
namespace {

// Exactly one thing is named, and a model is one that may have a queue.
Status check(const std::string& tenant, const ChangePause& change, const Models& models) {
  const int named = int{!change.batch.empty()} + int{!change.model.empty()} + int{change.all};
  if (named != 1) {
    return fail(Code::invalid_value,
                named == 0 ? "change_pause: neither a batch nor a model nor all jobs are named"
                           : "change_pause: more than one of batch, model and all is named",
                "name one batch or one model, or give all: true");
  }
  if (!change.model.empty() && !models.known(tenant, change.model)) {
    return fail(unknown_model(change.model));
  }
  return {};
}

}  // namespace

void PauseRequests::change(const Asker& asker, const ChangePause& change) {
  if (auto sound = check(asker.tenant, change, models_); !sound) {
    return answers_.refuse_at_once(asker, std::move(sound.error()));
  }
  if (!answers_.begin(asker)) return;
  const Operation operation = change.paused
                                  ? Operation(Pause{asker.tenant, change.batch, change.model})
                                  : Operation(Resume{asker.tenant, change.batch, change.model});
  answers_.ask(asker, operation, [this, asker, paused = change.paused](Reply reply) {
    const auto& changed = std::get<PauseReply>(reply);
    changed_(asker.tenant, paused, changed);
    answers_.answer(asker, PauseChanged{changed.changed});
  });
}

}  // namespace millrace::broker
