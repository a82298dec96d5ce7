#pragma once
// A model with one KV policy and several rows of the same context, each in its own pages. A decode
// step reads as much as with that many sequences of that length, but only one of them is computed.
//
//   MILLRACE_ASSIGN(auto rows, Rows::load(device, file, "k5v3", MathMode::fast, shape));
//   for (at = 0; at < shape.context; at += n) MILLRACE_TRY(rows->prompt(at, n));
//   MILLRACE_TRY(rows->copy());
//   MILLRACE_ASSIGN(double seconds, rows->decode({.rows = 16, .context = 7000, .steps = 8}));
//
// Steps run as in the engine: the next step is enqueued before the tokens of the last one are read,
// and the device draws greedily. Errors: those of Model and Sampler; kv_exceeded if the pages do
// not fit; internal if rows of equal contexts draw different tokens. Thread safety: the device's
// owner thread.
#include <memory>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/model/model.hpp"
#include "engine/core/sampler/sampler.hpp"

namespace millrace::engine {

struct RowsShape {
  std::uint32_t rows = 16, context = 7000;  // tokens of each row's prompt
  std::uint32_t steps = 8;                  // the most timed steps of a decode
  std::uint32_t chunk = 256;                // the most prompt tokens in a step
};

struct DecodeLoad {
  std::uint32_t rows = 0;
  std::uint32_t context = 0;  // RowsShape::context, or whole pages of its beginning
  std::uint32_t steps = 0;
  friend bool operator==(const DecodeLoad&, const DecodeLoad&) = default;
};

class Rows {
 public:
  static Result<std::unique_ptr<Rows>> load(Device& device, const GgufFile& file,
                                            const std::string& policy, MathMode math,
                                            const RowsShape& shape);

  const ModelInfo& info() const { return model_->info(); }
  // Computes `count` tokens of the first row from `at` on, and waits for them. They may be computed
  // again.
  Status prompt(std::uint32_t at, std::uint32_t count);
  // Copies the first row's pages into those of the others.
  Status copy();
  // Returns the seconds of `steps` steps, after one that is not timed. Starts from the prompt each
  // time.
  Result<double> decode(const DecodeLoad& load);
  // The tokens that the first row drew in the last decode.
  const Tokens& drawn() const { return drawn_; }

 private:
  Rows(Device& device, const RowsShape& shape);
  PageId page(std::uint32_t row, std::uint32_t index) const { return row * pages_each_ + index; }
  TokenId token(std::uint32_t position) const;
  Status touch();
  Status copy_page(PageId from, PageId to);
  void plan_step(const DecodeLoad& load, std::uint32_t step);
  Status start(const DecodeLoad& load, std::uint32_t step);
  Status finish(const DecodeLoad& load, std::uint32_t step);

  Device* device_;
  RowsShape shape_;
  std::uint32_t context_pages_ = 0, pages_each_ = 0;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Sampler> sampler_;
  StepPlan plan_;
  std::vector<SampleTask> tasks_;
  std::uint64_t sequence_ = 0;
  SampleBatch batches_[2];
  Tokens drawn_;
};

}  // namespace millrace::engine
