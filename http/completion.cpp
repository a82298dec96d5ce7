#include "http/completion.hpp"

#include <algorithm>
#include <utility>

#include "http/problem.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/random_id.hpp"
#include "schemas/openai/response.hpp"
#include "schemas/openai/result_parts.hpp"

namespace millrace::http {
namespace {

constexpr std::size_t key_bytes = 200;  // of an Idempotency-Key
constexpr int client_gone = 499;        // there is no answer; proxies log this status
constexpr std::int64_t us_per_s = 1'000 * us_per_ms;

std::string as_stream(const std::vector<std::string>& events) {
  std::string bytes;
  for (const std::string& event : events) bytes += "data: " + event + "\n\n";
  return bytes;
}

}  // namespace

// The id of the request's first job, with which those of others end. That of a key begins with a
// letter, so that no key gives the id of one of the others (request.hpp), which begins with a
// digit.
Result<std::string> Completion::choose_id() {
  const std::string_view key = exchange_->request().header("Idempotency-Key");
  repeatable_ = !key.empty();
  if (!repeatable_) return random_id();
  const bool fits = key.size() <= key_bytes && std::ranges::all_of(key, [](unsigned char letter) {
                      return letter > 0x20 && letter < 0x7f;
                    });
  if (!fits) {
    return fail(Code::invalid_value,
                "the Idempotency-Key is longer than " + std::to_string(key_bytes) +
                    " bytes, or has other characters than letters, digits and signs",
                "use a random id, such as a UUID");
  }
  return "key-" + std::string(key);
}

void Completion::begin(Desk& desk) {
  if (over_) return;
  desk_ = &desk;
  auto id = choose_id();
  if (!id) return refuse(id.error());
  const SystemClock clock;
  const auto timeout_us = static_cast<std::int64_t>(options_.timeout_ms) * us_per_ms;
  until_us_ = clock.monotonic_us() + timeout_us;
  openai::RequestOptions options;
  options.id = *std::move(id);
  options.stream = desk.stream();
  options.traceparent = trace_.parent();
  options.tracestate = trace_.state();
  // A request that may be repeated has to be the same job each time, so it has no deadline and no
  // random seed, and whether it is streamed is not in the job. The others are new each time, and
  // without a seed they give another text.
  options.always_partials = repeatable_;
  if (!repeatable_) {
    options.deadline_us = clock.wall_us() + timeout_us;
    options.seed = random_bits();
  }
  auto request = openai::parse_request(endpoint_, exchange_->take_body(), options);
  if (!request) return refuse(request.error());
  request_ = *std::move(request);
  for (const auto& job : request_.jobs) ids_.push_back(job.id);
  trace_.add("gen_ai.request.model", request_.model);
  trace_.add("gen_ai.response.id", ids_.front());
  results_.resize(ids_.size());
  desk.with_status([self = shared_from_this()](const Result<StatusAnswer>& status) {
    if (self->over_) return;
    const Status fits = status ? self->check_model(*status) : fail(status.error());
    if (!fits) return self->refuse(fits.error());
    self->submit();
  });
}

Status Completion::check_model(const StatusAnswer& status) {
  if (status.engines.empty()) {
    if (repeatable_) return {};  // it may have ended already, or waits for the next engine
    return fail(Error{Code::unreachable, "no engine is connected",
                      "start millrace-engine, or wait until it has loaded its model", 1'000});
  }
  if (request_.model == "*" || request_.model.empty()) {
    // A text comes before it is known which engine has the job, so all have to agree.
    const std::string& first = status.engines.front().engine.facts.model;
    const bool agree = std::ranges::all_of(
        status.engines, [&](const EngineInfo& one) { return one.engine.facts.model == first; });
    if (agree) model_ = first;
    return {};
  }
  std::string names;
  for (const EngineInfo& engine : status.engines) {
    const std::string& name = engine.engine.facts.model;
    if (name == request_.model) return {};
    if (!names.contains("'" + name + "'")) names += (names.empty() ? "'" : ", '") + name + "'";
  }
  return fail(Code::unknown_model, "model '" + request_.model + "' is served by no engine",
              "engines serve " + names);
}

void Completion::submit() {
  if (desk_->no_reader()) return refuse(*desk_->no_reader());  // since the request began
  std::vector<Body> jobs;
  for (auto& job : request_.jobs) jobs.push_back(std::move(job.body));
  if (request_.form.stream) {
    openai::ChunkOptions options;
    options.token_bytes = options_.token_bytes;
    options.model = model_;
    options.created_s = SystemClock().wall_us() / us_per_s;
    chunks_.emplace(request_, ids_, std::move(options));
  }
  running_.insert(ids_.begin(), ids_.end());
  for (const std::string& id : ids_) desk_->follow(id, shared_from_this(), until_us_);
  desk_->submit(std::move(jobs),
                [self = shared_from_this()](const Result<std::vector<SubmitAnswer>>& answers) {
                  if (answers) self->cancel_strays(*answers);
                  if (self->over_) return;
                  if (!answers) return self->on_failure(answers.error());
                  self->take_answers(*answers);
                });
}

// Under a known key only some of the jobs may be known. What the others do would be of no use: the
// request is refused, and it is refused again whenever it is sent under this key.
void Completion::cancel_strays(const std::vector<SubmitAnswer>& answers) {
  const bool conflict = std::ranges::any_of(answers, [](const SubmitAnswer& answer) {
    return answer.error && answer.error->code == Code::conflict;
  });
  if (!repeatable_ || !conflict) return;
  std::vector<std::string> strays;
  for (const SubmitAnswer& answer : answers) {
    if (!answer.error && !answer.known) strays.push_back(answer.job);
  }
  if (!strays.empty()) desk_->cancel(std::move(strays));
}

void Completion::take_answers(const std::vector<SubmitAnswer>& answers) {
  for (const SubmitAnswer& answer : answers) {
    if (!answer.error) continue;
    Error error = *answer.error;
    // Whoever sent the request chose no job's id, but its key.
    if (error.code == Code::conflict) error.hint = "send it with another Idempotency-Key";
    return on_failure(error);
  }
  for (const SubmitAnswer& answer : answers) {
    if (answer.known && answer.state && is_end(*answer.state)) desk_->find_result(answer.job);
  }
}

void Completion::on_partial(const PartialEntry& entry) {
  if (!over_ && chunks_) send(chunks_->partial(entry));
}

void Completion::on_end(const JobResult& result) {
  if (over_) return;
  running_.erase(result.job);
  if (chunks_) {
    const auto error = openai::error_of(result);
    if (error && !streaming_) return on_failure(*error);  // with its status, not in an event
    const auto events = chunks_->end(result);
    if (!chunks_->ended()) return send(events);
    write(as_stream(events) + "data: [DONE]\n\n");
    if (over_) return;
    exchange_->end();
    trace_.end(200);
    stop_following();
    return;
  }
  const auto at = std::ranges::find(ids_, result.job) - ids_.begin();
  results_[static_cast<std::size_t>(at)] = result;
  if (const auto error = openai::error_of(result)) return on_failure(*error);
  if (std::ranges::all_of(results_, [](const auto& one) { return one.has_value(); })) {
    answer_whole();
  }
}

void Completion::answer_whole() {
  openai::ResponseOptions options;
  options.token_bytes = options_.token_bytes;
  std::vector<JobResult> results;
  for (auto& result : results_) results.push_back(*std::exchange(result, std::nullopt));
  over_ = true;
  trace_.end(200);
  exchange_->respond({.status = 200,
                      .body = openai::response_body(request_, results, options),
                      .type = "application/json",
                      .headers = {{"X-Request-Id", ids_.front()}}});
}

void Completion::on_failure(const Error& error) {
  if (over_) return;
  Response told = problem(error);
  trace_.end(told.status, std::string(code_name(error.code)));
  if (streaming_) {
    write("data: " + told.body + "\n\n");
    exchange_->end();
  } else {
    exchange_->respond(std::move(told));
  }
  stop_following();
}

void Completion::refuse(const Error& error) {
  if (std::exchange(over_, true)) return;
  Response told = problem(error);
  trace_.end(told.status, std::string(code_name(error.code)));
  exchange_->respond(std::move(told));
}

void Completion::on_wait() {
  if (!over_ && chunks_) write(": the request waits for its next token\n\n");
}

void Completion::send(const std::vector<std::string>& events) {
  if (!events.empty()) write(as_stream(events));
}

void Completion::write(std::string_view bytes) {
  if (!std::exchange(streaming_, true)) {
    exchange_->begin_stream({.status = 200,
                             .body = {},
                             .type = "text/event-stream; charset=utf-8",
                             .headers = {{"Cache-Control", "no-cache"},
                                         {"X-Accel-Buffering", "no"},
                                         {"X-Request-Id", ids_.front()}}});
  }
  if (exchange_->write(bytes)) return;
  exchange_->abort();  // the client reads more slowly than the engine writes
  stop_following();
}

void Completion::leave(Desk& desk) {
  desk_ = &desk;
  if (!over_) stop_following();
}

void Completion::stop_following() {
  over_ = true;
  trace_.end(client_gone, "client_gone");
  if (desk_ == nullptr) return;
  for (const std::string& id : running_) desk_->unfollow(id, *this);
  if (!repeatable_ && !running_.empty()) {
    desk_->cancel(std::vector<std::string>(running_.begin(), running_.end()));
  }
  running_.clear();
}

}  // namespace millrace::http
