#include "engine/core/sampler/sampler.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace millrace::engine {
namespace {

// Layouts and bits as in kernels/sampler/sample.cl.
constexpr std::uint32_t task_size = 16, result_size = 4, bin_count = 256;
constexpr std::uint32_t task_draw = 1, task_greedy = 2, task_logprob = 4, task_processed = 8;
constexpr std::uint32_t result_bad = 1, result_none = 2;

ProgramSpec program_for(Family family) {
  if (family == Family::cpu) {
    return {.name = "sampler",
            .sources = {"sampler/scalar.cl", "sampler/math.cl", "sampler/vector.cl",
                        "sampler/math.cl", "sampler/row.cl", "sampler/cpu.cl", "sampler/sample.cl"},
            .defines = {}};
  }
  return {.name = "sampler",
          .sources = {"sampler/scalar.cl", "sampler/math.cl", "sampler/row.cl",
                      "sampler/generic.cl", "sampler/sample.cl"},
          .defines = {}};
}

std::uint32_t word(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// A temperature so small that its inverse overflows still has one: the largest logit wins.
float inverse_temperature(float temperature) {
  return std::min(1.0f / temperature, 1e30f);
}

std::array<std::uint32_t, task_size> encode(const SampleTask& task, std::uint32_t banned_offset,
                                            std::uint32_t top_offset) {
  std::array<std::uint32_t, task_size> w{};
  w[13] = task.top;
  w[14] = top_offset;
  if (!task.draw) {
    w[2] = task.target;
    return w;
  }
  const Sampling& s = task.sampling;
  const std::uint64_t seed = s.seed.value_or(0);
  const auto top_p = static_cast<std::uint64_t>(static_cast<double>(s.top_p) * 4294967296.0);
  w[0] = task_draw | (s.temperature == 0.0f ? task_greedy : 0) | (task.logprob ? task_logprob : 0) |
         (task.mode == LogprobMode::processed ? task_processed : 0);
  w[1] = task.slot;
  w[3] = task.position;
  w[4] = task.sample;
  w[5] = static_cast<std::uint32_t>(seed);
  w[6] = static_cast<std::uint32_t>(seed >> 32);
  w[7] = s.temperature == 0.0f ? 0 : word(inverse_temperature(s.temperature));
  w[8] = s.top_k;
  w[9] = static_cast<std::uint32_t>(top_p);
  w[10] = static_cast<std::uint32_t>(top_p >> 32);
  w[11] = banned_offset;
  w[12] = static_cast<std::uint32_t>(task.banned.size());
  w[15] = word(s.min_p);
  return w;
}

}  // namespace

Sampled SampleBatch::row(std::size_t index) const {
  const std::uint32_t* result = words_.data() + index * result_size;
  Sampled out;
  out.id = result[0];
  out.fault = (result[1] & result_bad) != 0    ? SampleFault::not_a_number
              : (result[1] & result_none) != 0 ? SampleFault::nothing_left
                                               : SampleFault::none;
  out.logprob = std::bit_cast<float>(result[2]);
  out.stages = result[3];
  const std::uint32_t first = top_offsets_[index], count = top_offsets_[index + 1] - first;
  out.top_ids = std::span(words_).subspan(size() * result_size + first, count);
  out.top_logprobs = std::span(top_logprobs_).subspan(first, count);
  return out;
}

void SampleBatch::assign(std::span<const Sampled> rows) {
  words_.clear();
  top_logprobs_.clear();
  top_offsets_.assign(1, 0);
  for (const Sampled& row : rows) {
    const std::uint32_t flags = row.fault == SampleFault::not_a_number   ? result_bad
                                : row.fault == SampleFault::nothing_left ? result_none
                                                                         : 0;
    words_.insert(words_.end(), {row.id, flags, word(row.logprob), row.stages});
    top_logprobs_.insert(top_logprobs_.end(), row.top_logprobs.begin(), row.top_logprobs.end());
    top_offsets_.push_back(static_cast<std::uint32_t>(top_logprobs_.size()));
  }
  for (const Sampled& row : rows) {
    words_.insert(words_.end(), row.top_ids.begin(), row.top_ids.end());
  }
}

Result<std::unique_ptr<Sampler>> Sampler::create(Device& device, std::uint32_t vocabulary,
                                                 std::uint32_t slots, std::uint32_t rows) {
  std::unique_ptr<Sampler> self(new Sampler(device, vocabulary));
  MILLRACE_ASSIGN(const Program program, device.build(program_for(device.family())));
  MILLRACE_ASSIGN(self->kernel_, device.kernel(program, "sample"));
  MILLRACE_ASSIGN(self->ids_, device.allocate_zeroed(std::uint64_t{slots} * 4, "sampled ids"));
  MILLRACE_TRY(self->reserve(self->tasks_, std::uint64_t{rows} * task_size, "sampling tasks"));
  MILLRACE_TRY(self->reserve(self->out_, std::uint64_t{rows} * result_size, "sampling results"));
  MILLRACE_TRY(self->reserve(self->banned_, 64, "banned tokens"));
  MILLRACE_TRY(self->reserve(self->bins_, std::uint64_t{rows} * bin_count * 2, "sampling bins"));
  return self;
}

// A buffer that is replaced stays alive until the commands that use it are done.
Status Sampler::reserve(Buffer& buffer, std::uint64_t words, const char* what) {
  const std::uint64_t bytes = words * 4;
  if (buffer.size_bytes() >= bytes) return {};
  MILLRACE_ASSIGN(buffer, device_->allocate(std::max(bytes, buffer.size_bytes() * 2), what));
  return {};
}

Status Sampler::enqueue(const Buffer& logits, std::uint32_t stride,
                        std::span<const SampleTask> tasks, SampleBatch& batch) {
  task_words_.clear();
  banned_words_.clear();
  batch.top_offsets_.assign(1, 0);
  for (const SampleTask& task : tasks) {
    const auto words =
        encode(task, static_cast<std::uint32_t>(banned_words_.size()), batch.top_offsets_.back());
    task_words_.insert(task_words_.end(), words.begin(), words.end());
    banned_words_.insert(banned_words_.end(), task.banned.begin(), task.banned.end());
    batch.top_offsets_.push_back(batch.top_offsets_.back() + task.top);
  }
  const auto rows = static_cast<std::uint32_t>(tasks.size());
  const std::uint32_t top_count = batch.top_offsets_.back();
  const std::uint32_t top_at = rows * result_size;
  batch.words_.resize(std::size_t{top_at} + std::size_t{top_count} * 2);
  batch.arrived_ = DeviceEvent();
  if (rows == 0) return {};

  MILLRACE_TRY(reserve(tasks_, task_words_.size(), "sampling tasks"));
  MILLRACE_TRY(reserve(banned_, banned_words_.size(), "banned tokens"));
  MILLRACE_TRY(reserve(out_, batch.words_.size(), "sampling results"));
  MILLRACE_TRY(reserve(bins_, std::uint64_t{rows} * bin_count * 2, "sampling bins"));
  MILLRACE_TRY(device_->write(tasks_, 0, std::as_bytes(std::span(task_words_))));
  MILLRACE_TRY(device_->write(banned_, 0, std::as_bytes(std::span(banned_words_))));
  MILLRACE_TRY(device_->launch(
      kernel_, {.groups = {rows, 1, 1}, .local = {1, 1, 1}},
      {logits, stride, vocabulary_, tasks_, banned_, ids_, out_, top_at, top_count, bins_}));
  MILLRACE_ASSIGN(batch.arrived_,
                  device_->enqueue_read(out_, 0, std::as_writable_bytes(std::span(batch.words_))));
  return {};
}

Status Sampler::wait(SampleBatch& batch) {
  if (batch.arrived_) MILLRACE_TRY(device_->wait(batch.arrived_));
  const std::size_t count = batch.top_offsets_.back();
  const auto* first = batch.words_.data() + (batch.words_.size() - count);
  batch.top_logprobs_.resize(count);
  std::transform(first, first + count, batch.top_logprobs_.begin(),
                 [](std::uint32_t w) { return std::bit_cast<float>(w); });
  return {};
}

}  // namespace millrace::engine
