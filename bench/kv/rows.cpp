#include "bench/kv/rows.hpp"

#include <algorithm>
#include <chrono>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/model/kv_shape.hpp"

namespace millrace::engine {
namespace {

using Clock = std::chrono::steady_clock;

std::uint32_t pages_of(std::uint32_t tokens) {
  return (tokens + kv_page_tokens - 1) / kv_page_tokens;
}

}  // namespace

// A row has pages for its context and, after them, pages for the tokens that it draws.
Rows::Rows(Device& device, const RowsShape& shape)
    : device_(&device),
      shape_(shape),
      context_pages_(pages_of(shape.context)),
      pages_each_(context_pages_ + pages_of(shape.steps + 1)) {}

Result<std::unique_ptr<Rows>> Rows::load(Device& device, const GgufFile& file,
                                         const std::string& policy, MathMode math,
                                         const RowsShape& shape) {
  std::unique_ptr<Rows> rows(new Rows(device, shape));
  MILLRACE_ASSIGN(const ModelSpec spec, read_spec(file));
  MILLRACE_ASSIGN(const KvPolicy parsed, parse_kv_policy(policy));
  MILLRACE_ASSIGN(const KvLayers layers, resolve(parsed, kv_shape(spec)));
  const CacheShape cache = cache_shape(spec, layers.layers);
  const std::uint32_t pages = shape.rows * rows->pages_each_;
  ModelOptions options;
  options.kv = policy;
  options.kv_bytes = pages * cache.page_bytes();
  options.step_tokens = std::max(shape.rows, shape.chunk);
  options.step_outputs = shape.rows;
  options.math = math;
  MILLRACE_ASSIGN(rows->model_, Model::load(device, file, options));
  if (rows->info().page_count < pages) {
    return fail(Code::kv_exceeded,
                std::to_string(shape.rows) + " rows of " + std::to_string(shape.context) +
                    " tokens do not fit the device's largest allocation",
                "give fewer --rows or a smaller --context");
  }
  MILLRACE_ASSIGN(rows->sampler_,
                  Sampler::create(device, spec.vocabulary, shape.rows, options.step_outputs));
  MILLRACE_TRY(rows->touch());
  return rows;
}

// Writes every page of the context once, because a system provides memory at the first write, which
// must not slow down a prompt that is timed.
Status Rows::touch() {
  for (std::uint32_t i = 1; i < context_pages_; ++i) {
    MILLRACE_TRY(copy_page(page(0, 0), page(0, i)));
  }
  return device_->finish();
}

// Copies a page in all cache groups, which use the same pages here.
Status Rows::copy_page(PageId from, PageId to) {
  for (std::uint32_t group = 0; group < info().pools.size(); ++group) {
    MILLRACE_TRY(model_->copy_page({from, to, group}));
  }
  return {};
}

// Returns the token that engine_bench's first job has at this position.
TokenId Rows::token(std::uint32_t position) const {
  return 1000 + (position * 104729) % (model_->info().vocabulary - 1000);
}

Status Rows::prompt(std::uint32_t at, std::uint32_t count) {
  plan_.clear();
  for (std::uint32_t i = 0; i < count; ++i) plan_.tokens.push_back(token(at + i));
  for (std::uint32_t i = 0; i < context_pages_; ++i) plan_.pages.push_back(page(0, i));
  PlanRow row{.sequence = ++sequence_, .first_position = at, .count = count};
  row.page_count = context_pages_;
  if (at + count == shape_.context) {  // the last step of a prompt computes logits
    plan_.outputs.push_back({count - 1, OutputKind::logits});
    row.output_count = 1;
  }
  plan_.rows.push_back(row);
  MILLRACE_TRY(model_->forward(plan_, sampler_->ids()));
  return device_->finish();
}

Status Rows::copy() {
  for (std::uint32_t row = 1; row < shape_.rows; ++row) {
    for (std::uint32_t i = 0; i < context_pages_; ++i) {
      MILLRACE_TRY(copy_page(page(0, i), page(row, i)));
    }
    MILLRACE_TRY(device_->finish());
  }
  return {};
}

void Rows::plan_step(const DecodeLoad& load, std::uint32_t step) {
  plan_.clear();
  tasks_.clear();
  const std::uint32_t position = load.context + step;
  for (std::uint32_t r = 0; r < load.rows; ++r) {
    PlanRow row{.sequence = r + 1, .first_position = position, .count = 1, .token_offset = r};
    if (step > 0) row.device_slot = r;
    plan_.tokens.push_back(token(load.context));
    row.page_offset = static_cast<std::uint32_t>(plan_.pages.size());
    for (std::uint32_t i = 0; i < pages_of(load.context); ++i) plan_.pages.push_back(page(r, i));
    for (std::uint32_t i = context_pages_; i < pages_each_; ++i) plan_.pages.push_back(page(r, i));
    row.page_count = static_cast<std::uint32_t>(plan_.pages.size()) - row.page_offset;
    row.output_offset = r;
    row.output_count = 1;
    plan_.outputs.push_back({0, OutputKind::logits});
    plan_.rows.push_back(row);
    SampleTask task;
    task.slot = r;
    task.position = position + 1;
    task.sampling.temperature = 0;
    task.sequence = ++sequence_;
    tasks_.push_back(task);
  }
}

Status Rows::start(const DecodeLoad& load, std::uint32_t step) {
  plan_step(load, step);
  MILLRACE_TRY(model_->forward(plan_, sampler_->ids()));
  MILLRACE_TRY(
      sampler_->enqueue(model_->logits(), model_->logits_stride(), tasks_, batches_[step % 2]));
  return device_->flush();
}

Status Rows::finish(const DecodeLoad& load, std::uint32_t step) {
  SampleBatch& batch = batches_[step % 2];
  MILLRACE_TRY(sampler_->wait(batch));
  for (std::uint32_t r = 0; r < load.rows; ++r) {
    const Sampled sampled = batch.row(r);
    if (sampled.fault != SampleFault::none || sampled.id != batch.row(0).id) {
      return fail(Code::internal,
                  "row " + std::to_string(r) + " drew token " + std::to_string(sampled.id) +
                      " in step " + std::to_string(step) + ", and row 0 of the same context drew " +
                      std::to_string(batch.row(0).id),
                  "report it");
    }
  }
  drawn_.push_back(batch.row(0).id);
  return {};
}

Result<double> Rows::decode(const DecodeLoad& load) {
  drawn_.clear();
  MILLRACE_TRY(start(load, 0));
  Clock::time_point begin;
  for (std::uint32_t step = 0; step <= load.steps; ++step) {
    if (step < load.steps) MILLRACE_TRY(start(load, step + 1));
    MILLRACE_TRY(finish(load, step));
    if (step == 0) begin = Clock::now();
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace millrace::engine
