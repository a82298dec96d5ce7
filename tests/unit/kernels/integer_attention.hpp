#pragma once
// Computes attention of --math fast over packed keys and values in float64, with the integers of
// the definition in kernels/attention/generic.cl.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/core/kv/codebook.hpp"
#include "engine/core/model/kv_program.hpp"
#include "tests/unit/kernels/attention_fixture.hpp"

namespace millrace::engine {

// One side of a sequence's KV head: bytes of integers and parameters, or channels.
struct IntegerSide {
  IntegerSide(const KvCodec& stored_as, std::uint32_t channels)
      : codec(stored_as), head_dim(channels), integers(in_integers(stored_as, MathMode::fast)) {
    if (!integers || codec.kind != CodecKind::rotated) return;
    const LevelBytes levels = level_bytes(codec, head_dim);
    step = levels.step;
    for (const std::uint8_t byte : levels.bytes) table.push_back(byte - 128);
  }
  bool rotated() const { return codec.kind == CodecKind::rotated; }
  std::uint32_t group() const { return rotated() ? head_dim : codec.group; }
  void add(const testing::KvCode& code) {
    std::vector<double> bytes;
    for (const std::uint32_t c : code.codes)
      bytes.push_back(rotated() ? table[c] : static_cast<double>(c));
    vectors.push_back(std::move(bytes));
    parameters.push_back(code.parameters);
  }

  KvCodec codec;
  std::uint32_t head_dim;
  bool integers;
  double step = 1;
  std::vector<double> table;
  std::vector<std::vector<double>> vectors, parameters;
};

struct ShortCodes {
  std::vector<double> numbers;
  double unit = 0;
};

inline ShortCodes short_codes(const std::vector<double>& x) {
  double top = 0;
  for (const double value : x) top = std::max(top, std::fabs(value));
  ShortCodes out{std::vector<double>(x.size()), top / 32767};
  if (top < 1e-37) return out;
  for (std::size_t i = 0; i < x.size(); ++i) out.numbers[i] = std::nearbyint(x[i] / top * 32767);
  return out;
}

// Returns the scores of a query, times scale, with the first `length` keys.
inline std::vector<double> integer_scores(const IntegerSide& keys, std::vector<double> query,
                                          std::size_t length) {
  std::vector<double> out;
  if (!keys.integers) {
    for (std::size_t j = 0; j < length; ++j) {
      out.push_back(std::inner_product(query.begin(), query.end(), keys.vectors[j].begin(), 0.0));
    }
    return out;
  }
  if (keys.rotated()) {
    query = testing::hadamard(testing::flipped(std::move(query), key_sign_seed));
    for (double& value : query) value /= keys.head_dim;
  }
  const ShortCodes q = short_codes(query);
  for (std::size_t j = 0; j < length; ++j) {
    double score = 0;
    for (std::uint32_t g = 0; g < keys.head_dim / keys.group(); ++g) {
      double products = 0, sum = 0;
      for (std::uint32_t d = g * keys.group(); d < (g + 1) * keys.group(); ++d) {
        products += q.numbers[d] * keys.vectors[j][d];
        sum += q.numbers[d];
      }
      const std::vector<double>& p = keys.parameters[j];
      score += keys.rotated() ? products * q.unit * keys.step * p[0]
                              : products * q.unit * p[2 * g] + sum * q.unit * p[2 * g + 1];
    }
    out.push_back(score);
  }
  return out;
}

// Returns the sum of weighted values, still in the values' rotation.
inline std::vector<double> integer_sum(const IntegerSide& values, const std::vector<double>& e) {
  std::vector<double> out(values.head_dim);
  for (std::size_t start = 0; start < e.size(); start += kv_segment_tokens) {
    const std::size_t end = std::min(e.size(), start + kv_segment_tokens);
    for (std::uint32_t g = 0; g < values.head_dim / values.group(); ++g) {
      std::vector<double> weights;
      double begin = 0;
      for (std::size_t j = start; j < end; ++j) {
        const std::vector<double>& p = values.parameters[j];
        weights.push_back(e[j] * p[values.rotated() ? 0 : 2 * g]);
        if (!values.rotated()) begin += e[j] * p[2 * g + 1];
      }
      const ShortCodes w = short_codes(weights);
      for (std::uint32_t d = g * values.group(); d < (g + 1) * values.group(); ++d) {
        double products = 0;
        for (std::size_t j = start; j < end; ++j) {
          products += w.numbers[j - start] * values.vectors[j][d];
        }
        out[d] += products * w.unit * values.step + begin;
      }
    }
  }
  return out;
}

// Computes the outputs of one KV head's query heads by the integer definition.
class IntegerTruth {
 public:
  IntegerTruth(const Problem& p, const Results& got, const PlanRow& row, std::uint32_t g)
      : p_(&p),
        keys_(p.shape.codecs.key, p.shape.head_dim),
        values_(p.shape.codecs.value, p.shape.head_dim) {
    const testing::KvPage page = p.shape.page();
    Stored channels = read_back(p, got, row, g);
    for (std::uint32_t j = 0; j < row.first_position + row.count; ++j) {
      const testing::KvPlace place{p.plan.pages[row.page_offset + j / kv_page_tokens], g,
                                   j % kv_page_tokens};
      if (keys_.integers) keys_.add(page.stored(got.pages, place, true));
      if (keys_.integers && p.shape.codecs.centered) {  // other keys already include the mean
        const std::size_t head = j / kv_segment_tokens * p.shape.kv_heads + g;
        const float* const mean = &p.means[head * p.shape.head_dim];
        means_.emplace_back(mean, mean + p.shape.head_dim);
      }
      if (values_.integers) values_.add(page.stored(got.pages, place, false));
    }
    if (!keys_.integers) keys_.vectors = std::move(channels.keys);
    if (!values_.integers) values_.vectors = std::move(channels.values);
  }

