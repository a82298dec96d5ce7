#include "engine/core/sampler/sampler.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "engine/core/device/family_source.hpp"
#include "engine/core/sampler/row_state.hpp"

namespace millrace::engine {
namespace {

using kernels::ResultRecord;
using kernels::TaskRecord;

constexpr std::uint32_t task_size = sizeof(TaskRecord) / 4, result_size = sizeof(ResultRecord) / 4;

// The default number of work-items that share a row. It is one where all groups are single
// work-items, and on any CPU, whose cores share the rows, because PoCL's compiler takes long over
// the barriers that more would need. NVIDIA's GPUs need many to read a row as fast as it comes.
std::uint32_t usual_row_items(const Device& device) {
  if (device.row_items() == 1 || device.info().type == DeviceType::cpu) return 1;
  return device.info().compute_capability > 0 ? 512 : 128;
}

ProgramSpec program_for(const Device& device, std::uint32_t row_items) {
  ProgramSpec program{.name = "sampler", .sources = {family_source(device, "sampler")}};
  if (row_items > 1) program.defines.push_back("ROW_ITEMS=" + std::to_string(row_items));
  return program;
}

// The inverse is limited, so that a very small temperature does not overflow; the largest logit
// wins.
float inverse_temperature(float temperature) {
  return std::min(1.0f / temperature, 1e30f);
}

// A share as a fixed-point number with 32 fractional bits.
std::uint64_t share(float value) {
  return static_cast<std::uint64_t>(static_cast<double>(value) * 4294967296.0);
}

// What depends only on the task; the caller fills in the offsets.
TaskRecord encode(const SampleTask& task) {
  TaskRecord out{};
  out.top = task.top;
  out.listed_count = static_cast<std::uint32_t>(task.listed.size());
  if (!task.draw) {
    out.target = task.target;
    return out;
  }
  const Sampling& s = task.sampling;
  const bool greedy = s.temperature == 0.0f || task.forced;  // a single token needs no noise
  if (task.forced) {
    out.flags = TASK_FORCED;
    out.target = *task.forced;
  }
  out.flags |= TASK_DRAW | (greedy ? TASK_GREEDY : 0) | (task.logprob ? TASK_LOGPROB : 0) |
               (task.mode == LogprobMode::processed ? TASK_PROCESSED : 0);
  out.slot = task.slot;
  out.position = task.position;
  out.sample = task.sample;
  out.seed = s.seed.value_or(0);
  out.inverse_temperature = greedy ? 0 : inverse_temperature(s.temperature);
  out.top_k = s.top_k;
  out.top_p = share(s.top_p);
  out.banned_count = static_cast<std::uint32_t>(task.banned.size());
  out.min_p = s.min_p;
  if (s.typical_p < 1.0f) {
    out.typical_p = std::max(1u, static_cast<std::uint32_t>(share(s.typical_p)));
  }
  out.xtc_probability = share(s.xtc_probability);
  out.xtc_threshold = static_cast<std::uint32_t>(share(s.xtc_threshold));
  return out;
}

}  // namespace

void SampleBatch::divide(std::size_t parts, std::size_t rows) {
  parts_.resize(parts);
  places_.assign(rows, {});
}

Sampled SampleBatch::row(std::size_t index) const {
  if (!parts_.empty()) {
    const auto& [part, row_of_part] = places_[index];
    return parts_[part].row(row_of_part);
  }
  ResultRecord result;
  std::memcpy(&result, words_.data() + index * result_size, sizeof result);
  Sampled out;
  out.id = result.id;
  out.fault = (result.flags & RESULT_BAD) != 0    ? SampleFault::not_a_number
              : (result.flags & RESULT_NONE) != 0 ? SampleFault::nothing_left
                                                  : SampleFault::none;
  out.logprob = result.logprob;
  out.stages = result.stages;
  const std::uint32_t first = top_offsets_[index], count = top_offsets_[index + 1] - first;
  out.top_ids = std::span(words_).subspan(size() * result_size + first, count);
  out.top_logprobs = std::span(top_logprobs_).subspan(first, count);
  const std::uint32_t listed = listed_offsets_[index];
  out.listed_logprobs =
      std::span(listed_logprobs_).subspan(listed, listed_offsets_[index + 1] - listed);
  return out;
}

void SampleBatch::assign(std::span<const Sampled> rows) {
  words_.clear();
  top_logprobs_.clear();
  listed_logprobs_.clear();
  top_offsets_.assign(1, 0);
  listed_offsets_.assign(1, 0);
  for (const Sampled& row : rows) {
    const std::uint32_t flags = row.fault == SampleFault::not_a_number   ? RESULT_BAD
                                : row.fault == SampleFault::nothing_left ? RESULT_NONE
                                                                         : 0;
    const ResultRecord result{row.id, flags, row.logprob, row.stages};
    const auto words = std::bit_cast<std::array<std::uint32_t, result_size>>(result);
    words_.insert(words_.end(), words.begin(), words.end());
    top_logprobs_.insert(top_logprobs_.end(), row.top_logprobs.begin(), row.top_logprobs.end());
    top_offsets_.push_back(static_cast<std::uint32_t>(top_logprobs_.size()));
    listed_logprobs_.insert(listed_logprobs_.end(), row.listed_logprobs.begin(),
                            row.listed_logprobs.end());
    listed_offsets_.push_back(static_cast<std::uint32_t>(listed_logprobs_.size()));
  }
  for (const Sampled& row : rows) {
    words_.insert(words_.end(), row.top_ids.begin(), row.top_ids.end());
  }
}

Result<std::unique_ptr<Sampler>> Sampler::create(Device& device, std::uint32_t vocabulary,
                                                 std::uint32_t slots, std::uint32_t rows,
                                                 std::uint32_t row_items) {
  MILLRACE_ASSIGN(auto self, allocate(device, vocabulary, slots, rows, row_items));
  MILLRACE_TRY(self->compile());
  return self;
}

Status Sampler::compile() {
  MILLRACE_ASSIGN(const Program program, device_->build(program_for(*device_, row_items_)));
  MILLRACE_ASSIGN(kernel_, device_->kernel(program, "sample"));
  return {};
}

Result<std::unique_ptr<Sampler>> Sampler::allocate(Device& device, std::uint32_t vocabulary,
                                                   std::uint32_t slots, std::uint32_t rows,
                                                   std::uint32_t row_items) {
  std::unique_ptr<Sampler> self(new Sampler(device, vocabulary));
  self->row_items_ = row_items > 0 ? row_items : usual_row_items(device);
  MILLRACE_ASSIGN(self->ids_, device.allocate_zeroed(std::uint64_t{slots} * 4, "sampled ids"));
  MILLRACE_TRY(self->reserve(self->tasks_, std::uint64_t{rows} * task_size, "sampling tasks"));
  MILLRACE_TRY(self->reserve(self->out_, std::uint64_t{rows} * result_size, "sampling results"));
  MILLRACE_TRY(self->reserve(self->lists_, 64, "lists of tokens"));
  MILLRACE_TRY(self->reserve(self->bins_, std::uint64_t{rows} * SAMPLER_BINS * 2, "sampling bins"));
  return self;
}

// Makes a buffer large enough. The driver keeps a replaced buffer until its commands are done.
Status Sampler::reserve(Buffer& buffer, std::uint64_t words, const char* what) {
  const std::uint64_t bytes = words * 4;
  if (buffer.size_bytes() >= bytes) return {};
  MILLRACE_ASSIGN(buffer, device_->allocate(std::max(bytes, buffer.size_bytes() * 2), what));
  return {};
}

Result<PlacedState> Sampler::place(const SampleTask& task) {
  StateRequest request;
  request.sequence = task.sequence;
  request.slot = task.slot;
  request.position = task.position;
  request.edits = task.edits;
  request.history = task.history;
  request.log = task.logprob && task.mode == LogprobMode::raw;
  return states_->place(request);
}

Status Sampler::enqueue(const Buffer& logits, std::uint32_t stride,
                        std::span<const SampleTask> tasks, SampleBatch& batch) {
  task_records_.clear();
  list_words_.clear();
  batch.top_offsets_.assign(1, 0);
  batch.listed_offsets_.assign(1, 0);
  for (const SampleTask& task : tasks) {
    TaskRecord record = encode(task);
    record.top_at = batch.top_offsets_.back();
    record.listed_at = batch.listed_offsets_.back();
    record.banned = static_cast<std::uint32_t>(list_words_.size());
    list_words_.insert(list_words_.end(), task.banned.begin(), task.banned.end());
    record.listed = static_cast<std::uint32_t>(list_words_.size());
    list_words_.insert(list_words_.end(), task.listed.begin(), task.listed.end());
    if (task.draw) states_->other_draw(task.slot, task.sequence);
    if (task.draw && task.edits != nullptr) {
      MILLRACE_ASSIGN(const PlacedState state, place(task));
      record.flags |= TASK_EDIT | (state.absorb ? TASK_ABSORB : 0);
      record.state = state.offset;
    }
    task_records_.push_back(record);
    batch.top_offsets_.push_back(batch.top_offsets_.back() + task.top);
    batch.listed_offsets_.push_back(batch.listed_offsets_.back() + record.listed_count);
  }
  const auto rows = static_cast<std::uint32_t>(tasks.size());
  const std::uint32_t top_count = batch.top_offsets_.back();
  const std::uint32_t top_at = rows * result_size;
  batch.words_.resize(std::size_t{top_at} + std::size_t{top_count} * 2 +
                      batch.listed_offsets_.back());
  if (rows == 0) return enqueue_end(batch);

  MILLRACE_TRY(reserve(tasks_, task_records_.size() * task_size, "sampling tasks"));
  MILLRACE_TRY(reserve(lists_, list_words_.size(), "lists of tokens"));
  MILLRACE_TRY(reserve(out_, batch.words_.size(), "sampling results"));
  MILLRACE_TRY(reserve(bins_, std::uint64_t{rows} * SAMPLER_BINS * 2, "sampling bins"));
  MILLRACE_TRY(device_->write(tasks_, 0, std::as_bytes(std::span(task_records_))));
  MILLRACE_TRY(device_->write(lists_, 0, std::as_bytes(std::span(list_words_))));
  // The kernel needs some buffer here; without states no task uses it.
  const Buffer& states = states_->bytes() > 0 ? states_->buffer() : lists_;
  MILLRACE_TRY(device_->launch(
      kernel_, {.groups = {rows}, .local = {row_items_}},
      {logits, stride, vocabulary_, tasks_, lists_, states, ids_, out_, top_at, top_count, bins_}));
  MILLRACE_ASSIGN(batch.arrived_,
                  device_->enqueue_read(out_, 0, std::as_writable_bytes(std::span(batch.words_))));
  return {};
}

// Enqueues the read of a word, so that `wait` works for a step without tasks as for any other.
Status Sampler::enqueue_end(SampleBatch& batch) {
  const auto word = std::as_writable_bytes(std::span(&batch.end_of_step_, 1));
  MILLRACE_ASSIGN(batch.arrived_, device_->enqueue_read(ids_, 0, word));
  return {};
}

Status Sampler::wait(SampleBatch& batch) {
  for (SampleBatch& part : batch.parts_) MILLRACE_TRY(wait(part));
  if (!batch.parts_.empty()) return {};
  if (batch.arrived_) MILLRACE_TRY(device_->wait(batch.arrived_));
  const auto floats = [](const std::uint32_t* first, std::size_t count, std::vector<float>& out) {
    out.resize(count);
    std::transform(first, first + count, out.begin(),
                   [](std::uint32_t w) { return std::bit_cast<float>(w); });
  };
  const std::size_t listed = batch.listed_offsets_.back(), top = batch.top_offsets_.back();
  const std::uint32_t* end = batch.words_.data() + batch.words_.size();
  floats(end - listed, listed, batch.listed_logprobs_);
  floats(end - listed - top, top, batch.top_logprobs_);
  return {};
}

}  // namespace millrace::engine
