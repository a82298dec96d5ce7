#include "bench/kernel/load.hpp"

#include <algorithm>
#include <chrono>

#include "bench/kernel/random_halves.hpp"
#include "engine/core/kv/policy.hpp"

namespace millrace::engine {
namespace {

ModelSpec spec_of(const HeadCounts& heads) {
  ModelSpec spec;
  spec.layers.push_back({.attention = {.heads = heads.heads,
                                       .kv_heads = heads.kv_heads,
                                       .head_dim = heads.head_dim,
                                       .scale = 0.125f,
                                       .rope = {.dim = heads.head_dim}},
                         .recurrence = {},
                         .feed_forward = {},
                         .norms = {}});
  return spec;
}

StepPlan plan_of(std::uint32_t rows, std::uint32_t length, std::uint32_t chunk,
                 std::uint32_t shared) {
  const std::uint32_t pages_each = (length + kv_page_tokens - 1) / kv_page_tokens;
  const std::uint32_t shared_pages = shared / kv_page_tokens;
  StepPlan plan;
  for (std::uint32_t r = 0; r < rows; ++r) {
    PlanRow entry;
    entry.first_position = length - chunk;
    entry.count = chunk;
    entry.page_offset = static_cast<std::uint32_t>(plan.pages.size());
    entry.page_count = pages_each;
    for (std::uint32_t p = 0; p < pages_each; ++p) {
      plan.pages.push_back(p < shared_pages ? p : r * (pages_each - shared_pages) + p);
    }
    plan.rows.push_back(entry);
  }
  plan.tokens.assign(chunk, 0);
  return plan;
}

// Fills a buffer with random halves. The device repeats a piece of them: the host would take
// seconds for gigabytes.
Status fill(Device& device, const Buffer& buffer, std::uint64_t bytes) {
  constexpr std::uint64_t most = 64ull << 20;
  const std::uint64_t piece = std::min(bytes, most);
  MILLRACE_TRY(device.write(buffer, 0, random_halves(piece)));
  for (std::uint64_t done = piece; done < bytes; done += piece) {
    MILLRACE_TRY(device.copy(buffer, 0, buffer, done, std::min(piece, bytes - done)));
  }
  return {};
}

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

ProductLoad::ProductLoad(Device& device, MathMode math, const MaybeTuning& tuning)
    : operations_(device, spec_of({1, 1}), math, {}, tuning) {}

Result<std::unique_ptr<ProductLoad>> ProductLoad::create(Device& device, MathMode math,
                                                         TensorType type, std::uint32_t rows,
                                                         std::uint32_t columns,
                                                         const MaybeTuning& tuning) {
  std::unique_ptr<ProductLoad> load(new ProductLoad(device, math, tuning));
  WeightRun run{
      .format = format_of(type), .first_row = 0, .panels = rows / panel_rows, .buffer = {}};
  load->weight_bytes_ = load->operations_.backend().panel_bytes(run.format, columns) * run.panels;
  MILLRACE_ASSIGN(run.buffer, device.allocate(load->weight_bytes_, "weights"));
  MILLRACE_TRY(device.write(run.buffer, 0, random_halves(load->weight_bytes_)));
  load->projection_.columns = columns;
  load->projection_.rows = rows;
  load->projection_.first = {0};
  load->projection_.runs.push_back(std::move(run));
  const std::uint64_t x_rows = most_columns + input_slack_rows;
  MILLRACE_ASSIGN(load->x_.rows, device.allocate_zeroed(input_stride(columns) * x_rows * 4, "x"));
  MILLRACE_ASSIGN(load->x_.codes, device.allocate_zeroed(code_stride(columns) * x_rows * 4, "x"));
  MILLRACE_ASSIGN(load->y_, device.allocate_zeroed(std::uint64_t{rows} * most_columns * 4, "y"));
  MILLRACE_TRY(load->operations_.prepare_product(load->projection_));
  return load;
}

Status ProductLoad::launch(std::uint32_t columns) {
  return operations_.project(projection_, x_, columns, y_, projection_.rows, Accumulate::replace);
}

AttentionLoad::AttentionLoad(Device& device, const MaybeTuning& tuning, const HeadCounts& heads)
    : operations_(device, spec_of(heads), MathMode::fast, {}, tuning) {}

Result<std::unique_ptr<AttentionLoad>> AttentionLoad::create(
    Device& device, std::uint32_t rows, std::uint32_t length, std::uint32_t chunk,
    const MaybeTuning& tuning, std::uint32_t shared, const KvCodecs& codecs,
    const HeadCounts& heads) {
  std::unique_ptr<AttentionLoad> load(new AttentionLoad(device, tuning, heads));
  load->codecs_ = codecs;
  MILLRACE_TRY(load->operations_.prepare_layer());
  MILLRACE_TRY(load->operations_.prepare_attention(codecs));
  const StepPlan plan = plan_of(rows, length, chunk, shared);
  const std::uint32_t pages = *std::ranges::max_element(plan.pages) + 1;
  const StepLimits limits{.tokens = rows * chunk,
                          .outputs = 1,
                          .vocabulary = 1,
                          .context_tokens = length,
                          .page_tokens = kv_page_tokens,
                          .groups = {{pages, 0}},
                          .device_slots = 0,
                          .windows = load->operations_.windows()};
  MILLRACE_TRY(StepLowering().lower(plan, limits, load->step_));
  load->operations_.backend().cut_attention(load->step_);
  MILLRACE_ASSIGN(load->words_, device.allocate(load->step_.words.size() * 4, "step"));
  MILLRACE_TRY(device.write(load->words_, 0, std::as_bytes(std::span(load->step_.words))));
  load->layer_bytes_ = layer_page_bytes(codecs, {heads.kv_heads, heads.head_dim}) * pages;
  const std::uint64_t layers =
      chunk > 1 ? 1 : std::clamp<std::uint64_t>((256ull << 20) / load->layer_bytes_, 2, 30);
  for (std::uint64_t i = 0; i < layers; ++i) {
    MILLRACE_ASSIGN(Buffer kv, device.allocate(load->layer_bytes_, "pages"));
    MILLRACE_TRY(fill(device, kv, load->layer_bytes_));
    load->kv_.push_back(std::move(kv));
  }
  const std::uint64_t tokens = std::uint64_t{rows} * chunk;
  const std::uint64_t turns = std::uint64_t{length} * heads.head_dim;
  MILLRACE_ASSIGN(load->rope_, device.allocate_zeroed(turns * 4, "rope"));
  const std::uint64_t qkv = (heads.heads + 2 * heads.kv_heads) * heads.head_dim * tokens;
  MILLRACE_ASSIGN(load->qkv_, device.allocate(qkv * 4, "qkv"));
  std::vector<float> queries(qkv);
  for (std::size_t i = 0; i < qkv; ++i) queries[i] = static_cast<float>(i * 7919 % 256) / 128 - 1;
  MILLRACE_TRY(device.write(load->qkv_, 0, std::as_bytes(std::span(queries))));
  const std::uint32_t columns = heads.columns();
  const std::uint64_t words = load->operations_.target().code_words(columns, tokens);
  MILLRACE_ASSIGN(load->out_.rows, device.allocate(input_stride(columns) * tokens * 4, "out"));
  MILLRACE_ASSIGN(load->out_.codes, device.allocate(words * 4, "out"));
  return load;
}

Status AttentionLoad::launch() {
  return operations_.attend(qkv_, rope_, {kv_[layer_++ % kv_.size()], codecs_}, out_,
                            {.codes = true}, step_, words_);
}
Status AttentionLoad::rotate_and_store() {
  return operations_.rope_and_store(qkv_, rope_, {kv_[0], codecs_}, step_, words_);
}

Result<double> best_seconds(Device& device, std::uint32_t chain, int windows,
                            const std::function<Status()>& launch) {
  double best = 1e9;
  for (int window = -1; window < windows; ++window) {  // the first is untimed: it specializes
    const double start = seconds();
    for (std::uint32_t i = 0; i < chain; ++i) MILLRACE_TRY(launch());
    MILLRACE_TRY(device.finish());
    if (window >= 0) best = std::min(best, (seconds() - start) / chain);
  }
  return best;
}

}  // namespace millrace::engine
