// Recurrences beside their definition in float64, in every family of devices: whole, in pieces and
// token by token, alone and beside other sequences, all with the same bits.
#include "engine/core/model/recurrence.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/device.hpp"

namespace millrace::testing {
namespace {

using namespace millrace::engine;

using Rows = std::vector<std::vector<double>>;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double silu(double x) {
  return x * sigmoid(x);
}

struct Weights {
  std::vector<float> taps, conv_bias, a, dt_bias, skip, norm;
};

struct Case {
  std::string name;
  RecurrenceSpec spec;
  std::vector<std::uint32_t> first;  // of the parts of a row
  std::uint32_t stride = 0;
};

constexpr float epsilon = 1e-3f;

std::uint32_t padded(std::uint32_t count) {
  return round_up(count, 16);
}

Case delta_net(std::string name, std::uint32_t key_heads, std::uint32_t heads, std::uint32_t dim,
               bool in_turn, bool by_key_head) {
  RecurrenceSpec spec{.kind = RecurrenceKind::delta_net,
                      .taps = 4,
                      .channels = (2 * key_heads + heads) * dim,
                      .heads = heads,
                      .key_heads = key_heads,
                      .key_dim = dim,
                      .value_dim = dim,
                      .keys_in_turn = in_turn,
                      .gates_by_key_head = by_key_head};
  Case out{std::move(name), spec, {0, spec.channels, spec.channels + spec.values()}, 0};
  out.stride = out.first[2] + padded(by_key_head ? 2 * heads : heads);
  if (!by_key_head) {
    out.first.push_back(out.stride);
    out.stride += padded(heads);
  }
  return out;
}

Case mamba2(std::string name, std::uint32_t groups, std::uint32_t heads, std::uint32_t state,
            std::uint32_t value_dim, bool normed) {
  RecurrenceSpec spec{.kind = RecurrenceKind::mamba2,
                      .taps = 4,
                      .channels = heads * value_dim + 2 * groups * state,
                      .heads = heads,
                      .key_heads = groups,
                      .key_dim = state,
                      .value_dim = value_dim,
                      .normed = normed};
  return {std::move(name), spec, {0}, padded(spec.values() + spec.channels + heads)};
}

std::vector<Case> cases() {
  const RecurrenceSpec convolution{.kind = RecurrenceKind::convolution, .taps = 3, .channels = 304};
  return {delta_net("heads_in_turn", 2, 4, 32, true, false),
          delta_net("heads_side_by_side", 2, 6, 16, false, true),
          delta_net("real_size", 1, 2, 128, true, false),
          mamba2("two_groups", 2, 4, 32, 16, true),
          mamba2("real_mamba", 1, 3, 128, 64, true),
          mamba2("without_norm", 2, 2, 16, 48, false),
          {"convolution", convolution, {0}, 3 * 304}};
}

Weights random_weights(const RecurrenceSpec& spec, Random& random) {
  Weights out;
  out.taps = random.floats(std::size_t{spec.taps} * spec.channels, -0.7f, 0.7f);
  if (spec.kind == RecurrenceKind::mamba2)
    out.conv_bias = random.floats(spec.channels, -0.3f, 0.3f);
  if (!spec.has_heads()) return out;
  const auto heads = [&](float low, float high) {
    auto values = random.floats(spec.heads, low, high);
    values.resize(padded(spec.heads), 0.0f);
    return values;
  };
  out.a = heads(-1.0f, -0.02f);
  out.dt_bias = heads(-2.0f, 1.0f);
  out.skip = heads(-1.0f, 1.0f);
  const bool delta = spec.kind == RecurrenceKind::delta_net;
  if (spec.normed) out.norm = random.floats(delta ? spec.value_dim : spec.values(), 0.5f, 1.5f);
  return out;
}

// The definition, token by token (families/recurrence_spec.hpp).
class Truth {
 public:
  Truth(const Case& of, const Weights& weights) : case_(of), spec_(of.spec), w_(weights) {}

