#pragma once
// Runs a step's rotation, KV write and attention on a device, and computes the same in float64, for
// the tests of each way to store keys and values.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "engine/core/gguf/half.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/backend/cpu/cpu_backend.hpp"
#include "engine/core/model/backend/nvidia/byte_rows.hpp"
#include "engine/core/model/operations.hpp"
#include "tests/support/device.hpp"
#include "tests/support/kv_page.hpp"
#include "tests/support/one_layer.hpp"

namespace millrace::engine {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

struct Shape {
  std::uint32_t head_dim, heads, kv_heads;
  std::uint32_t rope_dim = head_dim;
  RopeKind rope = RopeKind::pairs;
  KvCodecs codecs{};
  AttentionShape attention{};
  std::uint32_t latent = 0;  // as in HeadSizes
  std::uint32_t value_dim() const { return latent > 0 ? latent : head_dim; }
  testing::KvPage page() const { return {codecs, kv_heads, head_dim}; }
};

// The last `tokens` positions of a sequence of `length`.
struct Sequence {
  std::uint32_t length, tokens;
};

// A step over several sequences, ready to launch.
struct Problem {
  Shape shape;
  std::vector<Sequence> sequences;
  std::vector<float> qkv, rope;     // queries and keys are not rotated yet
  std::vector<float> means;         // for centered keys, [segments][kv_heads][head_dim]
  std::vector<float> sinks;         // [heads], or empty
  std::vector<std::uint8_t> pages;  // keys and values before the step; unwritten halves are NaN
  StepPlan plan;
  std::uint32_t tokens() const { return static_cast<std::uint32_t>(plan.tokens.size()); }
  std::uint32_t qkv_stride() const {
    const std::uint32_t sides = shape.latent > 0 ? 1 : 2;
    return (shape.heads + sides * shape.kv_heads) * shape.head_dim;
  }
  std::uint32_t columns() const { return shape.heads * shape.value_dim(); }
  std::uint32_t out_stride() const { return input_stride(columns()); }
};

inline Problem random_problem(const Shape& shape, const std::vector<Sequence>& sequences,
                              std::uint64_t seed) {
  Random random(seed);
  Problem out{.shape = shape,
              .sequences = sequences,
              .qkv = {},
              .rope = {},
              .means = {},
              .sinks = {},
              .pages = {},
              .plan = {}};
  std::uint32_t longest = 0;
  for (const Sequence& s : sequences) {
    const std::uint32_t pages = (s.length + kv_page_tokens - 1) / kv_page_tokens;
    PlanRow row;
    row.first_position = s.length - s.tokens;
    row.count = s.tokens;
    row.token_offset = out.tokens();
    row.page_offset = static_cast<std::uint32_t>(out.plan.pages.size());
    row.page_count = pages;
    out.plan.rows.push_back(row);
    out.plan.tokens.resize(out.plan.tokens.size() + s.tokens);
    out.plan.pages.resize(out.plan.pages.size() + pages);
    longest = std::max(longest, s.length);
  }
  auto& ids = out.plan.pages;
  std::iota(ids.begin(), ids.end(), 1u);  // page 0 belongs to no sequence
  for (auto i = static_cast<std::uint32_t>(ids.size()); i > 1; --i) {
    std::swap(ids[i - 1], ids[random.below(i)]);
  }
  out.qkv = random.floats(std::size_t{out.qkv_stride()} * out.tokens(), -2.0f, 2.0f);
  for (std::uint32_t i = 0; i < longest * shape.rope_dim / 2; ++i) {
    const float angle = random.uniform(-3, 3);
    out.rope.insert(out.rope.end(), {std::cos(angle), std::sin(angle)});
  }
  if (shape.codecs.centered) {
    const std::uint32_t segments = (longest + kv_segment_tokens - 1) / kv_segment_tokens;
    out.means = random.floats(std::size_t{segments} * shape.kv_heads * shape.head_dim, -3.0f, 3.0f);
  }
  if (shape.attention.sinks) out.sinks = random.floats(shape.heads, -2.0f, 5.0f);
  const testing::KvPage page = shape.page();
  out.pages = page.unwritten(ids.size() + 1, random);
  for (const PlanRow& row : out.plan.rows) {
    for (std::uint32_t j = 0; j < row.first_position; ++j) {
      const std::uint32_t id = ids[row.page_offset + j / kv_page_tokens];
      for (std::uint32_t g = 0; g < shape.kv_heads; ++g) {
        page.write_random(out.pages, {id, g, j % kv_page_tokens}, random);
      }
    }
  }
  return out;
}

struct Results {
  std::vector<float> out;            // [tokens][out_stride]
  std::vector<std::uint32_t> codes;  // [tokens][code_stride]
  std::vector<std::uint32_t> bytes;  // with --math int8
  std::vector<std::uint8_t> pages;
  bool operator==(const Results& other) const {  // distinguishes zeros of both signs
    return pages == other.pages && codes == other.codes && bytes == other.bytes &&
           std::ranges::equal(out, other.out, {}, std::bit_cast<std::uint32_t, float>,
                              std::bit_cast<std::uint32_t, float>);
  }
};

class Runner {
 public:
  // `compute_units` decides how the nvidia family cuts tiles; with 0 the device does.
  Runner(const std::string& family, const Shape& shape, KernelVariant variant = {},
         MathMode math = MathMode::fast, std::uint32_t compute_units = 0)
      : device_(open_device({.variant = family, .compute_units = compute_units})),
        operations_(*device_, spec_of(shape), math, variant),
        math_(math) {
    must(operations_.prepare_layer());
    must(operations_.prepare_attention(shape.codecs));
  }

