#include "broker/core/waiting.hpp"

#include <algorithm>
#include <set>

#include "schemas/base/kv_policy.hpp"

namespace millrace::broker {

std::string waiting_for(const EngineTable& engines, const std::string& tenant,
                        const std::string& model, const std::string& kv) {
  const std::string of_model = model == "*" ? "" : " of model " + model;
  bool some = false;
  std::set<std::string> policies;
  for (const auto& [id, engine] : engines.all()) {
    if (!engine.works_for(tenant)) continue;
    if (!engine.peer || !engine.joined || (model != "*" && engine.profile.facts.model != model))
      continue;
    if (kv.empty() || engine.runs(kv)) return {};
    some = true;
    if (!engine.profile.kv_policies.empty()) policies.insert(engine.profile.kv_policies.front());
  }
  const std::string name(kv_display_name(kv));
  if (!some) {
    return "no engine" + of_model + " is connected" +
           (kv.empty() ? "" : ", nor one with kv " + name);
  }
  std::string run;
  for (const std::string& policy : policies) run += (run.empty() ? "" : ", ") + policy;
  // A policy by layer is the outcome of an engine's options; no option accepts one.
  const std::string how = parse_kv_policy(kv)
                              ? "with --kv " + name
                              : "whose --kv, --kv-protect and --kv-center give this policy";
  return "no engine" + of_model + " connected runs kv " + name + ": they run " +
         (run.empty() ? "policies that they did not announce" : run) + "; start one " + how;
}

std::string waiting_paused(const GetJobReply& job) {
  switch (job.paused) {
    case PausedBy::nothing:
      return {};
    case PausedBy::tenant:
      return "all jobs are paused, until millrace resume --all";
    case PausedBy::model:
      return "the queue of its model is paused, until millrace resume --model " + job.model;
    case PausedBy::batch:
      return "its batch is paused, until millrace resume --batch " + job.batch;
  }
  return {};
}

std::string waiting_until(std::int64_t start_us, std::int64_t now_us) {
  const std::int64_t wait_s = std::max<std::int64_t>((start_us - now_us + 999'999) / 1'000'000, 0);
  return "it starts in " + std::to_string(wait_s) + " s";
}

}  // namespace millrace::broker