  Rows operator()(const std::vector<std::vector<float>>& mixed) {
    inputs_.assign(spec_.taps - 1, std::vector<double>(spec_.channels, 0.0));
    states_.assign(spec_.heads, std::vector<double>(spec_.key_dim * spec_.value_dim, 0.0));
    Rows out;
    for (const auto& row : mixed) out.push_back(token({row.begin(), row.end()}));
    return out;
  }

 private:
  std::vector<double> convolved(std::vector<double> now) {
    inputs_.push_back(std::move(now));
    std::vector<double> out(spec_.channels);
    for (std::uint32_t c = 0; c < spec_.channels; ++c) {
      out[c] = w_.conv_bias.empty() ? 0 : double{w_.conv_bias[c]};
      for (std::uint32_t j = 0; j < spec_.taps; ++j) {
        out[c] += double{w_.taps[j * spec_.channels + c]} * inputs_[j][c];
      }
    }
    inputs_.erase(inputs_.begin());
    return out;
  }

  std::vector<double> token(const std::vector<double>& row) {
    if (spec_.kind == RecurrenceKind::convolution) {
      const std::uint32_t n = spec_.channels;
      std::vector<double> s(n);
      for (std::uint32_t c = 0; c < n; ++c) s[c] = row[c] * row[2 * n + c];
      std::vector<double> y = convolved(std::move(s));
      for (std::uint32_t c = 0; c < n; ++c) y[c] *= row[n + c];
      return y;
    }
    const bool delta = spec_.kind == RecurrenceKind::delta_net;
    const std::uint32_t at = delta ? 0 : spec_.values();
    std::vector<double> x = convolved({row.begin() + at, row.begin() + at + spec_.channels});
    for (double& v : x) v = silu(v);
    return finished(row, delta ? delta_net(row, x) : mamba(row, x));
  }

  // Moves a head's state on by one token and returns its output.
  std::vector<double> write_and_read(std::uint32_t h, const double* k, const double* q,
                                     double decay, const std::vector<double>& u) {
    std::vector<double> y(spec_.value_dim, 0.0);
    for (std::uint32_t i = 0; i < spec_.key_dim; ++i) {
      for (std::uint32_t j = 0; j < spec_.value_dim; ++j) {
        double& m = states_[h][i * spec_.value_dim + j];
        m = decay * m + k[i] * u[j];
        y[j] += q[i] * m;
      }
    }
    return y;
  }

  std::uint32_t key_head(std::uint32_t h) const {
    return spec_.keys_in_turn ? h % spec_.key_heads : h / (spec_.heads / spec_.key_heads);
  }

  std::vector<double> delta_net(const std::vector<double>& row, std::vector<double>& x) {
    const std::uint32_t dim = spec_.key_dim;
    for (std::uint32_t v = 0; v < 2 * spec_.key_heads; ++v) {
      double squares = 0;
      for (std::uint32_t i = 0; i < dim; ++i) squares += x[v * dim + i] * x[v * dim + i];
      const double by = std::sqrt(squares + 1e-6) * (v < spec_.key_heads ? std::sqrt(dim) : 1);
      for (std::uint32_t i = 0; i < dim; ++i) x[v * dim + i] /= by;
    }
    std::vector<double> out;
    for (std::uint32_t h = 0; h < spec_.heads; ++h) {
      const std::uint32_t g = key_head(h), r = spec_.heads / spec_.key_heads;
      const std::uint32_t paired = case_.first[2] + h / r * 2 * r + h % r;
      const bool by_key_head = spec_.gates_by_key_head;
      const double b = row[by_key_head ? paired : case_.first[2] + h];
      const double a = row[by_key_head ? paired + r : case_.first[3] + h];
      const double decay =
          std::exp(double{w_.a[h]} * std::log1p(std::exp(a + double{w_.dt_bias[h]})));
      const double* const q = &x[g * dim];
      const double* const k = &x[spec_.keys() + g * dim];
      const double* const v = &x[2 * spec_.keys() + h * spec_.value_dim];
      std::vector<double> u(spec_.value_dim);
      for (std::uint32_t j = 0; j < spec_.value_dim; ++j) {
        double recalled = 0;
        for (std::uint32_t i = 0; i < dim; ++i) {
          recalled += k[i] * states_[h][i * spec_.value_dim + j];
        }
        u[j] = sigmoid(b) * (v[j] - decay * recalled);
      }
      const auto y = write_and_read(h, k, q, decay, u);
      out.insert(out.end(), y.begin(), y.end());
    }
    return out;
  }