  // `workers` decides how the cpu family cuts tiles; with 0 the device does. An output form that is
  // not requested is zeros; codes exist only for whole blocks and where products round. The forms
  // that attention itself has made are left in made().
  Results run(const Problem& problem, std::uint32_t workers = 0,
              Forms forms = {.rows = true, .codes = true}) {
    forms.codes = forms.codes && rounds(math_) && problem.columns() % block_columns == 0;
    const StepLimits limits{.tokens = problem.tokens(),
                            .outputs = 1,
                            .vocabulary = 1,
                            .context_tokens = 1u << 20,
                            .page_tokens = kv_page_tokens,
                            .groups = {{1u << 20, 0}},
                            .device_slots = 0,
                            .windows = operations_.windows()};
    StepTable step;
    must(StepLowering().lower(problem.plan, limits, step));
    cut_attention(step, workers);
    cut_ = step.attention[0].partials != 0;
    const Buffer words = upload(*device_, step.words), rope = upload(*device_, problem.rope);
    const Buffer qkv = upload(*device_, problem.qkv), kv = upload(*device_, problem.pages);
    const Buffer means = problem.means.empty() ? Buffer() : upload(*device_, problem.means);
    const Buffer sinks = problem.sinks.empty() ? Buffer() : upload(*device_, problem.sinks);
    const std::size_t size = std::size_t{problem.tokens()} * problem.out_stride();
    const std::size_t code_size =
        operations_.target().code_words(problem.columns(), problem.tokens());
    const std::size_t byte_size = math_ == MathMode::int8 ? operations_.target().byte_words(
                                                                problem.columns(), problem.tokens())
                                                          : 0;
    const Activation out{
        upload(*device_, std::vector<float>(size)),
        upload(*device_, std::vector<std::uint32_t>(code_size)),
        byte_size > 0 ? upload(*device_, std::vector<std::uint32_t>(byte_size)) : Buffer()};
    const std::uint64_t launched = device_->launches();
    const std::uint64_t before = device_->allocated_bytes();
    const KvPages pages{kv, problem.shape.codecs, means, sinks};
    must(operations_.rope_and_store(qkv, rope, pages, step, words));
    Forms asked = forms;
    asked.bytes = forms.bytes && !bytes_apart_;
    made_ = must(operations_.backend().attend({qkv, rope, pages, step, words}, out, asked));
    launches_ = device_->launches() - launched;
    must(complete(out, forms, problem));
    allocated_ = device_->allocated_bytes() - before;
    return {download<float>(*device_, out.rows, size),
            download<std::uint32_t>(*device_, out.codes, code_size),
            byte_size > 0 ? download<std::uint32_t>(*device_, out.bytes, byte_size)
                          : std::vector<std::uint32_t>(),
            download<std::uint8_t>(*device_, kv, problem.pages.size())};
  }
  // Has attention asked for other forms than bytes, which a launch of their own makes.
  void make_bytes_apart() { bytes_apart_ = true; }
  // Device memory that the last run allocated for its kernels.
  std::uint64_t allocated() const { return allocated_; }
  // Of the last run's rotation, store and attention.
  std::uint64_t launches() const { return launches_; }
  const Forms& made() const { return made_; }
  bool cut() const { return cut_; }  // whether tiles of the last run were cut

