#include "engine/core/model/head_products.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/core/model/program_text.hpp"
#include "kernels/experts/table.h"

namespace millrace::engine {

HeadProducts::HeadProducts(Backend& backend, std::uint32_t heads, std::uint32_t tokens)
    : backend_(&backend),
      device_(backend.target().device),
      heads_(heads),
      most_tokens_(tokens),
      products_(backend.experts({.count = heads, .used = heads}, Gate::silu)) {}

Status HeadProducts::prepare_kernels() {
  if (copy_) return {};
  std::vector<std::string> defines{define("ROW_ITEMS", device_->row_items())};
  MILLRACE_ASSIGN(
      const Program heads,
      device_->build({.name = "heads", .sources = {"latent/heads.cl"}, .defines = defines}));
  MILLRACE_ASSIGN(copy_, device_->kernel(heads, "copy_heads"));
  MILLRACE_ASSIGN(list_, device_->kernel(heads, "list_heads"));
  const std::uint64_t slots = std::uint64_t{heads_} * most_tokens_;
  MILLRACE_ASSIGN(
      runs_, device_->allocate_zeroed(RUNS_WORDS_OF(std::uint64_t{heads_}) * 4, "the heads' rows"));
  MILLRACE_ASSIGN(slots_, device_->allocate_zeroed(slots * 2 * 4, "the heads' slots"));
  if (!rounds(backend_->target().math)) return {};
  std::ranges::copy(backend_->target().code_defines(), std::back_inserter(defines));
  MILLRACE_ASSIGN(const Program quantizing, device_->build({.name = "quantize",
                                                            .sources = {"quantize/quantize.cl"},
                                                            .defines = std::move(defines)}));
  MILLRACE_ASSIGN(quantize_, device_->kernel(quantizing, "quantize_rows"));
  return {};
}

Status HeadProducts::prepare(const ExpertMatrix& matrix) {
  MILLRACE_TRY(prepare_kernels());
  MILLRACE_TRY(products_->prepare(matrix));
  const std::uint64_t slots = std::uint64_t{heads_} * most_tokens_;
  const std::uint64_t rows = slots + input_slack_rows;
  Room& room = rooms_[matrix.columns];
  if (!room.in.rows) {
    MILLRACE_ASSIGN(room.in.rows,
                    device_->allocate_zeroed(rows * input_stride(matrix.columns) * sizeof(float),
                                             "the input of the heads' products"));
  }
  if (backend_->inputs_of(matrix).codes && !room.in.codes) {
    const std::uint64_t words = backend_->target().code_words(matrix.columns, slots);
    MILLRACE_ASSIGN(room.in.codes, device_->allocate_zeroed(words * 4, "the heads' codes"));
  }
  const std::uint64_t out_bytes = slots * matrix.rows * sizeof(float);
  if (room.out.size_bytes() < out_bytes) {
    MILLRACE_ASSIGN(room.out,
                    device_->allocate_zeroed(out_bytes, "the output of the heads' products"));
  }
  return {};
}

// Steps of equal size share the lists.
Status HeadProducts::list(std::uint32_t tokens) {
  if (listed_ == tokens) return {};
  MILLRACE_TRY(device_->launch(list_, {.groups = {heads_}, .local = {device_->row_items()}},
                               {runs_, slots_, tokens}));
  listed_ = tokens;
  return {};
}

Status HeadProducts::run(const ExpertMatrix& matrix, const HeadRows& in, const HeadRows& out,
                         std::uint32_t tokens) {
  MILLRACE_TRY(list(tokens));
  Room& room = rooms_.at(matrix.columns);
  const std::uint32_t stride = input_stride(matrix.columns), slots = heads_ * tokens;
  MILLRACE_TRY(copy(in, {room.in.rows, 0, stride, tokens * stride}, matrix.columns, tokens));
  if (backend_->inputs_of(matrix).codes) {
    MILLRACE_TRY(device_->launch(quantize_, {.groups = {slots}, .local = {device_->row_items()}},
                                 {room.in.rows, room.in.codes, matrix.columns / block_columns,
                                  stride, backend_->target().code_stride(matrix.columns)}));
  }
  const ExpertsCall call{.x = room.in,
                         .by_token = false,
                         .sorted = room.in,
                         .runs = runs_,
                         .slots = slots_,
                         .slot_count = slots};
  MILLRACE_TRY(products_->run(matrix, call, room.out));
  return copy({room.out, 0, matrix.rows, tokens * matrix.rows}, out, matrix.rows, tokens);
}

Status HeadProducts::copy(const HeadRows& from, const HeadRows& to, std::uint32_t channels,
                          std::uint32_t tokens) {
  return device_->launch(copy_, {.groups = {heads_, tokens}, .local = {device_->row_items()}},
                         {from.buffer, to.buffer, from.first, from.token_stride, from.head_stride,
                          to.first, to.token_stride, to.head_stride, channels / 16});
}

}  // namespace millrace::engine