  std::vector<double> mamba(const std::vector<double>& row, const std::vector<double>& x) {
    std::vector<double> out;
    for (std::uint32_t h = 0; h < spec_.heads; ++h) {
      const double dt =
          std::log1p(std::exp(row[spec_.values() + spec_.channels + h] + double{w_.dt_bias[h]}));
      const double* const v = &x[h * spec_.value_dim];
      const double* const k = &x[spec_.values() + key_head(h) * spec_.key_dim];
      std::vector<double> u(v, v + spec_.value_dim);
      for (double& each : u) each *= dt;
      auto y = write_and_read(h, k, k + spec_.keys(), std::exp(double{w_.a[h]} * dt), u);
      for (std::uint32_t j = 0; j < spec_.value_dim; ++j) y[j] += double{w_.skip[h]} * v[j];
      out.insert(out.end(), y.begin(), y.end());
    }
    return out;
  }

  std::vector<double> finished(const std::vector<double>& row, std::vector<double> y) const {
    const bool delta = spec_.kind == RecurrenceKind::delta_net;
    const double* const z = &row[delta ? case_.first[1] : 0];
    const std::uint32_t width = delta ? spec_.value_dim : spec_.values() / spec_.key_heads;
    for (std::uint32_t begin = 0; begin < spec_.values(); begin += width) {
      double squares = 0;
      for (std::uint32_t c = begin; c < begin + width; ++c) {
        if (!delta) y[c] *= silu(z[c]);
        squares += y[c] * y[c];
      }
      const double by = std::sqrt(squares / width + double{epsilon});
      for (std::uint32_t c = begin; c < begin + width; ++c) {
        if (!w_.norm.empty()) y[c] = y[c] / by * double{w_.norm[delta ? c - begin : c]};
        if (delta) y[c] *= silu(z[c]);
      }
    }
    return y;
  }

  const Case& case_;
  const RecurrenceSpec& spec_;
  const Weights& w_;
  Rows inputs_, states_;
};

// Some tokens of a sequence in a step, with the places of states that they read and write.
struct Part {
  std::uint32_t sequence = 0, first = 0, count = 0;
  std::uint32_t from = STEP_NO_SLOT, to = 0;
};

class Runner {
 public:
  Runner(Device& device, const Case& of, const Weights& weights,
         const std::vector<std::vector<std::vector<float>>>& sequences)
      : device_(device), case_(of), sequences_(sequences) {
    const auto put = [&](const std::vector<float>& values) {
      return values.empty() ? Buffer() : upload(device, values);
    };
    weights_.taps = put(weights.taps);
    weights_.conv_bias = put(weights.conv_bias);
    weights_.a = put(weights.a);
    weights_.dt_bias = put(weights.dt_bias);
    weights_.skip = put(weights.skip);
    weights_.norm = put(weights.norm);
    ModelSpec model;
    model.norm_epsilon = epsilon;
    Projection in;
    in.first = of.first;
    in.rows = of.stride;
    recurrence_.emplace(Target(device, model, MathMode::exact), of.spec, in, 64);
    must(recurrence_->prepare());
    // States begin with anything: the first row of a sequence reads none.
    states_ = upload(device, std::vector<float>(places * of.spec.state_floats(), NAN));
  }

