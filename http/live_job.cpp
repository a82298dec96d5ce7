#include "http/live_job.hpp"

#include <algorithm>

#include "client/link/entry_result.hpp"
#include "schemas/json_fields.hpp"

namespace millrace::http {
namespace {

constexpr std::size_t shown_bytes = 4'096;  // of each text
constexpr std::size_t choices_shown = 8;

void write_event(JsonWriter& json, const char* what, std::int64_t time_us) {
  json.begin_object().field("what", what).field("time_us", time_us).end_object();
}

// An engine tells how long its steps took, but not when: they end when the broker stores the end.
void write_timeline(JsonWriter& json, const JobInfo& job, const JobResult* end) {
  json.key("timeline").begin_array();
  write_event(json, "submitted", job.submitted_us);
  if (job.not_before_us && !job.ended_us) write_event(json, "waits_until", *job.not_before_us);
  if (end != nullptr && end->result && job.ended_us) {
    const EngineTimes& times = end->result->times;
    const auto after = [&](std::uint64_t us) {
      const std::int64_t taken_us = *job.ended_us - static_cast<std::int64_t>(times.total_us);
      return std::max(job.submitted_us, taken_us) + static_cast<std::int64_t>(us);
    };
    write_event(json, "taken", after(0));
    write_event(json, "started", after(times.queue_us));
    if (times.first_token_us > 0) write_event(json, "first_token", after(times.first_token_us));
  }
  if (job.ended_us) write_event(json, std::string(wire::to_name(job.state)).c_str(), *job.ended_us);
  json.end_array();
}

// The longest beginning that ends with a whole character.
std::string_view beginning(std::string_view text) {
  if (text.size() <= shown_bytes) return text;
  std::size_t end = shown_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

void write_result(JsonWriter& json, const GenerationResult& result) {
  json.key("usage").begin_object();
  write_fields(json, result.usage);
  json.end_object().key("times").begin_object();
  write_fields(json, result.times);
  json.end_object().field("choices_known", std::uint64_t{result.choices.size()});
  json.key("choices").begin_array();
  for (std::size_t i = 0; i < std::min(result.choices.size(), choices_shown); ++i) {
    const Choice& choice = result.choices[i];
    json.begin_object()
        .field("index", choice.index)
        .field("finish_reason", wire::to_name(choice.finish_reason))
        .field("text", beginning(choice.text))
        .field("text_bytes", std::uint64_t{choice.text.size()})
        .end_object();
  }
  json.end_array();
}

}  // namespace

std::string jobs_json(const JobsAnswer& answer) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("jobs").begin_array();
  for (const JobInfo& job : answer.jobs) {
    json.begin_object();
    write_fields(json, job);
    json.end_object();
  }
  json.end_array().field("more", answer.more).field("next", answer.next).end_object();
  return out;
}

std::string job_json(const JobInfo& job, const std::string& waits, const Entry* entry) {
  std::optional<JobResult> end;
  if (entry != nullptr) end = client::result_of(*entry, job.stream);
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("job").begin_object();
  write_fields(json, job);
  json.end_object().field("waits", waits);
  write_timeline(json, job, end ? &*end : nullptr);
  if (end && end->result) write_result(json, *end->result);
  json.key("warnings").begin_array();
  if (end) {
    for (const std::string& warning : end->warnings) json.value(warning);
  }
  json.end_array().end_object();
  return out;
}

}  // namespace millrace::http