  std::vector<double> of(std::uint32_t token, std::uint32_t head, std::uint32_t position) const {
    const std::uint32_t head_dim = p_->shape.head_dim;
    std::vector<double> query = query_of(*p_, token, head, position);
    for (double& x : query) x /= std::sqrt(static_cast<double>(head_dim));
    std::vector<double> scores = integer_scores(keys_, query, position + 1);
    for (std::size_t j = 0; j < scores.size() && !means_.empty(); ++j) {
      scores[j] += std::inner_product(query.begin(), query.end(), means_[j].begin(), 0.0);
    }
    const Softmax softmax = softmax_of(*p_, head, std::move(scores));
    const std::vector<double>& e = softmax.weights;
    std::vector<double> out(head_dim);
    if (values_.integers) {
      out = integer_sum(values_, e);
      if (values_.rotated()) {
        out = testing::flipped(testing::hadamard(std::move(out)), value_sign_seed);
        for (double& x : out) x /= head_dim;
      }
    } else {
      for (std::size_t j = 0; j < e.size(); ++j) {
        for (std::uint32_t d = 0; d < head_dim; ++d) out[d] += e[j] * values_.vectors[j][d];
      }
    }
    for (double& x : out) x /= softmax.mass;
    return out;
  }

 private:
  const Problem* p_;
  IntegerSide keys_, values_;
  std::vector<std::vector<double>> means_;  // the mean that each key lacks, or empty
};

// Calls each(token, head, want) for every query.
inline void for_integer_queries(const Problem& p, const Results& got, const auto& each) {
  const std::uint32_t group = p.shape.heads / p.shape.kv_heads;
  for (const PlanRow& row : p.plan.rows) {
    for (std::uint32_t g = 0; g < p.shape.kv_heads; ++g) {
      const IntegerTruth truth(p, got, row, g);
      for (std::uint32_t i = 0; i < row.count * group; ++i) {
        const std::uint32_t token = row.token_offset + i / group, head = g * group + i % group;
        each(token, head, truth.of(token, head, row.first_position + i / group));
      }
    }
  }
}

inline void expect_close_in_integers(const Problem& p, const Results& got) {
  for_integer_queries(p, got, [&](auto token, auto head, const std::vector<double>& want) {
    for (std::uint32_t d = 0; d < p.shape.head_dim; ++d) {
      const std::size_t at = std::size_t{token} * p.out_stride() + head * p.shape.head_dim + d;
      // If fp32 rounds a weight to the neighbouring integer, it changes by 3e-5 of the largest.
      ASSERT_NEAR(got.out[at], want[d], 3e-4)
          << "token " << token << ", head " << head << ", channel " << d;
    }
  });
}

// Returns the largest relative error of a head's output.
inline double worst_error_in_integers(const Problem& p, const Results& got) {
  double worst = 0;
  for_integer_queries(p, got, [&](auto token, auto head, const std::vector<double>& want) {
    worst = std::max(worst, relative_error(p, got, token, head, want));
  });
  return worst;
}

}  // namespace millrace::engine