  // Returns the outputs of all tokens, part by part.
  std::vector<std::vector<float>> step(const std::vector<Part>& parts) {
    StepTable table;
    std::vector<float> mixed;
    std::vector<kernels::StateRow> rows;
    for (const Part& part : parts) {
      rows.push_back({table.tokens, part.count, part.from, part.to});
      for (std::uint32_t i = 0; i < part.count; ++i, ++table.tokens) {
        const auto& row = sequences_[part.sequence][part.first + i];
        mixed.insert(mixed.end(), row.begin(), row.end());
      }
    }
    table.state_rows = table.append(rows);
    const std::uint32_t outputs = case_.spec.outputs(), stride = input_stride(outputs);
    const Buffer words = upload(device_, table.words), in = upload(device_, mixed);
    const Buffer out =
        must(device_.allocate_zeroed(std::uint64_t{table.tokens} * stride * 4, "outputs"));
    must(recurrence_->run({weights_, in, states_, out, table, words}));
    const auto all = download<float>(device_, out, std::size_t{table.tokens} * stride);
    std::vector<std::vector<float>> result;
    for (std::uint32_t t = 0; t < table.tokens; ++t) {
      const float* const at = &all[std::size_t{t} * stride];
      result.emplace_back(at, at + outputs);
    }
    return result;
  }

  static constexpr std::uint32_t places = 6;

 private:
  Device& device_;
  const Case& case_;
  const std::vector<std::vector<std::vector<float>>>& sequences_;
  RecurrenceWeights weights_;
  std::optional<Recurrence> recurrence_;
  Buffer states_;
};

class Recurrences : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr std::uint32_t tokens = 37;

  void SetUp() override {
    Random random(7);
    weights_ = random_weights(GetParam().spec, random);
    for (int s = 0; s < 2; ++s) {
      sequences_.emplace_back();
      for (std::uint32_t t = 0; t < tokens; ++t) {
        sequences_.back().push_back(random.floats(GetParam().stride, -1.5f, 1.5f));
      }
    }
  }

  Case case_ = GetParam();
  Weights weights_;
  std::vector<std::vector<std::vector<float>>> sequences_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, Recurrences, ::testing::ValuesIn(cases()),
                         [](const auto& of) { return of.param.name; });

TEST_P(Recurrences, AreThoseOfTheDefinition) {
  const Rows truth = Truth(case_, weights_)(sequences_[0]);
  for (const std::string& family : families()) {
    SCOPED_TRACE(family);
    const auto device = open_device({.variant = family});
    Runner runner(*device, case_, weights_, sequences_);
    const auto got = runner.step({{0, 0, tokens, STEP_NO_SLOT, 2}});
    double worst = 0, size = 0;
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint32_t c = 0; c < case_.spec.outputs(); ++c) {
        worst = std::max(worst, std::fabs(double{got[t][c]} - truth[t][c]));
        size = std::max(size, std::fabs(truth[t][c]));
      }
    }
    EXPECT_GT(size, 0.3);
    EXPECT_LT(worst / size, 3e-6);
  }
}

TEST_P(Recurrences, HaveTheSameBitsInEveryScheduleAndFamily) {
  std::vector<std::vector<float>> want;
  for (const std::string& family : families()) {
    SCOPED_TRACE(family);
    const auto device = open_device({.variant = family});
    Runner runner(*device, case_, weights_, sequences_);
    const auto whole = runner.step({{0, 0, tokens, STEP_NO_SLOT, 2}});
    if (want.empty()) want = whole;
    EXPECT_EQ(whole, want);

    // Single tokens, in one place.
    for (std::uint32_t t = 0; t < tokens; ++t) {
      EXPECT_EQ(runner.step({{0, t, 1, t == 0 ? STEP_NO_SLOT : 1, 1}})[0], want[t]) << t;
    }
    // Pieces from place to place, beside another sequence that comes first.
    auto at = runner.step({{1, 0, 3, STEP_NO_SLOT, 5}, {0, 0, 11, STEP_NO_SLOT, 0}});
    EXPECT_EQ(at[3 + 10], want[10]);
    at = runner.step({{1, 3, 20, 5, 5}, {0, 11, 1, 0, 3}});
    EXPECT_EQ(at[20], want[11]);
    at = runner.step({{0, 12, tokens - 12, 3, 4}, {1, 23, 2, 5, 1}});
    for (std::uint32_t t = 12; t < tokens; ++t) EXPECT_EQ(at[t - 12], want[t]) << t;
    // The place that was read is still there to go on from.
    at = runner.step({{0, 12, 5, 3, 3}});
    EXPECT_EQ(at[4], want[16]);
  }
}

}  // namespace
}  // namespace millrace::testing
