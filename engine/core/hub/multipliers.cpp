#include "engine/core/hub/multipliers.hpp"

namespace millrace::engine {
namespace {

using Number = std::uint32_t;

class Reader {
 public:
  explicit Reader(const Settings& config) : config_(config) {}

  Result<float> one(std::string_view name) const {
    MILLRACE_ASSIGN(const double value, config_.get_or<double>(name, 1.0));
    return static_cast<float>(value);
  }
  Result<std::vector<double>> list(std::string_view name, std::size_t count) const {
    MILLRACE_ASSIGN(auto values,
                    config_.get_or<std::vector<double>>(name, std::vector<double>(count, 1.0)));
    if (values.size() == count) return values;
    return fail(Code::folder_malformed,
                config_.source() + ": " + std::string(name) + " holds " +
                    std::to_string(values.size()) + " values, wanted " + std::to_string(count),
                "the file is damaged: download it again");
  }

  // Rows of gates, channels, keys, queries and steps.
  Result<std::vector<RowFactors>> of_mamba() const {
    MILLRACE_ASSIGN(const auto heads, config_.get<Number>("mamba_n_heads"));
    MILLRACE_ASSIGN(const auto head_dim, config_.get_or<Number>("mamba_d_head", 0));
    MILLRACE_ASSIGN(const auto inner, config_.get_or<Number>("mamba_d_ssm", heads * head_dim));
    MILLRACE_ASSIGN(const auto groups, config_.get<Number>("mamba_n_groups"));
    MILLRACE_ASSIGN(const auto state, config_.get<Number>("mamba_d_state"));
    MILLRACE_ASSIGN(const float all, one("ssm_in_multiplier"));
    const std::uint64_t keys = std::uint64_t{groups} * state;
    const std::uint64_t counts[] = {inner, inner, keys, keys, heads};
    MILLRACE_ASSIGN(const auto parts, list("ssm_multipliers", std::size(counts)));
    std::vector<RowFactors> out;
    for (std::size_t i = 0; i < std::size(counts); ++i) {
      out.push_back({.rows = counts[i], .factors = {all, static_cast<float>(parts[i])}});
    }
    return out;
  }

 private:
  const Settings& config_;
};

}  // namespace

Result<std::vector<Multiplier>> read_multipliers(const HubFamily& family, const Settings& config) {
  std::vector<Multiplier> out;
  if (family.architecture != "falcon-h1") return out;
  const Reader reader(config);
  MILLRACE_ASSIGN(const auto gate_and_down, reader.list("mlp_multipliers", 2));
  MILLRACE_ASSIGN(const float into, reader.one("attention_in_multiplier"));
  MILLRACE_ASSIGN(const float key, reader.one("key_multiplier"));
  MILLRACE_ASSIGN(const float attended, reader.one("attention_out_multiplier"));
  MILLRACE_ASSIGN(const float mixed, reader.one("ssm_out_multiplier"));
  MILLRACE_ASSIGN(const float embedding, reader.one("embedding_multiplier"));
  MILLRACE_ASSIGN(const float logits, reader.one("lm_head_multiplier"));
  MILLRACE_ASSIGN(auto mamba, reader.of_mamba());
  const auto add = [&](std::string tensor, float first, float second = 1.0f) {
    out.push_back({std::move(tensor), {{.factors = {first, second}}}});
  };
  add("token_embd.weight", embedding);
  add("output.weight", logits);
  add("attn_q.weight", into);
  add("attn_k.weight", key, into);
  add("attn_v.weight", into);
  add("attn_output.weight", attended);
  add("ssm_out.weight", mixed);
  add("ffn_gate.weight", static_cast<float>(gate_and_down[0]));
  add("ffn_down.weight", static_cast<float>(gate_and_down[1]));
  out.push_back({"ssm_in.weight", std::move(mamba)});
  return out;
}

}  // namespace millrace::engine
