#include "engine/core/fidelity/comparison.hpp"

#include <bit>
#include <string>

namespace millrace::engine {
namespace {

// These equal the constants of the kernel.
constexpr std::uint32_t result_words = 4;
constexpr std::uint32_t flag_same = 1, flag_bad_truth = 2, flag_bad_ours = 4;

}  // namespace

Result<Comparison> Comparison::create(Device& device, std::uint32_t vocabulary,
                                      std::uint32_t rows) {
  Comparison out;
  out.device_ = &device;
  out.vocabulary_ = vocabulary;
  out.rows_ = rows;
  out.items_ = device.row_items();
  MILLRACE_ASSIGN(const Program program,
                  device.build({.name = "fidelity",
                                .sources = {"fidelity/compare.cl"},
                                .defines = {"ROW_ITEMS=" + std::to_string(out.items_)}}));
  MILLRACE_ASSIGN(out.kernel_, device.kernel(program, "compare_rows"));
  const std::uint64_t words = std::uint64_t{rows} * sizeof(std::uint32_t);
  MILLRACE_ASSIGN(out.targets_, device.allocate(words, "target tokens"));
  MILLRACE_ASSIGN(out.out_, device.allocate(words * result_words, "comparison results"));
  return out;
}

Status Comparison::compare(const LogitRows& truth, const LogitRows& ours,
                           std::span<const TokenId> targets, std::string_view truth_name,
                           std::vector<PositionFidelity>& out) {
  const std::size_t rows = targets.size();
  if (rows == 0) return {};
  for (const TokenId target : targets) {
    if (rows > rows_ || target >= vocabulary_) {
      return fail(
          Code::internal,
          "a comparison of more rows than were allocated, or with a target outside the vocabulary");
    }
  }
  MILLRACE_TRY(device_->write(targets_, 0, std::as_bytes(targets)));
  MILLRACE_TRY(device_->launch(
      kernel_, {.groups = {rows}, .local = {items_}},
      {*truth.logits, truth.stride, *ours.logits, ours.stride, vocabulary_, targets_, out_}));
  std::vector<std::uint32_t> words(rows * result_words);
  MILLRACE_TRY(device_->read(out_, 0, std::as_writable_bytes(std::span(words))));
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint32_t* const row = &words[i * result_words];
    if ((row[3] & (flag_bad_truth | flag_bad_ours)) != 0) {
      const bool is_truth = (row[3] & flag_bad_truth) != 0;
      return fail(Code::invalid_value,
                  (is_truth ? std::string(truth_name) : std::string("the model")) +
                      " gives a logit that is not finite",
                  is_truth ? "write the reference again" : "the model file may be damaged");
    }
    out.push_back({std::bit_cast<float>(row[0]), std::bit_cast<float>(row[1]),
                   std::bit_cast<float>(row[2]), (row[3] & flag_same) != 0});
  }
  return {};
}

}  // namespace millrace::engine
