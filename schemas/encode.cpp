// Encodes messages, results and jobs. Messages and results have every field except absent optional
// ones, so that a reader need not know the defaults. Jobs have only what differs from the defaults.
#include <algorithm>

#include "schemas/base/hash.hpp"
#include "schemas/codec.hpp"
#include "schemas/writer.hpp"

namespace millrace {

using wire::Packer;

namespace {

constexpr const char* trace_fields[] = {"traceparent", "tracestate"};  // of a job's metadata

// About how many bytes a message of many bodies takes. Growing by doubling would copy each several
// times, and take pages from the system as often.
std::size_t bytes_of(const auto& bodies, auto body_of) {
  constexpr std::size_t around = 128;  // the fields beside a body
  std::size_t bytes = around;
  for (const auto& one : bodies) bytes += body_of(one).size() + around;
  return bytes;
}
std::size_t bytes_about(const Message& message) {
  if (const auto* data = std::get_if<Data>(&message)) {
    return bytes_of(data->entries, [](const Entry& entry) -> const Body& { return entry.body; });
  }
  if (const auto* leases = std::get_if<Leases>(&message)) {
    return bytes_of(leases->leases, [](const Lease& lease) -> const Body& { return lease.body; });
  }
  return 0;
}

}  // namespace

std::string encode(const Envelope& envelope) {
  Packer out;
  out.reserve(bytes_about(envelope.message));
  out.map(4);
  out.value("v");
  out.value(protocol_version);
  out.value("kind");
  out.value(kind_name(envelope.message));
  out.value("id");
  out.value(envelope.id);
  out.value("body");
  std::visit([&](const auto& message) { wire::write_map(out, message); }, envelope.message);
  return std::move(out).take();
}

std::string encode_result(const JobResult& result) {
  Packer out;
  wire::write_map(out, result);
  return std::move(out).take();
}

std::string encode_generation(const GenerationResult& result) {
  Packer out;
  wire::write_map(out, result);
  return std::move(out).take();
}

std::string encode_result(const JobResult& end, const Body& result) {
  wire::PairCounter counter;
  published_fields(counter, end);
  counter.optional_body("result", result);
  Packer out;
  out.map(counter.pairs);
  wire::MapWriter writer(out);
  published_fields(writer, end);
  writer.optional_body("result", result);
  return std::move(out).take();
}

std::string encode_labels(const JobLabels& labels) {
  if (labels == JobLabels{}) return {};
  Packer out;
  wire::write_map(out, labels);
  return std::move(out).take();
}

std::string encode_job(const Job& job) {
  const auto written = [](const Job& of) {
    return wire::map_of(wire::changed_fields(
        of, [](auto& v, const Job& table) { fields(v, table); }, of.request.given_sampling));
  };
  if (job.request.task != Task::score) return written(job);
  // A score job always gives the prompt's logprobs, so the field is left out.
  Job plain = job;
  plain.request.logprobs.prompt = false;
  return written(plain);
}

std::string timed_job_hash(const Job& job) {
  return hash128(encode_job(job)).hex();
}

std::string traced_job_hash(const Job& job) {
  Job timeless = job;
  timeless.not_before_us.reset();
  timeless.deadline_us.reset();
  return timed_job_hash(timeless);
}

bool is_traced(const Job& job) {
  return std::ranges::any_of(trace_fields,
                             [&](const char* name) { return job.metadata.contains(name); });
}

std::string job_hash(const Job& job) {
  if (!is_traced(job)) return traced_job_hash(job);
  Job untraced = job;
  for (const char* name : trace_fields) untraced.metadata.erase(name);
  return traced_job_hash(untraced);
}

std::uint64_t derived_seed(const Job& job) {
  const auto seed_fields = [](auto& v, const Job& of) {
    v.field("custom_id", of.custom_id);  // distinguishes equal prompts of one file
    prompt_fields(v, of.request);
    sampling_fields(v, of.request);
    fields(v, of.request.edits);
  };
  Job seedless = job;
  seedless.request.sampling.seed.reset();
  // A map of biases means the same in any order.
  std::ranges::sort(seedless.request.edits.bias, {}, &LogitBias::token);
  constexpr unsigned bits_kept = 53;
  return hash64(wire::map_of(
             wire::changed_fields(seedless, seed_fields, seedless.request.given_sampling))) >>
         (64 - bits_kept);
}

std::string_view kind_name(const Message& message) {
  return message_kinds[message.index()].name;
}
std::string_view wire_name(JobState state) {
  return wire::to_name(state);
}
std::string_view wire_name(FinishReason reason) {
  return wire::to_name(reason);
}

}  // namespace millrace