 private:
  void cut_attention(StepTable& step, std::uint32_t workers) {
    const auto* const cpu = dynamic_cast<const CpuBackend*>(&operations_.backend());
    if (cpu == nullptr || workers == 0) return operations_.backend().cut_attention(step);
    std::vector<AttentionLimits> limits = cpu->attention_limits();
    limits[0].workers = workers;
    AttentionPlanner().append(limits, step);
  }
  // Makes the forms that attention has left out, bytes of a kernel of their own.
  Status complete(const Activation& out, const Forms& forms, const Problem& problem) {
    Forms wanted = forms;
    if (forms.bytes && !made_.bytes) {
      ByteRows rows(operations_.target());
      MILLRACE_TRY(rows.prepare(problem.columns()));
      const Buffer& from = made_.codes ? out.codes : out.rows;
      MILLRACE_TRY(rows.run({from, made_.codes, out.bytes, problem.columns(), problem.tokens()}));
    }
    wanted.bytes = false;
    return operations_.complete(out, made_, wanted, problem.columns(), problem.tokens());
  }
  static ModelSpec spec_of(const Shape& shape) {
    return one_layer(
        {shape.heads, shape.kv_heads, shape.head_dim, shape.rope_dim, shape.rope, shape.latent},
        shape.attention);
  }
  std::unique_ptr<Device> device_;
  Operations operations_;
  MathMode math_;
  bool cut_ = false, bytes_apart_ = false;
  std::uint64_t allocated_ = 0, launches_ = 0;
  Forms made_;
};

// Keys and values of a sequence's KV head as channels, [position][channel]; the mean is added back
// to centered keys.
struct Stored {
  std::vector<std::vector<double>> keys, values;
};

inline Stored read_back(const Problem& p, const Results& got, const PlanRow& row, std::uint32_t g) {
  const testing::KvPage page = p.shape.page();
  Stored out;
  for (std::uint32_t j = 0; j < row.first_position + row.count; ++j) {
    const testing::KvPlace place{p.plan.pages[row.page_offset + j / kv_page_tokens], g,
                                 j % kv_page_tokens};
    out.keys.push_back(page.key(got.pages, place));
    for (std::uint32_t d = 0; d < p.shape.head_dim && p.shape.codecs.centered; ++d) {
      const std::size_t head = j / kv_segment_tokens * p.shape.kv_heads + g;
      out.keys.back()[d] += static_cast<double>(p.means[head * p.shape.head_dim + d]);
    }
    if (p.shape.latent == 0) {
      out.values.push_back(page.value(got.pages, place));
    } else {
      out.values.emplace_back(out.keys.back().end() - p.shape.latent, out.keys.back().end());
    }
  }
  return out;
}

// Returns a token's rotated query.
inline std::vector<double> query_of(const Problem& p, std::uint32_t token, std::uint32_t head,
                                    std::uint32_t position) {
  const Shape& s = p.shape;
  const float* const x = &p.qkv[std::size_t{token} * p.qkv_stride() + head * s.head_dim];
  std::vector<double> q(x, x + s.head_dim);
  for (std::uint32_t i = 0; i < s.rope_dim / 2; ++i) {
    const bool halves = s.rope == RopeKind::halves;
    const std::uint32_t a = halves ? i : 2 * i, b = halves ? i + s.rope_dim / 2 : 2 * i + 1;
    const float* const turn = &p.rope[(std::size_t{position} * s.rope_dim / 2 + i) * 2];
    const double cosine = turn[0], sine = turn[1];
    q[a] = x[a] * cosine - x[b] * sine;
    q[b] = x[a] * sine + x[b] * cosine;
  }
  return q;
}

// A query's softmax over its scores with the keys up to its position, before division by the mass.
struct Softmax {
  std::vector<double> weights;
  double mass = 0;
};

inline Softmax softmax_of(const Problem& p, std::uint32_t head, std::vector<double> scores) {
  const AttentionShape& shape = p.shape.attention;
  const double cap = shape.soft_cap;
  const std::size_t seen =
      shape.window == 0 ? scores.size() : std::min<std::size_t>(scores.size(), shape.window);
  std::fill(scores.begin(), scores.end() - static_cast<std::ptrdiff_t>(seen), -INFINITY);
  double top = shape.sinks ? static_cast<double>(p.sinks[head]) : -INFINITY;
  for (double& score : scores) {
    if (cap > 0 && score > -INFINITY) score = cap * std::tanh(score / cap);
    top = std::max(top, score);
  }
  Softmax out;
  if (shape.sinks) out.mass = std::exp(static_cast<double>(p.sinks[head]) - top);
  for (const double score : scores) {
    out.weights.push_back(std::exp(score - top));
    out.mass += out.weights.back();
  }
  return out;
}

// Returns the relative error of a head's output.
inline double relative_error(const Problem& p, const Results& got, std::uint32_t token,
                             std::uint32_t head, const std::vector<double>& want) {
  const float* const at =
      &got.out[std::size_t{token} * p.out_stride() + head * p.shape.value_dim()];
  double off = 0, size = 0;
  for (std::size_t d = 0; d < want.size(); ++d) {
    off += (at[d] - want[d]) * (at[d] - want[d]);
    size += want[d] * want[d];
  }
  return std::sqrt(off / size);
}

// Computes the output of one query in float64 from the keys and values that the run has stored.
inline std::vector<double> truth_of(const Problem& p, const Stored& stored, std::uint32_t token,
                                    std::uint32_t head, std::uint32_t position) {
  const std::vector<double> q = query_of(p, token, head, position);
  std::vector<double> scores;
  for (std::uint32_t j = 0; j <= position; ++j) {
    const double dot = std::inner_product(q.begin(), q.end(), stored.keys[j].begin(), 0.0);
    scores.push_back(dot / std::sqrt(static_cast<double>(p.shape.head_dim)));
  }
  const Softmax softmax = softmax_of(p, head, std::move(scores));
  std::vector<double> out(p.shape.value_dim());
  for (std::uint32_t j = 0; j <= position; ++j) {
    const double share = softmax.weights[j] / softmax.mass;
    for (std::size_t d = 0; d < out.size(); ++d) out[d] += share * stored.values[j][d];
  }
  return out;
}

inline void expect_close(const Problem& p, const Results& got, const Stored& stored,
                         const PlanRow& row, std::uint32_t offset, std::uint32_t head) {
  const Shape& s = p.shape;
  const std::uint32_t position = row.first_position + offset, token = row.token_offset + offset;
  const std::vector<double> want = truth_of(p, stored, token, head, position);
  for (std::uint32_t d = 0; d < s.value_dim(); ++d) {
    const std::size_t at = std::size_t{token} * p.out_stride() + head * s.value_dim() + d;
    ASSERT_NEAR(got.out[at], want[d], 3e-5)
        << "token " << token << ", head " << head << ", channel " << d;
  }
}

// Calls each(stored, row, offset, head) for every query.
inline void for_queries(const Problem& p, const Results& got, const auto& each) {
  const std::uint32_t group = p.shape.heads / p.shape.kv_heads;
  for (const PlanRow& row : p.plan.rows) {
    for (std::uint32_t g = 0; g < p.shape.kv_heads; ++g) {
      const Stored stored = read_back(p, got, row, g);
      for (std::uint32_t i = 0; i < row.count * group; ++i) {
        each(stored, row, i / group, g * group + i % group);
      }
    }
  }
}

inline void expect_close(const Problem& p, const Results& got) {
  for_queries(p, got, [&](const Stored& stored, const PlanRow& row, auto offset, auto head) {
    expect_close(p, got, stored, row, offset, head);
  });
}

// Returns the largest relative error of a head's output.
inline double worst_error(const Problem& p, const Results& got) {
  double worst = 0;
  for_queries(p, got, [&](const Stored& stored, const PlanRow& row, auto offset, auto head) {
    const std::uint32_t token = row.token_offset + offset;
    const auto want = truth_of(p, stored, token, head, row.first_position + offset);
    worst = std::max(worst, relative_error(p, got, token, head, want));
  });
  return worst;
}

}  // namespace millrace::engine
